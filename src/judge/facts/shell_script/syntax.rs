//! Where a command of a script ends, and whether its shell can read it at all (POSIX.1-2017, Shell Command Language,
//! 2.10). Nothing is run here: a shell reads a whole command before it runs any of it.

use super::grammar::TokenReader;
use crate::judge::facts::shell_words::{ShellKind, ShellToken, WordPart};

/// How deep commands stand in each other before nothing is said of their syntax.
const DEPTH: usize = 100;

/// Why a command cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyntaxFault {
    /// The token with this number may not stand where it does.
    At(usize),
    /// It is nested too deep to be followed.
    TooDeep,
}

type Parsed = Result<(), SyntaxFault>;

/// The words that stand for no command where one begins.
const RESERVED: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

/// The number of the token behind the commands of one line, which a shell reads together.
pub(super) fn end_of_line(tokens: &[ShellToken], at: usize, kind: ShellKind) -> Result<usize, SyntaxFault> {
    let mut reader = SyntaxReader::new(tokens, at, kind);
    reader.skip_lines();
    if reader.peek().is_some() {
        reader.line()?;
    }
    Ok(reader.tokens.at)
}

/// Moves behind the next command without running it; to the end where it cannot be read.
pub(super) fn pass_command(reader: &mut TokenReader<'_>, kind: ShellKind) {
    pass(reader, kind, SyntaxReader::command);
}

/// The same for a command with what its output goes to.
pub(super) fn pass_pipeline(reader: &mut TokenReader<'_>, kind: ShellKind) {
    pass(reader, kind, SyntaxReader::pipeline);
}

/// The same for commands up to a word.
pub(super) fn pass_list(reader: &mut TokenReader<'_>, end: &str, kind: ShellKind) {
    pass(reader, kind, |inner| inner.list(&[end]));
}

fn pass<'t>(reader: &mut TokenReader<'t>, kind: ShellKind, read: impl FnOnce(&mut SyntaxReader<'t>) -> Parsed) {
    let mut inner = SyntaxReader::new(reader.tokens, reader.at, kind);
    reader.at = match read(&mut inner) {
        Ok(()) => inner.tokens.at,
        Err(_) => reader.tokens.len(),
    };
}

struct SyntaxReader<'t> {
    tokens: TokenReader<'t>,
    kind: ShellKind,
    depth: usize,
}

impl<'t> SyntaxReader<'t> {
    fn new(tokens: &'t [ShellToken], at: usize, kind: ShellKind) -> Self {
        Self {
            tokens: TokenReader { tokens, at },
            kind,
            depth: 0,
        }
    }

