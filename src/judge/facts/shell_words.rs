//! The words of a shell script (POSIX.1-2017, Shell Command Language, 2.3 and 2.6), without what they come to.

mod expansions;
mod redirections;

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
    /// One of several texts: `@(…|…)` of bash.
    Choice(Vec<String>),
    /// What commands say, and whether it stands in quotes: `$(…)`.
    Command(Vec<ShellToken>, bool),
    /// The elements of an array of bash: `(…)` behind `NAME=`.
    List(Vec<ShellToken>),
    /// `$((…))`
    Arithmetic(String),
    /// What only a run could tell: other expansions.
    Unknown,
    /// An expansion that this shell does not know: it ends at it.
    Refused,
}

/// What shells do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ShellKind {
    /// bash, and not as `sh`: it goes on where a file that it reads cannot be read, which POSIX forbids (2.8.1), and
    /// knows more expansions.
    Bash,
    /// dash, which knows nothing beyond POSIX but `local`.
    Dash,
    /// busybox, which has no arrays.
    Busybox,
    /// bash as `sh`, or nothing that is known.
    #[default]
    Other,
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
    /// Where a command reads from or writes to: what it does with a file of that name, if it names one.
    Redirection(Option<FileDirection>, Vec<WordPart>),
    /// `;`
    End,
    /// The end of a line.
    Line,
    /// `&`: the command runs beside the script.
    Background,
    And,
    Or,
    Pipe,
    Open,
    Close,
    /// `;;` of a `case`.
    CaseEnd,
    /// A quote, brace or parenthesis that nothing closes, or a sign where none may stand.
    Broken,
}

/// What a redirection does with its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileDirection {
    Read,
    Write,
}

impl ShellToken {
    /// The word where it stands as it is, such as `if`.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Self::Word(parts, false) => match parts.as_slice() {
                [WordPart::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The words of a script, up to one that has no end; `None` where there are too many.
pub(super) fn shell_tokens(script: &str, kind: ShellKind) -> Option<Vec<ShellToken>> {
    WordReader {
        rest: script.chars().peekable(),
        kind,
        tokens: Vec::new(),
        documents: Vec::new(),
        depth: 0,
        is_test: false,
        left: TOKENS,
    }
    .all()
}

/// The words of one script that are read; entry points have some hundreds.
const TOKENS: usize = 20_000;
/// How deep expansions stand in expansions.
const DEPTH: usize = 16;
/// The parts of one value in which `~` is looked for.
const ELEMENTS: usize = 64;
/// The words behind which a command stands.
const BEFORE_COMMANDS: [&str; 10] = ["if", "elif", "while", "until", "!", "then", "else", "do", "{", "for"];

struct WordReader<'s> {
    rest: Peekable<Chars<'s>>,
    kind: ShellKind,
    tokens: Vec<ShellToken>,
    /// The ends of here-documents whose text begins at the next line, and whether tabs in front of them count for nothing.
    documents: Vec<(String, bool)>,
    /// How many expansions are open.
    depth: usize,
    /// Whether `[[` is open, in which `<` and `>` compare.
    is_test: bool,
    /// The tokens that may still be read; none once it is too deep.
    left: usize,
}

impl WordReader<'_> {
    fn all(mut self) -> Option<Vec<ShellToken>> {
        loop {
            match self.token() {
                Some(true) => {}
                Some(false) => break,
                None if self.left == 0 => return None,
                None => {
                    self.tokens.push(ShellToken::Broken);
                    break;
                }
            }
        }
        self.tokens.push(ShellToken::Line);
        Some(self.tokens)
    }

