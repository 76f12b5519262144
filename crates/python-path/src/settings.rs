//! What an image says to a Python that is started in it: its environment, its user's home, its working directory.

use std::collections::BTreeMap;

use crate::file_names::is_interpreter_name;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, Rootfs};

/// The folders of programs where an image sets no `PATH` (Docker Engine, `system.DefaultPathEnv`).
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders of one variable that are looked at, at most.
const FOLDERS: usize = 256;

/// What a Python reads of its surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PythonSettings {
    /// The folders of `PATH`, in order.
    pub path: Vec<RootPath>,
    /// The folders of `PYTHONPATH`, in order.
    pub python_path: Vec<RootPath>,
    /// `PYTHONHOME`: the prefix of the standard library.
    pub home: Option<RootPath>,
    /// Whether the module `site` adds folders of packages: not with `-S`.
    pub has_sites: bool,
    /// The folder that holds `lib/pythonX.Y/site-packages` of the user; `None` where that is turned off.
    pub user_base: Option<RootPath>,
    /// `sys.path[0]`: the folder of the script that the image starts, else its working directory; `None` where it is
    /// turned off by an option.
    pub start: Option<RootPath>,
    /// Who lists the folders.
    pub user: FileCredentials,
    /// The environment, for packages that look into it.
    pub variables: BTreeMap<String, String>,
}

/// What the settings are made of.
#[derive(Clone, Copy)]
pub struct SettingSources<'s> {
    /// The environment of the program.
    pub variables: &'s BTreeMap<String, String>,
    /// The words of the command that starts it.
    pub command: &'s [String],
    /// The folder in which the command starts.
    pub working_dir: &'s str,
    /// What the kernel compares of that user.
    pub credentials: &'s FileCredentials,
}

/// The options by which a Python looks into fewer folders (Python/getopt.c, Python/initconfig.c).
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each option is given or not, whatever the others"
)]
struct PythonOptions {
    /// `-E`: no variable `PYTHON…` counts.
    without_environment: bool,
    /// `-s`: no packages of the user.
    without_user: bool,
    /// `-S`: no packages at all but those of `PYTHONPATH`.
    without_sites: bool,
    /// `-P`: neither the script's folder nor the working directory.
    without_start: bool,
}

impl PythonSettings {
    /// Reads the settings of an image.
    pub fn read(rootfs: &Rootfs, sources: SettingSources<'_>) -> Self {
        let working_dir = RootPath::from(sources.working_dir);
        let options = PythonOptions::read(sources.command);
        // Python takes an empty variable as one that is not set (Python/initconfig.c, `config_get_env`).
        let variable = |key: &str| sources.variables.get(key).filter(|value| !value.is_empty());
        let own_variable = |key: &str| variable(key).filter(|_| !options.without_environment);
        let folders = |value: &str| -> Vec<RootPath> {
            let folders = value.split(':').take(FOLDERS);
            folders.map(|folder| below(&working_dir, folder.as_bytes())).collect()
        };
        let without_user = options.without_user || own_variable("PYTHONNOUSERSITE").is_some();
        // site.py asks for this one itself, whatever the options (`getuserbase`).
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
            // PREFIX:EXEC_PREFIX; packages are looked for below the first.
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
    /// The options in front of the script; none where the command starts something else.
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
                        // The value is the rest of the word, or the next one.
                        if at + 1 == letters.len() {
                            words.next();
                        }
                        break;
                    }
                    // What stands behind these is for the program.
                    'c' | 'm' => return options,
                    // `--check-hash-based-pycs WORD` and its like.
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

/// `path` as seen from `folder`.
pub fn below(folder: &RootPath, path: &[u8]) -> RootPath {
    if path.starts_with(b"/") {
        RootPath::new(path)
    } else {
        folder.join(path)
    }
}

/// The folder of the script that is started, else the working directory, as for `-c` and `-m`.
fn start_folder(rootfs: &Rootfs, command: &[String], working_dir: &RootPath) -> RootPath {
    let Some(script) = command.iter().find(|word| word.as_bytes().ends_with(b".py")) else {
        return working_dir.clone();
    };
    let script = below(working_dir, script.as_bytes());
    // A link is followed: modules are looked for beside the script itself (Python/pathconfig.c).
    let found = rootfs.lookup(&script.absolute());
    found.map_or(script, |found| found.path).parent()
}