    fn peek(&self) -> Option<&'t ShellToken> {
        self.tokens.peek()
    }

    fn fault(&self) -> Parsed {
        Err(SyntaxFault::At(self.tokens.at))
    }

    fn skip_lines(&mut self) {
        while self.tokens.take(&ShellToken::Line) {}
    }

    fn expect(&mut self, word: &str) -> Parsed {
        if self.tokens.keyword() != Some(word) {
            return self.fault();
        }
        self.tokens.at += 1;
        Ok(())
    }

    fn expect_sign(&mut self, sign: &ShellToken) -> Parsed {
        if self.tokens.take(sign) { Ok(()) } else { self.fault() }
    }

    fn line(&mut self) -> Parsed {
        loop {
            self.and_or()?;
            let is_divided = self.tokens.take(&ShellToken::End) || self.tokens.take(&ShellToken::Background);
            match self.peek() {
                None => return Ok(()),
                Some(ShellToken::Line) => {
                    self.tokens.at += 1;
                    return Ok(());
                }
                Some(_) if is_divided => {}
                Some(_) => return self.fault(),
            }
        }
    }

    /// Commands, one at least, up to one of the words or what no command begins with.
    fn list(&mut self, ends: &[&str]) -> Parsed {
        self.skip_lines();
        loop {
            self.and_or()?;
            let is_divided = self.tokens.take(&ShellToken::End)
                || self.tokens.take(&ShellToken::Background)
                || self.peek() == Some(&ShellToken::Line);
            self.skip_lines();
            let is_end = self.tokens.keyword().is_some_and(|word| ends.contains(&word));
            match self.peek() {
                Some(ShellToken::Close | ShellToken::CaseEnd) => return Ok(()),
                Some(_) if is_end && is_divided => return Ok(()),
                // Behind what groups commands, a word may stand without a sign between.
                Some(_) if is_end && self.is_behind_group() => return Ok(()),
                Some(_) if is_divided => {}
                _ => return self.fault(),
            }
        }
    }

    fn is_behind_group(&self) -> bool {
        let before = self.tokens.at.checked_sub(1).and_then(|at| self.tokens.tokens.get(at));
        let closes = |word: &str| matches!(word, "}" | "fi" | "done" | "esac" | "]]");
        before.is_some_and(|token| {
            let is_arithmetic =
                matches!(token, ShellToken::Word(parts, _) if matches!(parts.as_slice(), [WordPart::Arithmetic(_)]));
            is_arithmetic || *token == ShellToken::Close || token.keyword().is_some_and(closes)
        })
    }

    fn and_or(&mut self) -> Parsed {
        self.pipeline()?;
        while self.tokens.take(&ShellToken::And) || self.tokens.take(&ShellToken::Or) {
            self.skip_lines();
            self.pipeline()?;
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Parsed {
        let is_dash = self.kind == ShellKind::Dash;
        while self.tokens.keyword() == Some("!") || !is_dash && matches!(self.tokens.keyword(), Some("time" | "-p")) {
            self.tokens.at += 1;
        }
        self.command()?;
        while self.tokens.take(&ShellToken::Pipe) {
            self.skip_lines();
            self.command()?;
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(SyntaxFault::TooDeep);
        }
        let is_simple = self.command_within()?;
        self.depth -= 1;
        while !is_simple && matches!(self.peek(), Some(ShellToken::Redirection(..))) {
            self.tokens.at += 1;
        }
        Ok(())
    }

    /// Reads a command; whether it is one of words alone.
    fn command_within(&mut self) -> Result<bool, SyntaxFault> {
        let is_dash = self.kind == ShellKind::Dash;
        match self.tokens.keyword() {
            Some("if") => self.conditional()?,
            Some("for") => self.for_loop()?,
            Some("select") if !is_dash => self.for_loop()?,
            Some("while" | "until") => {
                self.tokens.at += 1;
                self.list(&["do"])?;
                self.body()?;
            }
            Some("case") => self.case()?,
            Some("{") => {
                self.tokens.at += 1;
                self.list(&["}"])?;
                self.expect("}")?;
            }
            Some("[[") if !is_dash => {
                while self.peek().is_some() && self.tokens.keyword() != Some("]]") {
                    self.tokens.at += 1;
                }
                self.expect("]]")?;
            }
            Some("((") if !is_dash => self.tokens.at += 2,
            Some("function") if !is_dash => {
                self.tokens.at += 2;
                if self.tokens.take(&ShellToken::Open) {
                    self.expect_sign(&ShellToken::Close)?;
                }
                self.skip_lines();
                self.command()?;
            }
            Some("coproc") if !is_dash => {
                self.tokens.at += 1;
                self.command()?;
            }
            Some(word) if RESERVED.contains(&word) => self.fault()?,
            _ if self.tokens.take(&ShellToken::Open) => {
                self.list(&[])?;
                self.expect_sign(&ShellToken::Close)?;
            }
            _ => return self.simple(),
        }
        Ok(false)
    }

    fn simple(&mut self) -> Result<bool, SyntaxFault> {
        let start = self.tokens.at;
        while matches!(self.peek(), Some(ShellToken::Word(..) | ShellToken::Redirection(..))) {
            self.tokens.at += 1;
        }
        let is_function = self.tokens.at == start + 1 && self.tokens.take(&ShellToken::Open);
        if is_function {
            let name = self.tokens.tokens.get(start).and_then(ShellToken::keyword);
            let is_name = |name: &str| name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric());
            if self.kind == ShellKind::Dash && !name.is_some_and(is_name) {
                return Err(SyntaxFault::At(start));
            }
            self.expect_sign(&ShellToken::Close)?;
            self.skip_lines();
            self.command()?;
            return Ok(false);
        }
        if self.tokens.at == start || self.peek() == Some(&ShellToken::Open) {
            self.fault()?;
        }
        Ok(true)
    }

    fn conditional(&mut self) -> Parsed {
        while matches!(self.tokens.keyword(), Some("if" | "elif")) {
            self.tokens.at += 1;
            self.list(&["then"])?;
            self.expect("then")?;
            self.list(&["elif", "else", "fi"])?;
        }
        if self.tokens.keyword() == Some("else") {
            self.tokens.at += 1;
            self.list(&["fi"])?;
        }
        self.expect("fi")
    }

    fn for_loop(&mut self) -> Parsed {
        self.tokens.at += 1;
        match self.peek() {
            Some(ShellToken::Word(..)) => self.tokens.at += 1 + usize::from(self.tokens.keyword() == Some("((")),
            _ => return self.fault(),
        }
        self.skip_lines();
        if self.tokens.keyword() == Some("in") {
            while matches!(self.peek(), Some(ShellToken::Word(..))) {
                self.tokens.at += 1;
            }
        }
        if !matches!(self.tokens.keyword(), Some("do" | "{")) && !self.tokens.take(&ShellToken::End) {
            self.expect_sign(&ShellToken::Line)?;
        }
        self.skip_lines();
        if self.kind != ShellKind::Dash && self.tokens.keyword() == Some("{") {
            return self.command();
        }
        self.body()
    }

    /// `do …; done`
    fn body(&mut self) -> Parsed {
        self.expect("do")?;
        self.list(&["done"])?;
        self.expect("done")
    }

    fn case(&mut self) -> Parsed {
        self.tokens.at += 2;
        self.skip_lines();
        self.expect("in")?;
        self.skip_lines();
        while self.tokens.keyword() != Some("esac") {
            self.tokens.take(&ShellToken::Open);
            let mut is_pattern = matches!(self.peek(), Some(ShellToken::Word(..)));
            while is_pattern {
                self.tokens.at += 1;
                is_pattern = self.tokens.take(&ShellToken::Pipe) && matches!(self.peek(), Some(ShellToken::Word(..)));
            }
            self.expect_sign(&ShellToken::Close)?;
            self.skip_lines();
            let is_empty = self.peek() == Some(&ShellToken::CaseEnd) || self.tokens.keyword() == Some("esac");
            if !is_empty {
                self.list(&["esac"])?;
            }
            if !self.tokens.take(&ShellToken::CaseEnd) && self.tokens.keyword() != Some("esac") {
                return self.fault();
            }
            self.skip_lines();
        }
        self.expect("esac")
    }
}
