//! What to look for in layers when auditing a library. This configures the index for the program's checks.

use super::knowledge_base::Knowledge;
use super::packages::PackageManager;
use image_linkage::layer::{IndexOptions, RPM_DATABASES, WantedFiles};
use image_linkage::limits::Limits;

/// The files that identify the system, its packages and their CUDA version.
const KEPT: [&str; 68] = [
    // Scripts that run between the container's command and its program, at their usual paths.
    "/*.sh",
    "/start",
    "/run",
    "/init",
    "/serve",
    "/launch",
    "*/*.sh",
    "*/*/*.sh",
    "*/*/*/*.sh",
    "*entrypoint",
    "*entrypoint*.sh",
    "**/*entrypoint.d/*",
    "/*.py",
    "*/*.py",
    // Files that such scripts and login shells read.
    "/*.env",
    "*/*.env",
    "*/*/*.env",
    "etc/default/*",
    "etc/environment",
    "etc/profile",
    "etc/bash.bashrc",
    "**/etc/profile.d/*.sh",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    "**/bin/activate",
    // Files that conda's activation runs and sets.
    "**/activate.d/*",
    "**/conda-meta/state",
    "**/setvars.sh",
    "*.bash",
    "*.envsh",
    "**/etc/*.sh",
    // A folder of variables, as read by envdir and s6-envdir.
    "**/LD_LIBRARY_PATH",
    "**/LD_PRELOAD",
    // The image's user, and its permissions.
    "etc/passwd",
    "etc/group",
    "etc/os-release",
    "usr/lib/os-release",
    // The package sources: a fix does not set up an existing repository again.
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
    "etc/**/*repos.d/*.repo",
    "var/lib/dpkg/status",
    "var/lib/dpkg/diversions",
    // Distroless images have one file per package instead of a single one.
    "var/lib/dpkg/status.d/*",
    "var/lib/dpkg/info/*cuda*.list",
    "var/lib/dpkg/info/*nvidia*.list",
    "var/lib/dpkg/info/*nsight*.list",
    // The interpreters.
    "var/lib/dpkg/info/python3*-minimal.list",
    "*/**/conda-meta/*cuda*.json",
    "*/**/conda-meta/*nvidia*.json",
    "*/**/conda-meta/*nsight*.json",
    "*/**/conda-meta/*torch*.json",
    "lib/apk/db/installed",
    // Paths in a layer are not resolved: with a merged /usr, tars name the database by this path.
    "usr/lib/apk/db/installed",
    // The requirements of a wheel, such as a pinned nvidia-cuda-cupti, show its CUDA version.
    "**/*.dist-info/METADATA",
    // It lists the files of a distribution, so it shows their owner and which are missing.
    "**/*.dist-info/RECORD",
    // Sources of Python's search path: site.py, which distributions patch, virtual environments, and additions by
    // packages. Model checkpoints also end in .pth, but not in these folders.
    "**/pyvenv.cfg",
    "**/python*/site.py",
    "**/site-packages/*.pth",
    "**/dist-packages/*.pth",
    // Modules that every Python runs at startup if they exist.
    "**/sitecustomize.py",
    "**/usercustomize.py",
    // Code that a package import runs before its modules are loaded.
    "**/__init__.py",
    // The finders of setuptools' import hook, for editable installs.
    "**/site-packages/__editable__*_finder.py",
    "**/dist-packages/__editable__*_finder.py",
    // A toolkit unknown to any package manager states its version only here.
    "usr/local/cuda*/**/version.json",
];

/// Files other than objects that may open or name a library: Python modules, scripts, and settings. An image has
/// thousands; only those that contain its name are kept.
const TEXTS: [&str; 37] = [
    "*.py",
    "*.pyc",
    "*.pl",
    "*.pm",
    "*.rb",
    "*.lua",
    "*.tcl",
    "*.R",
    "*.r",
    "*.m",
    "*.jl",
    "*.ipynb",
    // .NET assemblies, with text in UTF-16.
    "*.dll",
    "*.service",
    "*.js",
    "*.mjs",
    "*.c",
    "*.cc",
    "*.cpp",
    "*.cu",
    "*.xml",
    "*.sh",
    "*.env",
    "*.conf",
    "*.cfg",
    "*.ini",
    "*.json",
    "*.yaml",
    "*.yml",
    "*.toml",
    "**/bin/*",
    // Build files that link a program with the library.
    "Makefile",
    "makefile",
    "*.mk",
    "*.cmake",
    "*.ninja",
    "CMakeLists.txt",
];
/// Excluded: conda's package records, tens of megabytes with every path of an environment, dpkg's scripts, and Python
/// bytecode next to its source.
const NO_TEXTS: [&str; 4] = [
    "**/conda-meta/*",
    "**/pkgs/*/info/**",
    "var/lib/dpkg/**",
    "**/__pycache__/*",
];
/// Text that may be the library's folder without naming the library.
const FOLDERS: [&str; 10] = [
    "/opt",
    "/usr/local/",
    "/srv",
    "/app/",
    "/home/",
    "/root/",
    "/workspace",
    // Launchers by pip and uv, whose first line names the Python interpreter.
    "-script.pyw",
    "-script\\.pyw",
    "removesuffix('.exe')",
];

