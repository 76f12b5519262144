//! The rules of hadolint that bear on what is written here, and some of our own, over the text of a Dockerfile.
//!
//! DL3000 DL3004 DL3005 DL3006 DL3007 DL3008 DL3009 DL3013 DL3015 DL3020 DL3022 DL3024 DL3025 DL3027 DL3032 DL3033
//! DL3040 DL3041 DL3042 DL3045 DL4000 DL4006, `# hadolint ignore=` honoured. Of our own: every instruction has its
//! reason, `LD_LIBRARY_PATH` has no empty element, nothing is removed in the last stage that a lower layer holds, and
//! a shell can read every `RUN`.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// An instruction with its comments taken out and its continuations joined.
#[derive(Debug)]
struct Instruction {
    word: String,
    rest: String,
    /// The text as written, with line breaks, for the shell.
    raw: String,
    ignored: Vec<String>,
    explained: bool,
}

fn read(text: &str) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    let (mut ignored, mut explained, mut open) = (Vec::new(), false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') {
            if let Some(rules) = trimmed.strip_prefix("# hadolint ignore=") {
                ignored.extend(rules.split(',').map(str::to_owned));
            }
            explained |= !open;
            continue;
        }
        let (content, more) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        if open {
            let last = found.last_mut().unwrap();
            last.rest.push_str(content);
            last.raw.push('\n');
            last.raw.push_str(line);
        } else if trimmed.is_empty() {
            explained = false;
            continue;
        } else {
            let (word, rest) = content.split_once(' ').unwrap_or((content, ""));
            found.push(Instruction {
                word: word.to_owned(),
                rest: rest.to_owned(),
                raw: line.split_once(' ').map_or("", |(_, rest)| rest).to_owned(),
                ignored: std::mem::take(&mut ignored),
                explained,
            });
        }
        open = more;
    }
    assert!(!open, "the last line is continued");
    found
}

