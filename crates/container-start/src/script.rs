//! Scripts as syntax trees.

use std::rc::Rc;

use shuck_ast::{Span, StmtSeq};
use shuck_parser::ShellDialect;
use shuck_parser::parser::{ParseStatus, Parser};

/// The shell that runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shell {
    Bash,
    /// Bash called as `sh`.
    BashPosix,
    #[default]
    Dash,
    Busybox,
}

impl Shell {
    pub(crate) fn is_bash(self) -> bool {
        matches!(self, Self::Bash | Self::BashPosix)
    }
}

/// A script with its syntax tree.
#[derive(Debug)]
pub(crate) struct Script {
    /// The path of its file, or `config` for the image config.
    pub path: String,
    /// A fixed line for all statements of text that is not a file: the line of the command that contains it.
    line: Option<usize>,
    /// The source text that spans refer to.
    pub text: String,
    pub body: StmtSeq,
    /// Whether the shell's own grammar rejects it and bash's was used.
    pub is_foreign: bool,
}

/// The maximum bytes of a script that is parsed.
pub(crate) const SCRIPT_BYTES: usize = 1 << 20;
/// The maximum nesting of expansions. Parse time doubles with each level.
const NESTING: usize = 40;
/// The maximum characters of a statement that an assumption quotes.
const SNIPPET: usize = 60;

/// An empty script, for commands of the image config.
impl Default for Script {
    fn default() -> Self {
        let body = Parser::new("").parse().file.body;
        Self {
            path: "config".to_owned(),
            line: Some(0),
            text: String::new(),
            body,
            is_foreign: false,
        }
    }
}

impl Script {
    /// Parses a text; `None` if it has a syntax error or exceeds a limit.
    pub(crate) fn parse(path: &str, line: Option<usize>, text: String, shell: Shell) -> Option<Rc<Self>> {
        // busybox accepts `[[`, `function` and other bash syntax.
        let own = if shell == Shell::Dash {
            parse_as(&text, ShellDialect::Posix)
        } else {
            None
        };
        let is_foreign = shell == Shell::Dash && own.is_none();
        let body = own.or_else(|| parse_script(&text))?;
        let path = path.to_owned();
        Some(Rc::new(Self {
            path,
            line,
            text,
            body,
            is_foreign,
        }))
    }

    /// The place of a node: `/entry.sh:12`.
    pub(crate) fn place_of(&self, span: Span) -> String {
        match self.line.unwrap_or(span.start.line()) {
            0 => self.path.clone(),
            line => format!("{}:{line}", self.path),
        }
    }

    /// The first line of a node's source, truncated.
    pub(crate) fn snippet(&self, span: Span) -> String {
        snippet(span.slice(&self.text))
    }
}

/// The first line of a text, truncated.
pub(crate) fn snippet(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(SNIPPET) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// The deepest nesting of `${` and `$(`.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut before) = (0_usize, 0, ' ');
    for letter in text.chars() {
        match letter {
            '{' | '(' if before == '$' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (deepest, before) = (deepest.max(depth), letter);
    }
    deepest
}

/// Parses a script as bash reads it; `None` if it has a syntax error or exceeds a limit.
pub fn parse_script(text: &str) -> Option<StmtSeq> {
    parse_as(text, ShellDialect::Bash)
}

fn parse_as(text: &str, dialect: ShellDialect) -> Option<StmtSeq> {
    if text.len() > SCRIPT_BYTES || nesting(text) > NESTING {
        return None;
    }
    let parsed = Parser::with_dialect(text, dialect).parse();
    (parsed.status == ParseStatus::Clean).then_some(parsed.file.body)
}
