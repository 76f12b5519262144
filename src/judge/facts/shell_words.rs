//! The words of a shell script (POSIX.1-2017, Shell Command Language, 2.3 and 2.6), without what they come to.

mod expansions;

use std::iter::Peekable;
use std::str::Chars;

pub(super) use expansions::USER_NUMBER;

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Text as it stands.
    Text(String),
    /// A variable, with what stands for it.
    Variable {
        name: String,
        alternative: Option<Alternative>,
        is_quoted: bool,
    },
    /// All arguments of the script.
    Arguments,
    /// A sign that stands for names of files: `*`, `?` or `[`.
    Wildcard(char),
    /// What only a run could tell: a command's output, arithmetic, other expansions.
    Unknown,
}

/// What is made of a variable's value (POSIX.1-2017, Shell Command Language, 2.6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub change: ValueChange,
    /// Whether an empty variable counts as one that is not set.
    pub empty_counts: bool,
    pub parts: Vec<WordPart>,
}

/// The signs in the braces of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueChange {
    /// `-`: the word stands for a variable that is not set.
    Default,
    /// `=`: the variable gets it, too.
    Assigned,
    /// `?`: without the variable the script ends.
    Demanded,
    /// `+`: the word stands for a variable that is set.
    Instead,
    /// `#`, `##`: without what fits at its begin, the shortest or the longest.
    CutFront(Extent),
    /// `%`, `%%`: without what fits at its end.
    CutEnd(Extent),
    /// `:OFFSET:LENGTH` of bash.
    Part,
}

/// How much of a value a pattern takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Shortest,
    Longest,
}

/// A word or what divides commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellToken {
    /// A word, and whether some of it was quoted: then it is there even if it is empty.
    Word(Vec<WordPart>, bool),
    /// `;` or the end of a line.
    End,
    /// `&`: the command runs beside the script.
    Background,
    And,
    Or,
    Pipe,
    Open,
    Close,
    /// `;;` of a `case`.
    CaseEnd,
}

/// The words of a script; `None` where a quote or a brace has no end, or there are too many.
pub(super) fn shell_tokens(script: &str) -> Option<Vec<ShellToken>> {
    let mut reader = WordReader {
        rest: script.chars().peekable(),
        tokens: Vec::new(),
        documents: Vec::new(),
        depth: 0,
        is_test: false,
    };
    while reader.token()? {
        if reader.tokens.len() > TOKENS {
            return None;
        }
    }
    reader.tokens.push(ShellToken::End);
    Some(reader.tokens)
}

/// The words of one script that are read; entry points have some hundreds.
const TOKENS: usize = 20_000;
/// The parts of one value in which `~` is looked for.
const ELEMENTS: usize = 64;
/// The words behind which a command stands.
const BEFORE_COMMANDS: [&str; 9] = ["if", "elif", "while", "until", "!", "then", "else", "do", "{"];

struct WordReader<'s> {
    rest: Peekable<Chars<'s>>,
    tokens: Vec<ShellToken>,
    /// The ends of here-documents whose text begins at the next line.
    documents: Vec<String>,
    /// How many expansions are open.
    depth: usize,
    /// Whether `[[` is open, in which `<` and `>` compare.
    is_test: bool,
}

