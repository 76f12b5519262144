//! The image's settings for a Python: the environment, the user's home and the working directory.

use std::collections::BTreeMap;

use crate::file_names::is_interpreter_name;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, Rootfs};

/// The default `PATH` of Docker Engine (`system.DefaultPathEnv`).
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The maximum number of folders in one variable.
const FOLDERS: usize = 256;

/// The settings that a Python reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PythonSettings {
    /// The folders of `PATH`, in order.
    pub path: Vec<RootPath>,
    /// The folders of `PYTHONPATH`, in order.
    pub python_path: Vec<RootPath>,
    /// `PYTHONHOME`: the prefix of the standard library.
    pub home: Option<RootPath>,
    /// Whether the module `site` adds package folders; false with `-S`.
    pub has_sites: bool,
    /// The folder that contains the user's `lib/pythonX.Y/site-packages`; `None` if disabled.
    pub user_base: Option<RootPath>,
    /// `sys.path[0]`: the folder of the image's script, else its working directory; `None` if an option disables it.
    pub start: Option<RootPath>,
    /// The user whose permissions apply.
    pub user: FileCredentials,
    /// The environment, for packages that read it.
    pub variables: BTreeMap<String, String>,
}

/// The inputs of the settings.
#[derive(Clone, Copy)]
pub struct SettingSources<'s> {
    /// The environment of the program.
    pub variables: &'s BTreeMap<String, String>,
    /// The words of the command.
    pub command: &'s [String],
    /// The working directory of the command.
    pub working_dir: &'s str,
    /// The user's credentials in the kernel.
    pub credentials: &'s FileCredentials,
}

/// The options that remove folders from the path (Python/getopt.c, Python/initconfig.c).
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each option is independent of the others")]
struct PythonOptions {
    /// `-E`: ignores all `PYTHON…` variables.
    without_environment: bool,
    /// `-s`: ignores the user's packages.
    without_user: bool,
    /// `-S`: ignores all packages except those of `PYTHONPATH`.
    without_sites: bool,
    /// `-P`: ignores the script's folder and the working directory.
    without_start: bool,
}

impl PythonSettings {
    /// Reads the settings of an image.
    pub fn read(rootfs: &Rootfs, sources: SettingSources<'_>) -> Self {
        let working_dir = RootPath::from(sources.working_dir);
        let options = PythonOptions::read(sources.command);
        // Python treats an empty variable as unset (Python/initconfig.c, `config_get_env`).
        let variable = |key: &str| sources.variables.get(key).filter(|value| !value.is_empty());
        let own_variable = |key: &str| variable(key).filter(|_| !options.without_environment);
        let folders = |value: &str| -> Vec<RootPath> {
            let folders = value.split(':').take(FOLDERS);
            folders.map(|folder| below(&working_dir, folder.as_bytes())).collect()
        };
        let without_user = options.without_user || own_variable("PYTHONNOUSERSITE").is_some();
        // site.py reads this variable itself, regardless of options (`getuserbase`).
        let user_base = || {
            if let Some(base) = variable("PYTHONUSERBASE") {
                return below(&working_dir, base.as_bytes());
            }
            let home = variable("HOME").cloned();
            RootPath::from(home.unwrap_or_default().as_str()).join(b".local")
        };
        let without_start = options.without_start || own_variable("PYTHONSAFEPATH").is_some();
        Self {
            path: folders(variable("PATH").map_or(DEFAULT_PATH, String::as_str)),
            python_path: own_variable("PYTHONPATH").map_or_else(Vec::new, |value| folders(value)),
            // PREFIX:EXEC_PREFIX; packages are below the first.
            home: own_variable("PYTHONHOME").map(|home| {
                let prefix = home.split(':').next().unwrap_or_default();
                below(&working_dir, prefix.as_bytes())
            }),
            has_sites: !options.without_sites,
            user_base: (!without_user).then(user_base),
            start: (!without_start).then(|| start_folder(rootfs, sources.command, &working_dir)),
            user: sources.credentials.clone(),
            variables: sources.variables.clone(),
        }
    }
}

impl PythonOptions {
    /// The options before the script; none if the command is not a Python.
    fn read(command: &[String]) -> Self {
        let mut options = Self::default();
        let mut words = command.iter();
        let program = words.next().and_then(|program| program.rsplit('/').next());
        if !program.is_some_and(|name| is_interpreter_name(name.as_bytes())) {
            return options;
        }
        while let Some(letters) = words.next().and_then(|word| word.strip_prefix('-')) {
            for (at, letter) in letters.char_indices() {
                match letter {
                    'E' => options.without_environment = true,
                    's' => options.without_user = true,
                    'S' => options.without_sites = true,
                    'P' => options.without_start = true,
                    'I' => {
                        options.without_environment = true;
                        options.without_user = true;
                        options.without_start = true;
                    }
                    'W' | 'X' => {
                        // The value is the rest of the word, or the next word.
                        if at + 1 == letters.len() {
                            words.next();
                        }
                        break;
                    }
                    // Everything after these belongs to the program.
                    'c' | 'm' => return options,
                    // Long options such as `--check-hash-based-pycs WORD`.
                    '-' => break,
                    _ => {}
                }
            }
            if letters.is_empty() {
                break;
            }
        }
        options
    }
}

/// Resolves `path` relative to `folder`.
pub fn below(folder: &RootPath, path: &[u8]) -> RootPath {
    if path.starts_with(b"/") {
        RootPath::new(path)
    } else {
        folder.join(path)
    }
}

/// The folder of the started script; else the working directory, as for `-c` and `-m`.
fn start_folder(rootfs: &Rootfs, command: &[String], working_dir: &RootPath) -> RootPath {
    let Some(script) = command.iter().find(|word| word.as_bytes().ends_with(b".py")) else {
        return working_dir.clone();
    };
    let script = below(working_dir, script.as_bytes());
    // A link is resolved: the folder is that of the script itself (Python/pathconfig.c).
    let found = rootfs.lookup(&script.absolute());
    found.map_or(script, |found| found.path).parent()
}