/// The C library functions that open a library (dlopen(3)).
pub const LIBRARY_OPENERS: [&str; 2] = ["dlopen", "dlmopen"];

/// The C library functions that change the working directory (chdir(2)).
pub const DIRECTORY_CALLS: [&str; 2] = ["chdir", "fchdir"];
/// The C library functions that change an environment variable (environ(7)).
pub const ENVIRONMENT_CALLS: [&str; 3] = ["setenv", "putenv", "unsetenv"];
/// Other signs that a program prepares an environment: symbols that clear it, pass it on, or access it.
const ENVIRONMENT_MARKS: [&str; 5] = ["clearenv", "posix_spawn", "environ", "__environ", "_environ"];
/// The C library functions that replace the process image (exec(3)).
pub const EXECUTES: [&str; 7] = ["execv", "execvp", "execl", "execlp", "execve", "execle", "execvpe"];
/// The variable that the loader searches before its default directories (ld.so(8)). Programs that set up other
/// processes name it.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The index options for an audit about CUPTI, for callers without a knowledge base.
pub fn cupti_options() -> IndexOptions {
    library_options(&Knowledge::built_in())
}

/// The index options for an audit: default limits, and everything known about the library.
pub fn library_options(knowledge: &Knowledge) -> IndexOptions {
    let library = knowledge.library;
    let uses = knowledge.tables.dead_weight.kinds.iter().flat_map(|kind| &kind.used_by);
    let tools = uses.flat_map(|used| &used.words).cloned();
    let word = &library.package_word;
    // An image has hundreds of both kinds of file. Keep only those of packages that may contain the library.
    let of_library = [
        format!("var/lib/dpkg/info/*{word}*.list"),
        format!("*/**/conda-meta/*{word}*.json"),
    ];
    let packages = &knowledge.tables.packages;
    let checked = packages.checked.iter().filter_map(|package| match package.manager {
        PackageManager::System => Some(format!(
            "var/lib/dpkg/info/{}*.list",
            package.name.trim_end_matches('*')
        )),
        PackageManager::Conda => Some(format!("*/**/conda-meta/{}*.json", package.name.trim_end_matches('*'))),
        // All lists of Python distributions are kept anyway.
        PackageManager::Pip => None,
    });
    let header = library.header_version.iter().map(|header| header.file.clone());
    let kept = KEPT.iter().map(|text| (*text).to_owned());
    let rpm = RPM_DATABASES.iter().map(|path| (*path).to_owned());
    let hashed = library.family.iter().filter_map(|member| member.hashed.as_ref());
    let names = library.family.iter().filter_map(|member| member.mentioned.clone());
    let own_version = library.own_version.iter().map(|own| own.begin.clone());
    // An empty prefix would keep every symbol of every object.
    let own = Some(&library.symbols).filter(|own| !own.is_empty());
    let symbols = own.into_iter().chain(&library.companion_symbols).cloned();
    // An object that imports none of these opens nothing, whatever text it contains.
    let openers = LIBRARY_OPENERS
        .iter()
        .chain(&DIRECTORY_CALLS)
        .chain(&ENVIRONMENT_CALLS)
        .chain(&ENVIRONMENT_MARKS)
        .chain(&EXECUTES)
        .map(|name| (*name).to_owned());
    // A link with any name may lead to the library.
    let file_names = [".so", LIBRARY_PATH].map(str::to_owned);
    let flags = knowledge
        .consumers
        .iter()
        .filter_map(|consumer| consumer.build.as_ref())
        .flat_map(|build| build.words().map(String::clone));
    let texts = library
        .functions
        .iter()
        .cloned()
        .chain(own_version)
        .chain(file_names)
        .chain(flags);
    let stems = library.companions().chain([library.file_stem()]);
    IndexOptions {
        limits: Limits::default(),
        interest: WantedFiles {
            kept: kept.chain(rpm).chain(of_library).chain(checked).chain(header).collect(),
            // Only the prefix: the rest is a version, which may be newer than the table.
            hashed: hashed.map(|begin| format!("{begin}*")).collect(),
            names: names.chain(texts).collect(),
            symbol_prefixes: symbols.chain(openers).collect(),
            texts: TEXTS.iter().map(|text| (*text).to_owned()).collect(),
            no_texts: NO_TEXTS.iter().map(|text| (*text).to_owned()).collect(),
            // A script may open the library by a computed name.
            text_words: (stems.chain([LIBRARY_PATH, &*library.header]).chain(FOLDERS))
                .chain(knowledge.tables.shared_folders.openers())
                .flat_map(|word| [word.to_owned(), in_utf16(word)])
                .collect(),
            noted_words: tools.collect(),
        }
        .into(),
    }
}