impl WordReader<'_> {
    /// Reads one token; whether there was one.
    fn token(&mut self) -> Option<bool> {
        let Some(&next) = self.rest.peek() else {
            return Some(false);
        };
        match next {
            ' ' | '\t' | '\r' => drop(self.rest.next()),
            '#' => while self.rest.next_if(|&sign| sign != '\n').is_some() {},
            '\n' => {
                self.rest.next();
                self.skip_documents();
                self.tokens.push(ShellToken::End);
            }
            ';' => self.operator(';', ShellToken::End, ShellToken::CaseEnd),
            '|' => self.operator('|', ShellToken::Pipe, ShellToken::Or),
            '&' => {
                self.rest.next();
                if self.rest.next_if_eq(&'>').is_some() {
                    self.redirection('>')?;
                } else if self.rest.next_if_eq(&'&').is_some() {
                    self.tokens.push(ShellToken::And);
                } else {
                    self.tokens.push(ShellToken::Background);
                }
            }
            '(' | ')' => {
                self.rest.next();
                if next == '(' && self.arithmetic() {
                    return Some(true);
                }
                self.tokens.push(if next == '(' {
                    ShellToken::Open
                } else {
                    ShellToken::Close
                });
            }
            '<' | '>' => {
                self.rest.next();
                self.redirection(next)?;
            }
            _ => self.word_token()?,
        }
        Some(true)
    }

    fn operator(&mut self, sign: char, one: ShellToken, two: ShellToken) {
        self.rest.next();
        let is_two = self.rest.next_if_eq(&sign).is_some();
        self.tokens.push(if is_two { two } else { one });
    }

    /// `((…))` where a command may stand; it is read as a command of that name.
    fn arithmetic(&mut self) -> bool {
        let before = match self.tokens.last() {
            Some(ShellToken::Word(parts, false)) => match parts.as_slice() {
                [WordPart::Text(text)] => Some(text.as_str()),
                _ => Some(""),
            },
            Some(ShellToken::Word(_, true)) => Some(""),
            _ => None,
        };
        let may_stand = before.is_none_or(|word| BEFORE_COMMANDS.contains(&word));
        if !may_stand || self.rest.peek() != Some(&'(') {
            return false;
        }
        let mut ahead = Self {
            rest: self.rest.clone(),
            tokens: Vec::new(),
            documents: Vec::new(),
            depth: 0,
            is_test: false,
        };
        let is_arithmetic = ahead.parentheses().is_some_and(|inside| inside.ends_with(')'));
        if is_arithmetic {
            self.rest = ahead.rest;
            let word = vec![WordPart::Text("((".to_owned())];
            self.tokens.push(ShellToken::Word(word, false));
        }
        is_arithmetic
    }

    /// What follows the sign of a redirection: no word of the command.
    fn redirection(&mut self, sign: char) -> Option<()> {
        if self.is_test {
            self.tokens.push(ShellToken::Word(vec![WordPart::Unknown], true));
            return Some(());
        }
        let is_document = sign == '<' && self.rest.next_if_eq(&'<').is_some();
        let is_text = is_document && self.rest.next_if_eq(&'<').is_some();
        while self
            .rest
            .next_if(|&next| matches!(next, '>' | '&' | '|' | '-'))
            .is_some()
        {}
        while self.rest.next_if(|&next| matches!(next, ' ' | '\t')).is_some() {}
        // A descriptor in front of the sign was read as a word.
        let is_number = |parts: &[WordPart]| matches!(parts, [WordPart::Text(text)] if text.bytes().all(|byte| byte.is_ascii_digit()));
        if matches!(self.tokens.last(), Some(ShellToken::Word(parts, false)) if is_number(parts)) {
            self.tokens.pop();
        }
        if self.rest.next_if_eq(&'(').is_some() {
            return self.parentheses().map(drop);
        }
        let (parts, _) = self.word()?;
        if is_document && !is_text {
            let text = parts.iter().filter_map(|part| match part {
                WordPart::Text(text) => Some(text.as_str()),
                _ => None,
            });
            self.documents.push(text.collect());
        }
        Some(())
    }

    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            let mut line = String::new();
            for sign in self.rest.by_ref() {
                if sign != '\n' {
                    line.push(sign);
                    continue;
                }
                if line.trim_start_matches('\t') == end {
                    break;
                }
                line.clear();
            }
        }
    }

    fn word_token(&mut self) -> Option<()> {
        let (parts, is_quoted) = self.word()?;
        // `NAME=(…)` is an array of bash.
        let is_array = matches!(parts.last(), Some(WordPart::Text(text)) if text.ends_with('='));
        let mut parts = parts;
        if is_array && self.rest.next_if_eq(&'(').is_some() {
            self.parentheses()?;
            parts.push(WordPart::Unknown);
        }
        if let ([WordPart::Text(text)], false) = (parts.as_slice(), is_quoted) {
            self.is_test = (self.is_test || text == "[[") && text != "]]";
        }
        if !parts.is_empty() || is_quoted {
            self.tokens.push(ShellToken::Word(parts, is_quoted));
        }
        Some(())
    }

    /// A word up to a blank or an operator, and whether some of it is quoted.
    fn word(&mut self) -> Option<(Vec<WordPart>, bool)> {
        let mut parts = Vec::new();
        let mut is_quoted = false;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.rest.next();
                    is_quoted = true;
                    self.single_quoted(&mut parts)?;
                }
                '"' => {
                    self.rest.next();
                    is_quoted = true;
                    self.double_quoted(&mut parts)?;
                }
                '\\' => {
                    self.rest.next();
                    if let Some(sign) = self.rest.next().filter(|sign| *sign != '\n') {
                        push_text(&mut parts, sign);
                    }
                }
                '$' | '`' => parts.push(self.expansion(false)?),
                _ => {
                    self.rest.next();
                    match self.unquoted(next, &parts) {
                        Some(part) => parts.push(part),
                        None => push_text(&mut parts, next),
                    }
                }
            }
        }
        Some((parts, is_quoted))
    }

    /// What a sign without quotes stands for behind the parts of its word; nothing where it stands for itself.
    fn unquoted(&mut self, sign: char, before: &[WordPart]) -> Option<WordPart> {
        let next = self.rest.peek().copied();
        let is_last = next.is_none_or(char::is_whitespace);
        match sign {
            // `[` and `[[` are commands.
            '[' if before.is_empty() && (is_last || next == Some('[')) => None,
            '[' if matches!(before, [WordPart::Text(first)] if first == "[") => None,
            '*' | '?' | '[' => Some(WordPart::Wildcard(sign)),
            // bash makes several words of `{a,b}`, and dash does not.
            '{' if !is_last => Some(WordPart::Unknown),
            '~' if before.is_empty() || begins_value(before) => Some(match next {
                None | Some('/' | ':' | ' ' | '\t' | '\n' | ';' | '&' | '|' | ')') => WordPart::Variable {
                    name: "HOME".to_owned(),
                    alternative: None,
                    is_quoted: true,
                },
                _ => WordPart::Unknown,
            }),
            _ => None,
        }
    }

    fn single_quoted(&mut self, parts: &mut Vec<WordPart>) -> Option<()> {
        loop {
            match self.rest.next()? {
                '\'' => return Some(()),
                sign => push_text(parts, sign),
            }
        }
    }

    fn double_quoted(&mut self, parts: &mut Vec<WordPart>) -> Option<()> {
        loop {
            match *self.rest.peek()? {
                '"' => {
                    self.rest.next();
                    return Some(());
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next()? {
                        '\n' => {}
                        sign @ ('$' | '`' | '"' | '\\') => push_text(parts, sign),
                        sign => {
                            push_text(parts, '\\');
                            push_text(parts, sign);
                        }
                    }
                }
                '$' | '`' => parts.push(self.expansion(true)?),
                sign => {
                    self.rest.next();
                    push_text(parts, sign);
                }
            }
        }
    }

    /// What stands before the parenthesis that closes one which has been read.
    fn parentheses(&mut self) -> Option<String> {
        let mut inside = String::new();
        let mut open = 1_usize;
        loop {
            let sign = self.rest.next()?;
            match sign {
                '(' => open += 1,
                ')' if open == 1 => return Some(inside),
                ')' => open -= 1,
                '\\' => inside.extend(self.rest.next()),
                quote @ ('\'' | '"') => while self.rest.next()? != quote {},
                _ => {}
            }
            inside.push(sign);
        }
    }
}

/// Whether a value, or an element of one, begins behind these parts: there `~` stands for a folder.
fn begins_value(before: &[WordPart]) -> bool {
    let (Some(WordPart::Text(first)), Some(WordPart::Text(last))) = (before.first(), before.last()) else {
        return false;
    };
    let name = first.split_once('=').map(|(name, _)| name);
    let is_name = |name: &str| name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric());
    before.len() < ELEMENTS && last.ends_with(['=', ':']) && name.is_some_and(is_name)
}

fn push_text(parts: &mut Vec<WordPart>, sign: char) {
    match parts.last_mut() {
        Some(WordPart::Text(text)) => text.push(sign),
        _ => parts.push(WordPart::Text(sign.to_string())),
    }
}