    /// Reads one token; whether there was one, and nothing where it has no end.
    fn token(&mut self) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let Some(&next) = self.rest.peek() else {
            return Some(false);
        };
        match next {
            ' ' | '\t' | '\r' => drop(self.rest.next()),
            '#' => while self.rest.next_if(|&sign| sign != '\n').is_some() {},
            '\n' => {
                self.rest.next();
                self.skip_documents();
                self.tokens.push(ShellToken::Line);
            }
            ';' => self.operator(';', ShellToken::End, ShellToken::CaseEnd),
            '|' => self.operator('|', ShellToken::Pipe, ShellToken::Or),
            '&' => {
                self.rest.next();
                if self.kind != ShellKind::Dash && self.rest.next_if_eq(&'>').is_some() {
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
        let token = if is_two { two } else { one };
        // `|&`, `;;&` and `;&` of bash.
        let is_longer = matches!(token, ShellToken::Pipe | ShellToken::CaseEnd | ShellToken::End);
        let is_longer = is_longer && self.kind != ShellKind::Dash && self.rest.next_if_eq(&'&').is_some();
        self.tokens.push(match token {
            ShellToken::End if is_longer => ShellToken::CaseEnd,
            token => token,
        });
    }

    /// Whether a command may begin behind the tokens up to a number.
    fn is_command_place(&self, at: usize) -> bool {
        match at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            Some(ShellToken::Redirection(..)) => false,
            Some(word @ ShellToken::Word(..)) => word.keyword().is_some_and(|word| BEFORE_COMMANDS.contains(&word)),
            _ => true,
        }
    }

    /// `((…))` where a command may stand; it is read as a command of that name with one word.
    fn arithmetic(&mut self) -> bool {
        let may_stand = self.kind != ShellKind::Dash && self.is_command_place(self.tokens.len());
        let text = if may_stand { self.arithmetic_text() } else { None };
        let is_arithmetic = text.is_some();
        for part in text
            .map(|text| [WordPart::Text("((".to_owned()), WordPart::Arithmetic(text)])
            .into_iter()
            .flatten()
        {
            self.tokens.push(ShellToken::Word(vec![part], false));
        }
        is_arithmetic
    }

    fn word_token(&mut self) -> Option<()> {
        let (mut parts, is_quoted) = self.word()?;
        // `NAME=(…)` is an array of bash.
        let is_array = matches!(parts.last(), Some(WordPart::Text(text)) if text.ends_with('='));
        let has_arrays = !matches!(self.kind, ShellKind::Dash | ShellKind::Busybox);
        if is_array && has_arrays && self.rest.next_if_eq(&'(').is_some() {
            parts.push(WordPart::List(self.substitution()?));
        }
        if let ([WordPart::Text(text)], false) = (parts.as_slice(), is_quoted) {
            let begins = text == "[[" && self.kind != ShellKind::Dash && self.is_command_place(self.tokens.len());
            self.is_test = (self.is_test || begins) && text != "]]";
            // The number of what is redirected is no word.
            let is_redirected = matches!(self.rest.peek(), Some('<' | '>'));
            if is_redirected && !self.is_test && text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Some(());
            }
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
                '(' if self.kind == ShellKind::Bash && self.choice(&mut parts) => {}
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

    /// Reads the texts behind `@` as `shopt -s extglob` has it; whether they are some.
    fn choice(&mut self, parts: &mut Vec<WordPart>) -> bool {
        let Some(WordPart::Text(text)) = parts
            .last_mut()
            .filter(|part| matches!(part, WordPart::Text(text) if text.ends_with('@')))
        else {
            return false;
        };
        let inside: String = self
            .rest
            .clone()
            .skip(1)
            .take_while(|sign| *sign != ')')
            .take(BRACES)
            .collect();
        if inside.contains(|sign: char| !(sign.is_ascii_alphanumeric() || "._-|".contains(sign))) {
            return false;
        }
        text.pop();
        parts.push(WordPart::Choice(inside.split('|').map(str::to_owned).collect()));
        self.rest.by_ref().take(inside.chars().count() + 2).for_each(drop);
        true
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
            '{' if self.kind != ShellKind::Dash && self.is_listed() => Some(WordPart::Unknown),
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

    /// Whether what stands behind a brace makes several words: `{a,b}` and `{1..3}`.
    fn is_listed(&self) -> bool {
        let inside = self
            .rest
            .clone()
            .take_while(|sign| !sign.is_whitespace() && *sign != '}');
        let inside: String = inside.take(BRACES).collect();
        inside.contains(',') || inside.contains("..") || inside.chars().count() == BRACES
    }
}

/// The signs between braces in which a list is looked for.
const BRACES: usize = 256;

/// Whether a value, or an element of one, begins behind these parts: there `~` stands for a folder.
fn begins_value(before: &[WordPart]) -> bool {
    let (Some(WordPart::Text(first)), Some(WordPart::Text(last))) = (before.first(), before.last()) else {
        return false;
    };
    let name = first.split_once('=').map(|(name, _)| name);
    let is_name = |name: &str| name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric());
    before.len() < ELEMENTS && last.ends_with(['=', ':']) && name.is_some_and(|name| !name.is_empty() && is_name(name))
}

fn push_text(parts: &mut Vec<WordPart>, sign: char) {
    match parts.last_mut() {
        Some(WordPart::Text(text)) => text.push(sign),
        _ => parts.push(WordPart::Text(sign.to_string())),
    }
}
