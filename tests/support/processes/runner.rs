//! Starts an image's processes in a folder like an engine would, and reports each result.

use std::fs;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use image_linkage::digest::to_hex;

use super::base::Base;
use super::layers::{self, Member};
use super::spec::ImageSpec;
use super::users::{self, Credentials};
use crate::support;

/// The real result of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It got CUPTI from this file.
    Gets(String),
    /// It got nothing; this is its last output.
    Not(String),
}

/// An image applied to a folder.
pub struct Root {
    folder: tempfile::TempDir,
    capable: Vec<(String, Vec<u8>)>,
}

impl Root {
    /// Applies the layers of an image.
    pub fn new(base: &Base, layers: &[Vec<Member>], lent: &[(&str, &[u8])]) -> Self {
        let folder = base.root();
        let mut capable: Vec<(String, Vec<u8>)> = Vec::new();
        for layer in layers {
            capable.extend(layers::unpack(layer, folder.path()));
        }
        // A later layer may have replaced a file with capabilities by one without.
        let is_last = |path: &str| {
            let mut all = layers.iter().flatten().rev();
            all.find(|member| member.path == path)
                .is_some_and(|last| last.capability.is_some())
        };
        capable.retain(|(path, _)| is_last(path));
        for (path, bytes) in lent {
            let at = folder.path().join(path);
            fs::write(&at, bytes).unwrap();
            fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { folder, capable }
    }

    /// Takes over a root that another program unpacked; its files already have their capabilities.
    pub fn unpacked(root: &Path) -> Self {
        let folder = support::root_folder();
        fs::rename(root, folder.path()).unwrap();
        let capable = Vec::new();
        Self { folder, capable }
    }

    /// The path on this machine.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Resolves links in a path of the image. A missing path resolves to itself, and a loop of links to `None`.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let mut pending: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut at: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = pending.pop() {
            match part.as_str() {
                "" | "." => {}
                ".." => drop(at.pop()),
                name => {
                    at.push(name.to_owned());
                    let here = self.folder.path().join(at.join("/"));
                    if fs::symlink_metadata(&here).is_ok_and(|facts| facts.is_symlink()) {
                        links += 1;
                        let target = fs::read_link(&here).ok()?.into_os_string().into_string().ok()?;
                        at.pop();
                        if target.starts_with('/') {
                            at.clear();
                        }
                        pending.extend(target.split('/').rev().map(str::to_owned));
                    }
                }
            }
            if links > 40 {
                return None;
            }
        }
        Some(format!("/{}", at.join("/")))
    }

    /// Runs commands in order, each in the image's environment.
    pub fn run(&self, tool: &Path, spec: &ImageSpec, commands: &[Vec<String>]) -> Vec<Outcome> {
        // A thread that starts a program keeps the file that another is writing open until exec.
        let is_busy = |outcome: &Outcome| matches!(outcome, Outcome::Not(words) if words.contains("Text file busy"));
        loop {
            let outcomes = self.run_once(tool, spec, commands);
            if !outcomes.iter().any(is_busy) {
                return outcomes;
            }
        }
    }

    fn run_once(&self, tool: &Path, spec: &ImageSpec, commands: &[Vec<String>]) -> Vec<Outcome> {
        let Some(user) = users::credentials(spec) else {
            return commands
                .iter()
                .map(|_| Outcome::Not("there is no such user".to_owned()))
                .collect();
        };
        // An engine creates a missing working directory (moby, `Container.SetupWorkingDirectory`).
        if let Some(dir) = self.real_path(spec.working_dir.as_deref().unwrap_or("/")) {
            fs::create_dir_all(self.path().join(dir.trim_start_matches('/'))).unwrap();
        }
        let mut child = Command::new(tool)
            .arg(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let jobs = self.jobs(spec, &user, commands);
        let writer = std::thread::spawn(move || input.write_all(jobs.as_bytes()).unwrap());
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut outcomes = Vec::new();
        for command in commands {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let (status, length) = line
                .trim()
                .split_once(' ')
                .unwrap_or_else(|| panic!("{command:?}: {line}"));
            let mut said = vec![0; length.parse().unwrap()];
            output.read_exact(&mut said).unwrap();
            outcomes.push(outcome(&String::from_utf8_lossy(&said), status));
        }
        writer.join().unwrap();
        assert!(child.wait().unwrap().success(), "the runner ends well");
        outcomes
    }

    fn jobs(&self, spec: &ImageSpec, user: &Credentials, commands: &[Vec<String>]) -> String {
        let mut lines = Vec::new();
        for (path, value) in &self.capable {
            let path = self.path().join(path);
            lines.push(format!("cap {} {}", path.display(), to_hex(value)));
        }
        let env = environment(spec, user);
        let groups: Vec<String> = user.groups.iter().map(ToString::to_string).collect();
        let groups = if groups.is_empty() {
            "-".to_owned()
        } else {
            groups.join(",")
        };
        let dir = spec.working_dir.as_deref().filter(|dir| !dir.is_empty()).unwrap_or("/");
        for command in commands {
            let Credentials { uid, gid, .. } = user;
            lines.push(format!(
                "job {uid} {gid} {groups} {dir} {} {}",
                env.len(),
                command.len()
            ));
            lines.extend(env.iter().chain(command).map(|text| text.replace('\n', ";")));
        }
        lines.join("\n") + "\n"
    }
}

/// The environment of a process, with the engine's defaults for variables that the image does not set.
fn environment(spec: &ImageSpec, user: &Credentials) -> Vec<String> {
    let mut env: Vec<String> = Vec::new();
    for variable in &spec.env {
        let key = variable.split('=').next().unwrap();
        env.retain(|other| other.split('=').next() != Some(key));
        env.push(variable.clone());
    }
    let usual = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", user.home.as_str()),
    ];
    for (key, value) in usual {
        if !env.iter().any(|variable| variable.split('=').next() == Some(key)) {
            env.push(format!("{key}={value}"));
        }
    }
    env
}

/// Summarizes a process's output.
pub fn outcome(said: &str, status: &str) -> Outcome {
    let mut lines = said.lines().filter_map(|line| line.strip_prefix("gets "));
    match lines.next_back() {
        Some(path) => Outcome::Gets(path.to_owned()),
        None => Outcome::Not(format!(
            "{} ({status})",
            said.trim_end().lines().last().unwrap_or_default()
        )),
    }
}

/// The path of a static tool that the judge runs in roots.
pub fn tool(compiler: &super::objects::Compiler) -> PathBuf {
    compiler.tool("run_as.c")
}
