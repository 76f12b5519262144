//! Scripts as syntax trees.

use std::rc::Rc;

use shuck_ast::{Command, Span, Stmt, StmtSeq, Word};
use shuck_parser::ShellDialect;
use shuck_parser::parser::{ParseStatus, Parser};

/// The shell that runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    /// Bash called as `sh`.
    BashPosix,
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
    /// The statements.
    pub body: StmtSeq,
    /// Whether the shell's own grammar refuses it, and it was read by bash's.
    pub is_foreign: bool,
}

/// The bytes of a script that are parsed.
pub(crate) const SCRIPT_BYTES: usize = 1 << 20;

impl Script {
    /// The tree of a text; `None` if it does not parse.
    pub(crate) fn parse(path: &str, line: Option<usize>, text: String, shell: Shell) -> Option<Rc<Self>> {
        if text.len() > SCRIPT_BYTES || nesting(&text) > NESTING {
            return None;
        }
        // busybox knows `[[`, `function` and more of bash's grammar.
        let own = if shell == Shell::Dash {
            ShellDialect::Posix
        } else {
            ShellDialect::Bash
        };
        let body = parse_as(&text, own);
        let is_foreign = body.is_none() && own == ShellDialect::Posix;
        let body = body.or_else(|| is_foreign.then(|| parse_as(&text, ShellDialect::Bash)).flatten())?;
        Some(Rc::new(Self {
            path: path.to_owned(),
            line,
            text,
            body,
            is_foreign,
        }))
    }

    /// A script without statements, for what the config starts itself.
    pub(crate) fn config() -> Rc<Self> {
        Rc::new(Self {
            path: "config".to_owned(),
            line: Some(0),
            text: String::new(),
            body: StmtSeq {
                leading_comments: Vec::new(),
                stmts: Vec::new(),
                trailing_comments: Vec::new(),
                span: Span::new(),
            },
            is_foreign: false,
        })
    }

    /// The one word of `: WORD`.
    pub(crate) fn only_argument(&self) -> Option<&Word> {
        match self.body.as_slice() {
            [
                Stmt {
                    command: Command::Simple(simple),
                    ..
                },
            ] => simple.args.first().filter(|_| simple.args.len() == 1),
            _ => None,
        }
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

/// The expansions within each other that are parsed: the parser takes twice as long for each.
const NESTING: usize = 40;

/// How deep `${` and `$(` lie within each other, at most.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut before = ' ';
    for letter in text.chars() {
        match letter {
            '{' | '(' if before == '$' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = letter;
    }
    deepest
}

/// The characters of a statement that an assumption quotes.
const SNIPPET: usize = 60;

fn parse_as(text: &str, dialect: ShellDialect) -> Option<StmtSeq> {
    let parsed = Parser::with_dialect(text, dialect).parse();
    (parsed.status == ParseStatus::Clean).then_some(parsed.file.body)
}
