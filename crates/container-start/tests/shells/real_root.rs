//! Root directories with real shells and tools. Each `sh` has a template; an overlay adds the files of a case.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use container_start::{FileKind, FileStat, ImageFiles};

use super::case_file::{Case, Shell};

/// The tools of the Debian roots.
const TOOLS: &str = "bash dash [ arch awk basename cat chmod chown chrt comm cp cut date dd dirname egrep env expr false \
    fgrep find flock getent getopt grep groups head hostname id install ionice ldd ln locale logger ls md5sum mkdir mkfifo \
    mktemp mountpoint mv nice nohup nproc numfmt od paste prlimit printenv printf pwd readlink realpath rev rm rmdir \
    run-parts sed seq setpriv setsid sha256sum sleep sort stat stdbuf su sync tac tail taskset tee test timeout touch tr \
    true tty uname uniq unshare wc which whoami xargs yes";
/// More tools, in `usr/sbin`.
const SYSTEM_TOOLS: &str = "ldconfig runuser chroot start-stop-daemon unix_chkpwd";
/// Files and folders that login shells, PAM and the loader read.
const SETTINGS: &str = "etc/pam.d etc/security etc/profile etc/profile.d etc/bash.bashrc etc/login.defs etc/nsswitch.conf \
    etc/passwd etc/group etc/shadow etc/shells etc/ld.so.conf etc/ld.so.conf.d etc/ld.so.cache etc/debian_version \
    usr/lib/os-release etc/os-release etc/default etc/environment root/.bashrc root/.profile \
    usr/lib/x86_64-linux-gnu/security usr/libexec/coreutils \
    usr/lib/x86_64-linux-gnu/libnss_files.so.2 usr/lib/x86_64-linux-gnu/libnss_compat.so.2";
/// Directories of every root.
const FOLDERS: &str = "proc dev sys run var/log var/tmp srv home mnt media opt root etc usr/local/bin usr/local/lib";
/// The programs of the cases. All of them are copies of the probe.
const PROBES: &str = "opt/app/bin/train opt/app/bin/serve usr/local/bin/app usr/local/bin/worker usr/local/bin/python3";
/// A dynamically linked copy of the probe, in the Debian roots.
const DYNAMIC_PROBE: &str = "opt/app/bin/dynamic";

/// A root without the files of a case.
pub struct Template {
    /// Its directory.
    pub path: PathBuf,
    /// The canonical paths of files that distribution packages own.
    packaged: BTreeSet<String>,
}

impl Template {
    /// A Debian root whose `sh` is `shell`, with the launchers.
    pub fn debian(path: PathBuf, debian: &Path, launchers: &Path, shell: &str) -> Self {
        let mut files: Vec<String> = SETTINGS.split_whitespace().map(str::to_owned).collect();
        files.extend(TOOLS.split_whitespace().map(|tool| format!("usr/bin/{tool}")));
        files.extend(SYSTEM_TOOLS.split_whitespace().map(|tool| format!("usr/sbin/{tool}")));
        make_folders(&path);
        for name in ["bin", "sbin", "lib", "lib64"] {
            fs::create_dir_all(path.join("usr").join(name)).unwrap();
            symlink(format!("usr/{name}"), path.join(name)).unwrap();
        }
        for file in &files {
            take(debian, &path, file);
        }
        for library in libraries(debian, &files) {
            take(debian, &path, library.trim_start_matches('/'));
        }
        for folder in ["bin", "sbin", "lib", "usr", "etc/pam.d", "etc/sudoers", "etc/sudo.conf"] {
            overlay(&launchers.join(folder), &path.join(folder));
        }
        symlink(shell, path.join("usr/bin/sh")).unwrap();
        add_user(&path, "/bin/bash");
        let mut packaged = package_lists(debian);
        let added = Command::new("find")
            .arg(launchers)
            .arg("-type")
            .arg("f")
            .output()
            .unwrap();
        let added = String::from_utf8(added.stdout).unwrap();
        packaged.extend(
            added
                .lines()
                .filter_map(|line| line.strip_prefix(launchers.to_str().unwrap()).map(str::to_owned)),
        );
        let resolved = packaged.iter().filter_map(|file| resolve_in(&[&path], file)).collect();
        Self {
            path,
            packaged: resolved,
        }
    }

