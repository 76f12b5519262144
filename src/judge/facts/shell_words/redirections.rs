//! Where commands read from and write to, and what parentheses hold (POSIX.1-2017, Shell Command Language, 2.6.3 and 2.7).

use super::{DEPTH, FileDirection, ShellKind, ShellToken, WordPart, WordReader};

/// The signs in which the end of an arithmetic expression is looked for.
const ARITHMETIC: usize = 4 << 10;

impl WordReader<'_> {
    /// What follows the sign of a redirection.
    pub(super) fn redirection(&mut self, sign: char) -> Option<()> {
        let unknown = || vec![WordPart::Unknown];
        if self.is_test {
            self.tokens.push(ShellToken::Word(unknown(), true));
            return Some(());
        }
        if self.is_process()? {
            self.tokens.push(ShellToken::Word(unknown(), true));
            return Some(());
        }
        let is_document = sign == '<' && self.rest.next_if_eq(&'<').is_some();
        let is_text = is_document && self.rest.next_if_eq(&'<').is_some();
        if is_text && self.kind == ShellKind::Dash {
            return None;
        }
        let mut signs = String::new();
        while let Some(next) = self.rest.next_if(|&next| matches!(next, '>' | '&' | '|' | '-')) {
            signs.push(next);
        }
        while self.rest.next_if(|&next| matches!(next, ' ' | '\t')).is_some() {}
        if self.rest.next_if(|&next| matches!(next, '<' | '>')).is_some() {
            self.tokens.push(ShellToken::Redirection(None, unknown()));
            return self.is_process()?.then_some(());
        }
        let (parts, is_quoted) = self.word()?;
        if parts.is_empty() && !is_quoted && !signs.ends_with('-') {
            return None;
        }
        if is_document && !is_text {
            let text = parts.iter().filter_map(|part| match part {
                WordPart::Text(text) => Some(text.as_str()),
                _ => None,
            });
            self.documents.push((text.collect(), signs == "-"));
        }
        let direction = match (sign, signs.as_str()) {
            ('<', "") if !is_document => Some(FileDirection::Read),
            ('>', "" | ">" | "|") => Some(FileDirection::Write),
            _ => None,
        };
        self.tokens.push(ShellToken::Redirection(direction, parts));
        Some(())
    }

    /// `<(…)` and `>(…)` of bash, behind their first sign; nothing where this shell knows none.
    fn is_process(&mut self) -> Option<bool> {
        if self.rest.next_if_eq(&'(').is_none() {
            return Some(false);
        }
        if self.kind == ShellKind::Dash {
            return None;
        }
        self.substitution().map(|_| true)
    }

    pub(super) fn skip_documents(&mut self) {
        for (end, is_indented) in std::mem::take(&mut self.documents) {
            let mut line = String::new();
            for sign in self.rest.by_ref() {
                if sign != '\n' {
                    line.push(sign);
                    continue;
                }
                let text = if is_indented {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if text == end {
                    break;
                }
                line.clear();
            }
        }
    }

    /// The commands up to the parenthesis that closes one which has been read.
    pub(super) fn substitution(&mut self) -> Option<Vec<ShellToken>> {
        self.deeper()?;
        let tokens = std::mem::take(&mut self.tokens);
        let documents = std::mem::take(&mut self.documents);
        let is_test = std::mem::take(&mut self.is_test);
        let is_closed = self.read_to_parenthesis();
        self.depth -= 1;
        (self.documents, self.is_test) = (documents, is_test);
        let inside = std::mem::replace(&mut self.tokens, tokens);
        is_closed.map(|()| inside)
    }

    fn read_to_parenthesis(&mut self) -> Option<()> {
        // What is open: a parenthesis, or a `case`, in which one stands behind each pattern.
        let mut open: Vec<bool> = Vec::new();
        while !(open.is_empty() && self.rest.peek() == Some(&')')) {
            let count = self.tokens.len();
            if !self.token()? {
                return None;
            }
            let is_case = open.last() == Some(&true);
            match self.tokens.get(count) {
                Some(ShellToken::Open) => open.push(false),
                Some(ShellToken::Close) if !is_case => drop(open.pop()),
                Some(token) if token.keyword() == Some("case") && self.is_command_place(count) => open.push(true),
                Some(token) if token.keyword() == Some("esac") && is_case => drop(open.pop()),
                _ => {}
            }
        }
        self.rest.next();
        Some(())
    }

    /// One expansion more is open.
    pub(super) fn deeper(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            self.left = 0;
            return None;
        }
        Some(())
    }

    /// What stands behind the first parenthesis of `((…))`, if it is that and not a command in two pairs.
    pub(super) fn arithmetic_text(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        ahead.next_if_eq(&'(')?;
        let mut text = String::new();
        let mut open = 2_usize;
        while text.len() < ARITHMETIC {
            match ahead.next()? {
                ')' if open == 2 => {
                    ahead.next_if_eq(&')')?;
                    self.rest = ahead;
                    return Some(text);
                }
                sign => {
                    open += usize::from(sign == '(');
                    open -= usize::from(sign == ')');
                    text.push(sign);
                }
            }
        }
        None
    }
}
