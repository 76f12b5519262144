//! What an image says to a Python that is started in it: its environment, its user's home, its working directory.

use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The folders in which programs are looked for where the image does not say it, as engines set them.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The folders of one variable that are looked at, at most.
const FOLDERS: usize = 256;

/// What a Python reads of its surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::judge::facts) struct PythonSettings {
    /// The folders of `PATH`, in order.
    pub path: Vec<RootPath>,
    /// The folders of `PYTHONPATH`, in order.
    pub python_path: Vec<RootPath>,
    /// `PYTHONHOME`: the prefix of the standard library.
    pub home: Option<RootPath>,
    /// The folder that holds `lib/pythonX.Y/site-packages` of the user; `None` where that is turned off.
    pub user_base: Option<RootPath>,
    /// `sys.path[0]`: the folder of the script that the image starts, else its working directory.
    pub start: RootPath,
}

/// What the settings are made of.
pub(in crate::judge::facts) struct SettingSources<'s> {
    /// The value of a variable of the environment.
    pub variable: &'s dyn Fn(&str) -> Option<&'s str>,
    /// The words of the entrypoint and the command.
    pub command: &'s [String],
    /// The folder in which the command starts.
    pub working_dir: &'s str,
    /// `USER` of the image.
    pub user: &'s str,
}

impl PythonSettings {
    /// Reads the settings of an image.
    pub fn read(rootfs: &Rootfs, sources: &SettingSources<'_>) -> Self {
        let working_dir = RootPath::from(sources.working_dir);
        // Python takes an empty variable as one that is not set (Python/initconfig.c, `config_get_env`).
        let variable = |key: &str| (sources.variable)(key).filter(|value| !value.is_empty());
        let folders = |value: &str| -> Vec<RootPath> {
            let folders = value.split(':').take(FOLDERS);
            folders.map(|folder| below(&working_dir, folder.as_bytes())).collect()
        };
        let user_base = match (variable("PYTHONNOUSERSITE"), variable("PYTHONUSERBASE")) {
            (Some(_), _) => None,
            (None, Some(base)) => Some(below(&working_dir, base.as_bytes())),
            (None, None) => Some(home(rootfs, variable("HOME"), sources.user).join(b".local")),
        };
        Self {
            path: folders(variable("PATH").unwrap_or(DEFAULT_PATH)),
            python_path: variable("PYTHONPATH").map(folders).unwrap_or_default(),
            // PREFIX:EXEC_PREFIX; packages are looked for below the first.
            home: variable("PYTHONHOME").map(|home| {
                let prefix = home.split(':').next().unwrap_or_default();
                below(&working_dir, prefix.as_bytes())
            }),
            user_base,
            start: start_folder(sources.command, &working_dir),
        }
    }
}

/// `path` as seen from `folder`.
pub(super) fn below(folder: &RootPath, path: &[u8]) -> RootPath {
    if path.starts_with(b"/") {
        RootPath::new(path)
    } else {
        folder.join(path)
    }
}

/// The folder of the script that is started, else the working directory, as for `-c` and `-m`.
fn start_folder(command: &[String], working_dir: &RootPath) -> RootPath {
    let script = command.iter().find(|word| word.as_bytes().ends_with(b".py"));
    script.map_or_else(
        || working_dir.clone(),
        |script| below(working_dir, script.as_bytes()).parent(),
    )
}

/// The home directory that an engine sets for the user: `HOME` where it is set, else that of `/etc/passwd`, else `/`.
fn home(rootfs: &Rootfs, variable: Option<&str>, user: &str) -> RootPath {
    if let Some(home) = variable {
        return home.into();
    }
    let user = user.split(':').next().unwrap_or_default();
    let user = if user.is_empty() { "0" } else { user };
    let passwd = rootfs.content(b"/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(passwd);
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = lines.find(|fields| fields.first() == Some(&user) || fields.get(2) == Some(&user));
    entry
        .and_then(|fields| fields.get(5).map(|home| RootPath::from(*home)))
        .unwrap_or_default()
}
