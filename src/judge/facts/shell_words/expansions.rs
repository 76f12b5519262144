//! What begins with `$` or a backquote: variables, what commands say (POSIX.1-2017, Shell Command Language, 2.6).

use super::{Alternative, Extent, ValueChange, WordPart, WordReader, push_text};

/// How deep expansions stand in expansions.
const DEPTH: usize = 16;

impl WordReader<'_> {
    /// What begins with `$` or a backquote.
    pub(super) fn expansion(&mut self, is_quoted: bool) -> Option<WordPart> {
        if self.rest.next()? == '`' {
            let command: String = self.rest.by_ref().take_while(|&sign| sign != '`').collect();
            return Some(said_by(&command, is_quoted));
        }
        let variable = |name: String| WordPart::Variable {
            name,
            alternative: None,
            is_quoted,
        };
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                let command = self.parentheses()?;
                Some(said_by(&command, is_quoted))
            }
            Some('{') => {
                self.rest.next();
                self.depth += 1;
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
            Some('\'') if !is_quoted => {
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
        let name = match self.rest.next_if(|&sign| matches!(sign, '@' | '*')) {
            Some(sign) => sign.to_string(),
            None => self.name(),
        };
        if self.rest.next_if_eq(&'}').is_some() {
            return Some(match name.as_str() {
                "@" | "*" => WordPart::Arguments,
                "" => WordPart::Unknown,
                _ => WordPart::Variable {
                    name,
                    alternative: None,
                    is_quoted,
                },
            });
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
            (digit, true) if digit.is_ascii_digit() => {
                parts.insert(0, WordPart::Text(digit.to_string()));
                Some(ValueChange::Part)
            }
            _ => None,
        };
        let Some(change) = change else {
            return Some(WordPart::Unknown);
        };
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

    fn until_brace(&mut self, is_quoted: bool) -> Option<Vec<WordPart>> {
        if self.depth > DEPTH {
            return None;
        }
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

/// What a command says, of those few of which it is known.
fn said_by(command: &str, is_quoted: bool) -> WordPart {
    let name = match command.trim() {
        "pwd" => "PWD",
        USER_NUMBER => USER_NUMBER,
        _ => return WordPart::Unknown,
    };
    WordPart::Variable {
        name: name.to_owned(),
        alternative: None,
        is_quoted,
    }
}
