//! Inserts a statement about a loader variable at a random place in a case's script.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::case::{Case, File};
use super::image::{Image, Place, joined};
use super::random::Random;

/// The statements; `@F` is replaced by a folder. They are not indented, because a heredoc's delimiter must not be.
const STATEMENTS: [&str; 56] = [
    "export LD_LIBRARY_PATH=@F",
    "export LD_LIBRARY_PATH=@F:$LD_LIBRARY_PATH",
    "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}@F\"",
    "export LD_LIBRARY_PATH=\"@F${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}\"",
    "LD_LIBRARY_PATH=@F",
    "LD_LIBRARY_PATH=@F; export LD_LIBRARY_PATH",
    "LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH:@F\"\nexport LD_LIBRARY_PATH",
    "LD_LIBRARY_PATH=",
    "export LD_LIBRARY_PATH=",
    "unset LD_LIBRARY_PATH",
    "unset -v LD_LIBRARY_PATH",
    "unset -f LD_LIBRARY_PATH || true",
    "export -n LD_LIBRARY_PATH",
    "declare -x LD_LIBRARY_PATH=@F",
    "declare +x LD_LIBRARY_PATH",
    "printf -v LD_LIBRARY_PATH '%s' @F",
    "LD_LIBRARY_PATH+=:@F",
    "readonly LD_LIBRARY_PATH=@F",
    "set_path() {\n  export LD_LIBRARY_PATH=\"$1\"\n}\nset_path @F",
    "never_called() {\n  export LD_LIBRARY_PATH=@F\n}",
    "drop_path() { unset LD_LIBRARY_PATH; }; drop_path",
    "keep_path() {\n  local LD_LIBRARY_PATH=@F\n  :\n}\nkeep_path",
    "if [ -n \"${LD_LIBRARY_PATH:-}\" ]; then\n  export LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH:@F\"\nelse\n  export LD_LIBRARY_PATH=@F\nfi",
    "if [ -d @F ]; then\n  export LD_LIBRARY_PATH=@F\nfi",
    "if [ ! -e @F/libcupti.so.12 ]; then\n  unset LD_LIBRARY_PATH\nfi",
    "[ -d @F ] && export LD_LIBRARY_PATH=\"@F:${LD_LIBRARY_PATH:-}\"",
    "[ \"${UNKNOWN_MODE:-}\" = strict ] && unset LD_LIBRARY_PATH",
    "[ -z \"${KEEP_LIBRARIES:-}\" ] || unset LD_LIBRARY_PATH",
    "true && export LD_LIBRARY_PATH=@F",
    "false || export LD_LIBRARY_PATH=@F",
    "case \"${1:-}\" in\n  train*) export LD_LIBRARY_PATH=@F ;;\n  *) LD_LIBRARY_PATH=@F; export LD_LIBRARY_PATH ;;\nesac",
    "case \"$(uname -m)\" in\n  x86_64) export LD_LIBRARY_PATH=@F ;;\n  aarch64) unset LD_LIBRARY_PATH ;;\nesac",
    "case \":${LD_LIBRARY_PATH:-}:\" in\n  *:@F:*) ;;\n  *) export LD_LIBRARY_PATH=\"@F:${LD_LIBRARY_PATH:-}\" ;;\nesac",
    "( export LD_LIBRARY_PATH=@F )",
    "(\n  unset LD_LIBRARY_PATH\n  true\n)",
    "{ unset LD_LIBRARY_PATH; }",
    "{ export LD_LIBRARY_PATH=@F; } > /dev/null",
    "export LD_LIBRARY_PATH=@F | cat",
    "LD_LIBRARY_PATH=@F true",
    "LD_LIBRARY_PATH=@F :",
    "env LD_LIBRARY_PATH=@F true",
    "eval \"export LD_LIBRARY_PATH=@F\"",
    "eval 'unset LD_LIBRARY_PATH'",
    ". /opt/mutant/env.sh",
    "[ -r /opt/mutant/env.sh ] && . /opt/mutant/env.sh",
    "/opt/mutant/env.sh",
    "cat > /tmp/made.sh <<'MADE'\nexport LD_LIBRARY_PATH=@F\nMADE\n. /tmp/made.sh",
    "read -r LD_LIBRARY_PATH <<LINE\n@F\nLINE",
    "for folder in /opt/none @F; do\n  export LD_LIBRARY_PATH=\"$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\ndone",
    "set -a; LD_LIBRARY_PATH=@F; set +a",
    "export LD_LIBRARY_PATH=\"$(echo @F)\"",
    ": \"${LD_LIBRARY_PATH:=@F}\"",
    "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH#*:}\"",
    "export LD_PRELOAD=@F/libcupti.so.12",
    "export LD_PRELOAD=/opt/none/liballoc.so",
    "unset LD_PRELOAD",
];

