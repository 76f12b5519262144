//! What begins with `$` or a backquote: variables, what commands say (POSIX.1-2017, Shell Command Language, 2.6).

use super::{Alternative, Extent, ShellKind, ShellToken, ValueChange, WordPart, WordReader, push_text};

impl WordReader<'_> {
    /// What begins with `$` or a backquote.
    pub(super) fn expansion(&mut self, is_quoted: bool) -> Option<WordPart> {
        if self.rest.next()? == '`' {
            return self.backquoted(is_quoted);
        }
        let variable = |name: String| WordPart::Variable {
            name,
            alternative: None,
            is_quoted,
        };
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                if let Some(text) = self.arithmetic_text() {
                    return Some(WordPart::Arithmetic(text));
                }
                Some(said_by(self.substitution()?, is_quoted))
            }
            Some('{') => {
                self.rest.next();
                self.deeper()?;
                let part = self.braced(is_quoted);
                self.depth -= 1;
                part
            }
            Some('@' | '*') => {
                self.rest.next();
                Some(WordPart::Arguments)
            }
            Some(digit) if digit.is_ascii_digit() => {
                self.rest.next();
                Some(variable(digit.to_string()))
            }
            Some(first) if first == '_' || first.is_ascii_alphabetic() => Some(variable(self.name())),
            Some('#') => {
                self.rest.next();
                Some(variable("#".to_owned()))
            }
            Some('\'') if !is_quoted && self.kind != ShellKind::Dash => {
                self.rest.next();
                self.escaped()
            }
            Some('?' | '$' | '!' | '-') => {
                self.rest.next();
                Some(WordPart::Unknown)
            }
            _ => Some(WordPart::Text("$".to_owned())),
        }
    }

    /// What stands between backquotes, where a backslash takes the meaning of what follows.
    fn backquoted(&mut self, is_quoted: bool) -> Option<WordPart> {
        self.deeper()?;
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                '`' => break,
                '\\' => match self.rest.next()? {
                    sign @ ('`' | '\\' | '$') => text.push(sign),
                    sign => text.extend(['\\', sign]),
                },
                sign => text.push(sign),
            }
        }
        let inner = WordReader {
            rest: text.chars().peekable(),
            kind: self.kind,
            tokens: Vec::new(),
            documents: Vec::new(),
            depth: self.depth,
            is_test: false,
            left: self.left,
        };
        self.left = self.left.saturating_sub(text.len());
        self.depth -= 1;
        Some(said_by(inner.all()?, is_quoted))
    }

    /// `$'…'`, which bash alone takes for one text.
    fn escaped(&mut self) -> Option<WordPart> {
        loop {
            match self.rest.next()? {
                '\'' => return Some(WordPart::Unknown),
                '\\' => drop(self.rest.next()),
                _ => {}
            }
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(sign) = self.rest.next_if(|&sign| sign == '_' || sign.is_ascii_alphanumeric()) {
            name.push(sign);
        }
        name
    }

    /// What follows `${`, up to its brace.
    fn braced(&mut self, is_quoted: bool) -> Option<WordPart> {
        let is_special = |sign: &char| matches!(sign, '@' | '*' | '?' | '$' | '-');
        // `!` in front takes the variable whose name it holds, `#` the length of its value.
        let mark = self.rest.next_if(|&sign| matches!(sign, '!' | '#'));
        let name = match self.rest.next_if(is_special) {
            Some(sign) => sign.to_string(),
            None => self.name(),
        };
        let name = mark.into_iter().chain(name.chars()).collect::<String>();
        let refused = if self.kind == ShellKind::Dash {
            WordPart::Refused
        } else {
            WordPart::Unknown
        };
        let is_indirect = mark == Some('!') && name.len() > 1;
        if self.rest.next_if_eq(&'}').is_some() {
            return Some(match name.as_str() {
                "@" | "*" => WordPart::Arguments,
                "" | "!" | "?" | "$" | "-" => WordPart::Unknown,
                _ if is_indirect && self.kind == ShellKind::Dash => refused,
                _ => WordPart::Variable {
                    name,
                    alternative: None,
                    is_quoted,
                },
            });
        }
        let is_element = self.rest.peek() == Some(&'[');
        if is_element && self.kind != ShellKind::Dash {
            return self.element(&name, is_quoted);
        }
        let empty_counts = self.rest.next_if_eq(&':').is_some();
        let sign = self.rest.next()?;
        let is_longest = matches!(sign, '#' | '%') && self.rest.next_if_eq(&sign).is_some();
        let extent = if is_longest { Extent::Longest } else { Extent::Shortest };
        let mut parts = self.until_brace(is_quoted)?;
        let change = match (sign, empty_counts) {
            _ if name.is_empty() => None,
            ('-', _) => Some(ValueChange::Default),
            ('=', _) => Some(ValueChange::Assigned),
            ('?', _) => Some(ValueChange::Demanded),
            ('+', _) => Some(ValueChange::Instead),
            ('#', false) => Some(ValueChange::CutFront(extent)),
            ('%', false) => Some(ValueChange::CutEnd(extent)),
            (digit, true) if digit.is_ascii_digit() && self.kind != ShellKind::Dash => {
                parts.insert(0, WordPart::Text(digit.to_string()));
                Some(ValueChange::Part)
            }
            _ => None,
        };
        let Some(change) = change else {
            return Some(if name.is_empty() { WordPart::Unknown } else { refused });
        };
        if is_indirect && self.kind == ShellKind::Dash {
            return Some(refused);
        }
        Some(WordPart::Variable {
            name,
            alternative: Some(Alternative {
                change,
                empty_counts,
                parts,
            }),
            is_quoted,
        })
    }

    /// `NAME[@]}` and `NAME[NUMBER]}` of an array; what else stands there only a run could tell.
    fn element(&mut self, name: &str, is_quoted: bool) -> Option<WordPart> {
        let inside = self.rest.clone().take(ALL.len());
        let is_all = inside.eq(ALL.chars());
        let parts = self.until_brace(is_quoted)?;
        let index = match parts.as_slice() {
            _ if is_all => "@]".to_owned(),
            [WordPart::Wildcard('['), WordPart::Text(index)] => index.clone(),
            _ => String::new(),
        };
        let is_index = index
            .strip_suffix(']')
            .is_some_and(|at| at == "@" || at.parse::<usize>().is_ok());
        if !is_index || name.starts_with('!') {
            return Some(WordPart::Unknown);
        }
        Some(WordPart::Variable {
            name: format!("{name}[{index}"),
            alternative: None,
            is_quoted,
        })
    }

    fn until_brace(&mut self, is_quoted: bool) -> Option<Vec<WordPart>> {
        let mut parts = Vec::new();
        loop {
            match *self.rest.peek()? {
                '}' => {
                    self.rest.next();
                    return Some(parts);
                }
                '"' => {
                    self.rest.next();
                    self.double_quoted(&mut parts)?;
                }
                '\'' if !is_quoted => {
                    self.rest.next();
                    self.single_quoted(&mut parts)?;
                }
                '\\' => {
                    self.rest.next();
                    push_text(&mut parts, self.rest.next()?);
                }
                '$' | '`' => parts.push(self.expansion(is_quoted)?),
                sign @ ('*' | '?' | '[') => {
                    self.rest.next();
                    parts.push(WordPart::Wildcard(sign));
                }
                sign => {
                    self.rest.next();
                    push_text(&mut parts, sign);
                }
            }
        }
    }
}

/// The command that says the number of the user, and the variable that stands for what it says.
pub(in crate::judge::facts) const USER_NUMBER: &str = "id -u";

/// What stands behind the name of an array for all its elements, and closes the brace.
const ALL: &str = "[@]}";

/// What commands say, of those few that a variable holds.
fn said_by(commands: Vec<ShellToken>, is_quoted: bool) -> WordPart {
    let words = commands.iter().filter(|token| !matches!(token, ShellToken::Line));
    let words: Option<Vec<&str>> = words.map(ShellToken::keyword).collect();
    let name = match words.unwrap_or_default().as_slice() {
        ["pwd"] => "PWD",
        ["id", "-u"] => USER_NUMBER,
        _ => return WordPart::Command(commands, is_quoted),
    };
    WordPart::Variable {
        name: name.to_owned(),
        alternative: None,
        is_quoted,
    }
}