/// The UTF-16 form of a word in either byte order, without the outer zeros.
fn in_utf16(word: &str) -> String {
    let letters: Vec<String> = word.chars().map(String::from).collect();
    letters.join("\0")
}

#[cfg(test)]
mod tests {
    use image_linkage::layer::{ExpectedBlob, LayerEntry, index_layer};
    use testkit::layer::Layer;

    use super::cupti_options;

    /// Whether the file at `path` is kept, and whether it is hashed.
    fn read(path: &str) -> (bool, bool) {
        let tar = Layer::new().file(path, b"x").tar();
        let index = index_layer("x", tar.as_slice(), &ExpectedBlob::default(), &cupti_options()).unwrap();
        match index.entries.get(path.as_bytes()) {
            Some(LayerEntry::File(facts)) => (facts.kept.is_some(), facts.sha256.is_some()),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn files_that_later_stages_read_are_kept_and_others_are_not() {
        for path in [
            "etc/os-release",
            "etc/passwd",
            "var/lib/dpkg/info/cuda-cupti-12-4.list",
            "var/lib/dpkg/info/python3.11-minimal.list",
            "opt/venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA",
            "opt/venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/RECORD",
            "opt/conda/conda-meta/cuda-cupti-12.4.127-0.json",
            "etc/apt/sources.list.d/debian.sources",
            "etc/yum.repos.d/cuda-rhel9.repo",
            "etc/zypp/repos.d/nvidia.repo",
            "usr/local/cuda-12.4/version.json",
            "a/include/cupti_version.h",
            "run.sh",
            "app/main.py",
            "usr/lib/python3/dist-packages/sitecustomize.py",
            "app/start.sh",
            "usr/local/bin/docker-entrypoint.sh",
            "opt/nvidia/entrypoint.d/10-banner.sh",
            "opt/venv/pyvenv.cfg",
            "opt/venv/bin/activate",
            "etc/cuda.env",
            "etc/profile",
            "home/app/.bashrc",
            "usr/lib/python3.11/site.py",
            "opt/venv/lib/python3.11/site-packages/extra.pth",
            "etc/passwd",
        ] {
            assert!(read(path).0, "{path}");
        }
        for path in [
            "models/checkpoint.pth",
            "etc/shadow",
            "etc/apt/trusted.gpg",
            "var/lib/dpkg/info/bash.list",
            "x/RECORD",
            "a/b/c/d/e.sh",
            "usr/bin/start",
            "conda-meta/cuda-12.json",
        ] {
            assert!(!read(path).0, "{path}");
        }
    }

    #[test]
    fn a_module_is_kept_where_it_holds_the_name() {
        let keeps = |path: &str, text: &str| {
            let tar = Layer::new().file(path, text).tar();
            let index = index_layer("x", tar.as_slice(), &ExpectedBlob::default(), &cupti_options()).unwrap();
            matches!(index.entries.get(path.as_bytes()), Some(LayerEntry::File(facts)) if facts.kept.is_some())
        };
        let opens = "ctypes.CDLL('libcupti.so.12')";
        assert!(keeps("app/own/module.py", opens));
        assert!(keeps("app/own/module.py", "os.environ['LD_LIBRARY_PATH']"));
        assert!(keeps("app/settings.json", "/opt/lib/libnvperf_host.so"));
        assert!(keeps("srv/bin/launch", opens));
        assert!(!keeps("srv/bin/program", &format!("\u{7f}ELF{opens}")));
        assert!(!keeps("app/own/module.py", "import torch"));
        assert!(!keeps("app/own/module.py", "subprocess.run(['ptxas'])"));
        assert!(!keeps("app/own/module.txt", opens));
        let folder = r#"{"from": "/opt/conda/pkgs/x"}"#;
        assert!(keeps("opt/app/a/b/settings.json", folder));
        assert!(!keeps("opt/conda/conda-meta/x-1.json", folder));
        let long = format!("{opens}{}", "#".repeat(1 << 20));
        assert!(!keeps("app/own/module.py", &long));
    }

    #[test]
    fn only_libraries_of_a_cupti_release_are_hashed() {
        assert!(read("a/libcupti.so.2024.1.1").1);
        assert!(read("a/libnvperf_host.so").1);
        assert!(!read("a/libcuptihelper.so").1);
    }
}