/// Images whose script has one inserted statement.
pub struct Mutants<'a> {
    cases: &'a [Case],
    random: Random,
    drawn: usize,
}

impl<'a> Mutants<'a> {
    /// The mutants of a seed.
    pub fn new(cases: &'a [Case], seed: u64) -> Self {
        Self {
            cases,
            random: Random::new(seed),
            drawn: 0,
        }
    }

    /// The next mutant. If the shell rejects one, another is drawn.
    pub fn draw(&mut self) -> Image {
        loop {
            if let Some(image) = self.try_draw() {
                return image;
            }
        }
    }

    fn try_draw(&mut self) -> Option<Image> {
        let places = [
            Place::System,
            Place::Environment,
            Place::Environment,
            Place::Script,
            Place::Lost,
        ];
        let case = self.random.pick(self.cases);
        let place = *self.random.pick(&places);
        let mut image = Image::new(case, place, self.random.below(48));
        let library = image.library.clone()?;
        let folders = [library.as_str(), library.as_str(), "/opt/none/lib", "/usr/local/lib"];
        let folder = *self.random.pick(&folders);
        let statement = self.random.pick(&STATEMENTS).replace("@F", folder);
        let scripts: Vec<usize> = (0..image.case.files.len())
            .filter(|at| is_script(&image.case.files[*at]))
            .collect();
        // The first file is the entry script, if there is one.
        let at = if self.random.below(4) > 0 {
            *scripts.first()?
        } else {
            *self.random.pick(&scripts)
        };
        let file = &mut image.case.files[at];
        let (text, line) = self.insert(file, &statement)?;
        file.text = text;
        let path = file.path.clone();
        if statement.contains("/opt/mutant/env.sh") {
            image.case.files.push(File {
                path: "/opt/mutant/env.sh".to_owned(),
                mode: 0o755,
                text: format!("#!/bin/sh\nexport LD_LIBRARY_PATH=\"{folder}:${{LD_LIBRARY_PATH:-}}\"\n"),
            });
        }
        self.drawn += 1;
        image.name = format!("mutant {} of {}, {path}:{line}: {statement}", self.drawn, image.name);
        Some(image)
    }

    /// Inserts the statement after a random line. Returns the text and the statement's line, or `None` if the shell
    /// rejects it.
    fn insert(&mut self, file: &File, statement: &str) -> Option<(String, usize)> {
        let lines: Vec<&str> = file.text.lines().collect();
        let first = usize::from(file.text.starts_with("#!"));
        let at = first + self.random.below(lines.len() - first + 1);
        // Two thirds must be between whole statements. The rest may be in a function, a branch or a heredoc.
        if self.random.below(3) > 0 && !parses(file, &joined(&lines[..at])) {
            return None;
        }
        let text = joined(&lines[..at]) + statement + "\n" + &joined(&lines[at..]);
        parses(file, &text).then_some((text, at + 1))
    }
}

/// Whether the file is a shell script.
fn is_script(file: &File) -> bool {
    let ending = file.path.rsplit('.').next().unwrap();
    let is_named = matches!(ending, "sh" | "bash" | "envsh" | "profile" | "bashrc") || !file.path.contains('.');
    let is_data = file.path.ends_with("/settings") || file.path.ends_with("/README");
    file.text.starts_with("#!") || (is_named && !is_data)
}

/// Whether the file's shell can parse the text.
fn parses(file: &File, text: &str) -> bool {
    let first = file.text.lines().next().unwrap_or_default();
    let shell = if first.starts_with("#!") && !first.contains("bash") {
        "dash"
    } else {
        "bash"
    };
    let mut child = Command::new(shell)
        .arg("-n")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The write fails if the shell stops at an early error.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    // For an unterminated heredoc, Bash only prints a warning.
    output.status.success() && output.stderr.is_empty()
}