    /// A root in which every program is `BusyBox`.
    pub fn busybox(path: PathBuf, launchers: &Path) -> Self {
        make_folders(&path);
        for folder in ["bin", "sbin", "usr/bin", "usr/sbin"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let busybox = launchers.join("bin/busybox");
        fs::copy(&busybox, path.join("bin/busybox")).unwrap();
        let applets = Command::new(&busybox).arg("--list-full").output().unwrap();
        for applet in String::from_utf8(applets.stdout)
            .unwrap()
            .lines()
            .filter(|applet| *applet != "bin/busybox")
        {
            symlink("/bin/busybox", path.join(applet)).unwrap();
        }
        let mut packaged = BTreeSet::from(["/bin/busybox".to_owned()]);
        for name in ["gosu", "tini-static", "s6-setuidgid"] {
            let found = ["usr/sbin", "usr/bin"]
                .iter()
                .map(|folder| launchers.join(folder).join(name));
            for from in found.filter(|from| name != "s6-setuidgid" && from.is_file()) {
                let to = format!("usr/sbin/{name}");
                fs::copy(from, path.join(&to)).unwrap();
                packaged.insert(format!("/{to}"));
            }
        }
        fs::write(path.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(path.join("etc/group"), "root:x:0:\n").unwrap();
        fs::write(path.join("etc/shadow"), "root:*:19000:0:99999:7:::\n").unwrap();
        let profile = "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
            for script in /etc/profile.d/*.sh; do\n\tif [ -r \"$script\" ]; then\n\t\t. \"$script\"\n\tfi\ndone\nunset script\n";
        fs::write(path.join("etc/profile"), profile).unwrap();
        packaged.insert("/etc/profile".to_owned());
        add_user(&path, "/bin/sh");
        Self { path, packaged }
    }

    /// Copies the probe to all its names.
    pub fn add_probes(&self, probe: &Path, dynamic: Option<&Path>) {
        let names = PROBES.split_whitespace().map(|name| (name, probe));
        for (name, from) in names.chain(dynamic.map(|from| (DYNAMIC_PROBE, from))) {
            let to = self.path.join(name);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }

    /// Writes the files of a case to the upper directory.
    pub fn fill(&self, upper: &Path, case: &Case, shell: Shell) {
        fs::set_permissions(upper, fs::Permissions::from_mode(0o755)).unwrap();
        let log = upper.join("probe.log");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
        for folder in &case.folders {
            let to = self.make_folder(upper, &folder.path);
            fs::set_permissions(&to, fs::Permissions::from_mode(folder.mode)).unwrap();
            chown(&to, Some(folder.owner), Some(folder.owner)).unwrap();
        }
        for file in case.files_for(shell) {
            let to = self.place(upper, &file.path);
            fs::write(&to, &file.text).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(file.mode)).unwrap();
        }
        for (path, target) in &case.links {
            symlink(target, self.place(upper, path)).unwrap();
        }
    }

    /// The host path for a new file of a case. Creates its directory.
    fn place(&self, upper: &Path, path: &str) -> PathBuf {
        let (folder, name) = path.rsplit_once('/').unwrap();
        self.make_folder(upper, folder).join(name)
    }

    /// Creates a directory of a case. Each component gets the owner and mode of the template.
    fn make_folder(&self, upper: &Path, path: &str) -> PathBuf {
        let roots = [upper, &self.path];
        let mut here = "/".to_owned();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let next = format!("{}/{name}", here.trim_end_matches('/'));
            here = resolve_in(&roots, &next).unwrap_or(next);
            let to = upper.join(here.trim_start_matches('/'));
            if !to.exists() {
                fs::create_dir(&to).unwrap();
                if let Ok(facts) = fs::metadata(self.path.join(here.trim_start_matches('/'))) {
                    fs::set_permissions(&to, facts.permissions()).unwrap();
                    chown(&to, Some(facts.uid()), Some(facts.gid())).unwrap();
                }
            }
        }
        upper.join(here.trim_start_matches('/'))
    }
}

fn make_folders(path: &Path) {
    for folder in FOLDERS.split_whitespace() {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    fs::create_dir_all(path.join("home/app")).unwrap();
    chown(path.join("home/app"), Some(1000), Some(1000)).unwrap();
    fs::create_dir_all(path.join("tmp")).unwrap();
    fs::set_permissions(path.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
}

/// Copies a file or directory. For a link, copies its target, too.
fn take(from: &Path, to: &Path, name: &str) {
    let source = from.join(name);
    let Ok(facts) = fs::symlink_metadata(&source) else {
        return;
    };
    let target = to.join(name);
    if fs::symlink_metadata(&target).is_ok() && !facts.is_dir() {
        return;
    }
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    if facts.is_dir() {
        fs::create_dir_all(&target).unwrap();
        for entry in fs::read_dir(&source).unwrap() {
            take(
                from,
                to,
                &format!("{name}/{}", entry.unwrap().file_name().to_str().unwrap()),
            );
        }
    } else if facts.is_symlink() {
        let leads = fs::read_link(&source).unwrap();
        symlink(&leads, &target).unwrap();
        let next = Path::new("/").join(name).parent().unwrap().join(&leads);
        if let Some(next) = resolve_parent(&[from], next.to_str().unwrap()) {
            take(from, to, next.trim_start_matches('/'));
        }
    } else {
        fs::copy(&source, &target).unwrap();
        fs::set_permissions(&target, facts.permissions()).unwrap();
    }
}

/// Copies the files of a directory into another one. Directories of the target may be links.
fn overlay(from: &Path, to: &Path) {
    let Ok(facts) = fs::symlink_metadata(from) else { return };
    if facts.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            overlay(&from.join(&name), &to.join(&name));
        }
    } else if fs::symlink_metadata(to).is_err() {
        if facts.is_symlink() {
            symlink(fs::read_link(from).unwrap(), to).unwrap();
        } else {
            fs::copy(from, to).unwrap();
            // The copy belongs to root, and chown cleared its set-ID bits.
            fs::set_permissions(to, facts.permissions()).unwrap();
        }
    }
}

/// The libraries that ldd lists for the programs of the Debian root.
fn libraries(debian: &Path, files: &[String]) -> BTreeSet<String> {
    let programs = files
        .iter()
        .filter(|file| file.contains("bin/"))
        .map(|file| format!("/{file}"));
    let modules = "/usr/lib/x86_64-linux-gnu/security/";
    let modules =
        ["pam_unix", "pam_limits", "pam_env", "pam_mail", "pam_rootok"].map(|name| format!("{modules}{name}.so"));
    let mut command = Command::new("chroot");
    let output = command
        .arg(debian)
        .arg("/usr/bin/ldd")
        .args(programs)
        .args(modules)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = output
        .split_whitespace()
        .filter(|word| word.starts_with('/') && word.contains(".so"));
    let mut found: BTreeSet<String> = paths.map(|path| path.trim_end_matches(':').to_owned()).collect();
    // sudo needs it, too.
    found.insert("/lib/x86_64-linux-gnu/libz.so.1".to_owned());
    found
        .into_iter()
        .filter_map(|path| resolve_parent(&[debian], &path))
        .collect()
}

/// The files that dpkg lists for its packages.
fn package_lists(debian: &Path) -> BTreeSet<String> {
    let lists = fs::read_dir(debian.join("var/lib/dpkg/info")).unwrap();
    let lists = lists.map(|entry| entry.unwrap().path());
    let lists = lists.filter(|path| path.extension().is_some_and(|extension| extension == "list"));
    let texts = lists.map(|path| fs::read_to_string(path).unwrap());
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn add_user(path: &Path, shell: &str) {
    for (file, line) in [
        ("etc/passwd", format!("app:x:1000:1000:App:/home/app:{shell}\n")),
        ("etc/group", "app:x:1000:\n".to_owned()),
        ("etc/shadow", "app:*:19000:0:99999:7:::\n".to_owned()),
    ] {
        let file = path.join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text + &line).unwrap();
    }
}

/// The merged files of case and template, as the reader sees them.
pub struct RootFiles<'a> {
    upper: PathBuf,
    template: &'a Template,
    case: BTreeSet<String>,
    contents: RefCell<BTreeMap<String, &'static [u8]>>,
}

impl<'a> RootFiles<'a> {
    /// The files of a root filled with this case.
    pub fn new(upper: &Path, template: &'a Template, case: &Case, shell: Shell) -> Self {
        let files = case.files_for(shell).into_iter().map(|file| file.path);
        let paths = files.chain(case.links.iter().map(|(path, _)| path.clone()));
        let roots = [upper, &*template.path];
        Self {
            upper: upper.to_owned(),
            template,
            case: paths.filter_map(|path| resolve_in(&roots, &path)).collect(),
            contents: RefCell::default(),
        }
    }

    fn roots(&self) -> [&Path; 2] {
        [&self.upper, &self.template.path]
    }
}

impl ImageFiles for RootFiles<'_> {
    fn resolve(&self, path: &str) -> Option<String> {
        resolve_in(&self.roots(), path).filter(|path| path != "/probe.log")
    }

    fn stat(&self, path: &str) -> Option<FileStat> {
        let (path, facts) = find(&self.roots(), &self.resolve(path)?)?;
        let kind = if facts.is_dir() {
            FileKind::Directory
        } else if !facts.is_file() {
            FileKind::Special
        } else if is_object(&path) {
            FileKind::Object
        } else {
            FileKind::Regular
        };
        Some(FileStat {
            kind,
            mode: facts.mode() & 0o7777,
            bytes: facts.len(),
        })
    }

    fn is_link(&self, path: &str) -> bool {
        let path = resolve_parent(&self.roots(), path).unwrap_or_default();
        find(&self.roots(), &path).is_some_and(|(_, facts)| facts.is_symlink())
    }

    fn read(&self, path: &str) -> Option<&[u8]> {
        let path = self.resolve(path)?;
        let mut contents = self.contents.borrow_mut();
        if let Some(content) = contents.get(&path) {
            return Some(content);
        }
        // Leaking is fine: the test process is short and the scripts are small.
        let content: &'static [u8] = fs::read(find(&self.roots(), &path)?.0).ok()?.leak();
        contents.insert(path, content);
        Some(content)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Some(path) = self.resolve(path) else {
            return Vec::new();
        };
        let folders = self.roots().map(|root| root.join(path.trim_start_matches('/')));
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names: BTreeSet<String> = names.filter(|name| path != "/" || name != "probe.log").collect();
        names.into_iter().collect()
    }

    fn is_packaged(&self, path: &str) -> bool {
        let path = self.resolve(path).unwrap_or_default();
        self.template.packaged.contains(&path) && !self.case.contains(&path)
    }
}

fn is_object(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF"
}

/// The host path of a canonical path, in the first root that has it.
fn find(roots: &[&Path], path: &str) -> Option<(PathBuf, fs::Metadata)> {
    roots.iter().find_map(|root| {
        let path = root.join(path.trim_start_matches('/'));
        let facts = fs::symlink_metadata(&path).ok()?;
        Some((path, facts))
    })
}

/// Resolves the links of the parent directory, not of the last component.
fn resolve_parent(roots: &[&Path], path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/')?;
    let folder = resolve_in(roots, folder)?;
    Some(format!("{}/{name}", folder.trim_end_matches('/')))
}

/// Follows links within the roots, as the kernel does after chroot(2). Earlier roots shadow later ones.
pub fn resolve_in(roots: &[&Path], path: &str) -> Option<String> {
    let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut done: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        match &*name {
            "" | "." => continue,
            ".." => {
                done.pop();
                continue;
            }
            _ => done.push(name),
        }
        let (here, facts) = find(roots, &done.join("/"))?;
        if facts.is_symlink() {
            links += 1;
            let target = fs::read_link(&here).ok()?.to_str()?.to_owned();
            if target.starts_with('/') {
                done.clear();
            } else {
                done.pop();
            }
            left.extend(target.split('/').rev().map(str::to_owned));
        } else if !facts.is_dir() && left.iter().any(|name| !name.is_empty()) {
            return None;
        }
        if links > 40 {
            return None;
        }
    }
    Some(format!("/{}", done.join("/")))
}
