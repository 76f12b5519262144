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
    /// The line of all its statements, where it is no file: that of the command that holds it.
    line: Option<usize>,
    /// The text that the tree's spans are of.
    pub text: String,
    pub body: StmtSeq,
    /// Whether the shell's own grammar refuses it, and it was read by bash's.
    pub is_foreign: bool,
}

/// The bytes of a script that are parsed.
pub(crate) const SCRIPT_BYTES: usize = 1 << 20;
/// The expansions within each other that are parsed: the parser takes twice as long for each.
const NESTING: usize = 40;
/// The characters of a statement that an assumption quotes.
const SNIPPET: usize = 60;

/// A script without statements, for what the config starts itself.
impl Default for Script {
    fn default() -> Self {
        let stmts = StmtSeq {
            leading_comments: Vec::new(),
            stmts: Vec::new(),
            trailing_comments: Vec::new(),
            span: Span::new(),
        };
        Self {
            path: "config".to_owned(),
            line: Some(0),
            text: String::new(),
            body: stmts,
            is_foreign: false,
        }
    }
}

impl Script {
    /// The tree of a text; `None` if it does not parse.
    pub(crate) fn parse(path: &str, line: Option<usize>, text: String, shell: Shell) -> Option<Rc<Self>> {
        if text.len() > SCRIPT_BYTES || nesting(&text) > NESTING {
            return None;
        }
        // busybox knows `[[`, `function` and more of bash's grammar.
        let own = (shell == Shell::Dash)
            .then(|| parse_as(&text, ShellDialect::Posix))
            .flatten();
        let is_foreign = shell == Shell::Dash && own.is_none();
        let body = own.or_else(|| parse_as(&text, ShellDialect::Bash))?;
        let path = path.to_owned();
        Some(Rc::new(Self {
            path,
            line,
            text,
            body,
            is_foreign,
        }))
    }

    /// The line of a node, counted from one.
    pub(crate) fn line_of(&self, span: Span) -> usize {
        self.line.unwrap_or(span.start.line())
    }

    /// Where a node stands: `/entry.sh:12`.
    pub(crate) fn place_of(&self, span: Span) -> String {
        match self.line_of(span) {
            0 => self.path.clone(),
            line => format!("{}:{line}", self.path),
        }
    }

    /// The first line of a node's text, shortened.
    pub(crate) fn snippet(&self, span: Span) -> String {
        let text = span.slice(&self.text).lines().next().unwrap_or_default().trim();
        match text.char_indices().nth(SNIPPET) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        }
    }
}

/// How deep `${` and `$(` lie within each other, at most.
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

fn parse_as(text: &str, dialect: ShellDialect) -> Option<StmtSeq> {
    let parsed = Parser::with_dialect(text, dialect).parse();
    (parsed.status == ParseStatus::Clean).then_some(parsed.file.body)
}
