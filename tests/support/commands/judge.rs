//! The judge runs the real command in the image's root file system, with the image's user and environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::base::{ANSWERS, Base, TRAIN, place};
use super::image::{Image, Program};

/// The program's result.
#[derive(Debug, Clone)]
pub struct Real {
    /// Whether it got the library; `None` if the command did not start the program.
    pub loaded: Option<bool>,
    /// Its `LD_LIBRARY_PATH`, or `-` if not set.
    pub path: String,
    /// The command's last output.
    pub said: String,
}

/// Runs the command of an image.
pub fn run(base: &Base, image: &Image, root: &Path) -> Real {
    let said = run_once(image, root);
    if let Some((loaded, path)) = answer(root) {
        return Real {
            loaded: Some(loaded),
            path,
            said,
        };
    }
    if image.program != Program::Linked {
        return Real {
            loaded: None,
            path: String::new(),
            said,
        };
    }
    // The linked program cannot start without the library. A second run with the other program shows whether it is
    // reached.
    place(root, TRAIN, &fs::read(base.path(TRAIN)).unwrap(), 0o755);
    let said = run_once(image, root);
    let (loaded, path) = answer(root).map_or((None, String::new()), |(_, path)| (Some(false), path));
    Real { loaded, path, said }
}

fn run_once(image: &Image, root: &Path) -> String {
    let said = tempfile::NamedTempFile::new().unwrap();
    // Scripts reopen it through /dev/stderr, possibly as another user.
    fs::set_permissions(said.path(), fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "10", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    command
        .arg(format!("--mount-proc={}/proc", root.display()))
        .arg("chroot");
    let user = image.case.user.as_deref();
    let home = if user == Some("app") {
        command.args(["--userspec=1000:1000", "--groups=1000"]);
        "/home/app"
    } else {
        assert!(matches!(user, None | Some("root")), "{user:?}");
        "/root"
    };
    command
        .arg(root)
        .args(["/usr/bin/env", "-i", "-C", image.case.workdir.as_deref().unwrap_or("/")]);
    if !image.case.env.iter().any(|(name, _)| name == "HOME") {
        command.arg(format!("HOME={home}"));
    }
    command.args(image.case.env.iter().map(|(name, value)| format!("{name}={value}")));
    let output = || Stdio::from(said.reopen().unwrap());
    let run = command
        .args(image.words())
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output());
    let status = run.status().unwrap();
    let text = String::from_utf8_lossy(&fs::read(said.path()).unwrap()).into_owned();
    let lines: Vec<&str> = text.trim_end().lines().rev().take(3).collect();
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    format!("{status}: {}", lines.join(" / "))
}

/// The last result that the program wrote.
fn answer(root: &Path) -> Option<(bool, String)> {
    let text = fs::read_to_string(root.join(ANSWERS).join("answers")).ok()?;
    let (outcome, path) = text.lines().last()?.split_once(' ')?;
    Some((outcome == "loaded", path.to_owned()))
}