/// What is wrong with a Dockerfile, a line each; the real linter says it too, where it is there.
pub fn lint(text: &str) -> Vec<String> {
    let mut wrong = lint_here(text);
    let part = testkit::parts::parts().join("hadolint/hadolint");
    let program = if part.exists() { part } else { "hadolint".into() };
    let started = Command::new(program)
        .args(["--no-color", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut linter) = started else { return wrong };
    linter.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = String::from_utf8(linter.wait_with_output().unwrap().stdout).unwrap();
    wrong.extend(said.lines().map(|line| format!("hadolint: {line}")));
    wrong
}

/// What is wrong by the rules that are written here.
pub fn lint_here(text: &str) -> Vec<String> {
    let instructions = read(text);
    let mut wrong = Vec::new();
    let mut stages: Vec<String> = Vec::new();
    let mut explained = false;
    for instruction in &instructions {
        let mut found: Vec<(&str, bool)> = Vec::new();
        let rest = instruction.rest.as_str();
        match instruction.word.as_str() {
            "FROM" => from(rest, &mut stages, &mut found),
            "RUN" => run(instruction, &mut found),
            "COPY" => copy(rest, &stages, &mut found),
            "ADD" => found.push(("DL3020", !rest.starts_with("https://"))),
            "CMD" | "ENTRYPOINT" => found.push(("DL3025", !rest.starts_with('['))),
            "WORKDIR" => found.push(("DL3000", !rest.trim_matches('"').starts_with('/'))),
            "ENV" if rest.starts_with("LD_LIBRARY_PATH=") => {
                let value = rest.split_once('=').unwrap().1.trim_matches('"');
                found.push(("empty element", value.split([':', ';']).any(str::is_empty)));
            }
            "ENV" | "LABEL" | "USER" | "EXPOSE" | "VOLUME" | "HEALTHCHECK" | "ONBUILD" | "STOPSIGNAL" | "SHELL"
            | "ARG" => {}
            _ => found.push(("an unknown instruction", true)),
        }
        // A reason stands above an instruction, or above those that it follows without a gap.
        explained = instruction.explained;
        let wants_reason = matches!(instruction.word.as_str(), "RUN" | "COPY" | "ADD");
        found.push(("no reason", wants_reason && !explained));
        for (rule, broken) in found {
            if broken && !instruction.ignored.iter().any(|ignored| ignored == rule) {
                wrong.push(format!("{rule}: {} {rest}", instruction.word));
            }
        }
    }
    let _ = explained;
    let last = instructions.iter().rposition(|it| it.word == "FROM").unwrap_or(0);
    let removes = instructions
        .iter()
        .skip(last)
        .filter(|it| it.word == "RUN" && it.rest.starts_with("rm "));
    wrong.extend(removes.map(|it| format!("removed in a later layer: {}", it.rest)));
    wrong
}

fn from(rest: &str, stages: &mut Vec<String>, found: &mut Vec<(&'static str, bool)>) {
    let mut words = rest.split_whitespace();
    let image = words.next().unwrap_or_default();
    let name = words.nth(1);
    let is_stage = image == "scratch" || stages.iter().any(|stage| stage == image);
    let tag = image.rsplit('/').next().unwrap_or_default();
    found.push(("DL3006", !is_stage && !tag.contains([':', '@'])));
    found.push(("DL3007", tag.ends_with(":latest")));
    if let Some(name) = name {
        found.push(("DL3024", stages.iter().any(|stage| stage == name)));
        stages.push(name.to_owned());
    }
}

fn copy(rest: &str, stages: &[String], found: &mut Vec<(&'static str, bool)>) {
    if let Some(from) = rest.strip_prefix("--from=") {
        let name = from.split_whitespace().next().unwrap_or_default();
        found.push(("DL3022", !stages.iter().any(|stage| stage == name)));
    }
    let to = rest.trim_end_matches([']', '"']).rsplit(['"', ' ']).next();
    found.push(("DL3045", !to.is_some_and(|to| to.starts_with('/'))));
}

fn run(instruction: &Instruction, found: &mut Vec<(&'static str, bool)>) {
    let text = instruction.rest.as_str();
    if text.starts_with('[') {
        return;
    }
    let commands: Vec<&str> = text.split([';', '&']).map(str::trim).collect();
    let starting = |words: &str| -> Vec<&str> {
        let all = commands.iter().copied();
        all.filter(|command| command.contains(words)).collect()
    };
    let packages = |command: &str, after: &str| -> Vec<String> {
        let words = command
            .split_once(after)
            .map_or("", |(_, rest)| rest)
            .split_whitespace();
        words
            .filter(|word| !word.starts_with('-'))
            .map(|word| word.trim_matches('\'').to_owned())
            .collect()
    };
    for command in starting("apt-get install") {
        let pinned = packages(command, "install").iter().all(|package| package.contains('='));
        found.push(("DL3008", !pinned));
        found.push(("DL3015", !command.contains("--no-install-recommends")));
        found.push(("DL3014", !command.contains("-y")));
        found.push(("DL3009", !text.contains("rm -rf /var/lib/apt/lists/*")));
    }
    for (program, pin, clean) in [
        ("yum", "DL3033", "DL3032"),
        ("dnf", "DL3041", "DL3040"),
        ("microdnf", "DL3041", "DL3040"),
    ] {
        for command in starting("install")
            .into_iter()
            .filter(|command| command.starts_with(program))
        {
            found.push((
                pin,
                !packages(command, "install")
                    .iter()
                    .all(|package| package.contains("-1") || package.contains(".*")),
            ));
            found.push((clean, !text.contains(&format!("{program} clean all"))));
        }
    }
    for command in starting("pip install") {
        let from_file = command.contains("-r requirements.txt") || command.contains("/wheels/");
        found.push((
            "DL3013",
            !from_file
                && !packages(command, "install")
                    .iter()
                    .all(|package| package.contains("==")),
        ));
        found.push(("DL3042", !command.contains("--no-cache-dir")));
    }
    found.push(("DL3004", text.contains("sudo ")));
    found.push(("DL3005", text.contains("dist-upgrade")));
    found.push(("DL3027", commands.iter().any(|command| command.starts_with("apt "))));
    let without_patterns = text.replace("*|*/", "").replace("||", "").replace("|*/", "");
    found.push(("DL4006", without_patterns.contains(" | ")));
    found.push(("the shell cannot read it", !reads(&instruction.raw)));
}

/// Whether a shell can read the script, with the comment lines gone as Docker takes them out.
fn reads(script: &str) -> bool {
    let script: Vec<&str> = script.lines().filter(|line| !line.trim().starts_with('#')).collect();
    let joined = script.join("\n").replace("\\\n", "");
    let status = Command::new("sh")
        .args(["-n", "-c", &joined])
        .stderr(Stdio::null())
        .status();
    status.unwrap().success()
}
