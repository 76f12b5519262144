//! Instructions of a Dockerfile with their comments.

use super::config_instructions::json_array;
use crate::make::quote;
use crate::make::shell::ShellStep;
use crate::make::template::indent_lines;

/// Restores `/bin/sh` for the generated lines, in a stage whose image has another shell.
pub(super) const PLAIN_SHELL: &str = "SHELL [\"/bin/sh\", \"-c\"]\n";

/// Makes the steps run as root, by number for images without `/etc/passwd`.
pub(super) const ROOT: &str = "# hadolint ignore=DL3002\nUSER 0:0\n";

/// One comment line.
pub(super) fn comment(text: &str) -> String {
    format!("# {}\n", quote::comment_line(text))
}

/// A list in comments, one item to a line.
pub(super) fn comment_list(items: impl IntoIterator<Item = String>) -> String {
    let lines = items.into_iter().map(|item| comment(&format!("  {item}")));
    lines.collect()
}

/// The `RUN` of a step, after an empty line and the comments. `missing_path` holds the folders that `PATH` lacks.
pub(super) fn run_step(step: &ShellStep, missing_path: &str) -> String {
    let comments: String = step.comments.iter().map(|line| comment(line)).collect();
    format!("\n{comments}{}", run_commands(&step.commands, missing_path, ""))
}

/// A `RUN`, with an option and a space in front of its commands.
pub(super) fn run_commands(commands: &[String], missing_path: &str, option: &str) -> String {
    let path = (!missing_path.is_empty()).then(|| format!("export PATH=\"$PATH:{missing_path}\""));
    let all: Vec<&str> = path.iter().chain(commands).map(String::as_str).collect();
    format!("RUN {option}set -eu; \\\n{}", indent_lines(&all.join("; \\\n"), 4))
}

/// A `COPY` from a stage. The JSON form keeps spaces.
pub(super) fn copy_from(stage: &str, words: &[String]) -> String {
    format!("COPY --from={stage} {}\n", json_array(words))
}

/// An instruction with its words.
pub(super) fn instruction(name: &str, words: &str) -> String {
    format!("{name} {words}\n")
}

/// An `ENV` that nothing expands.
pub(super) fn set_variable(name: &str, value: &str) -> String {
    format!("ENV {name}={}\n", quote::quote_env(value))
}
