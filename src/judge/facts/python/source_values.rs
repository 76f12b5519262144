//! What expressions of Python come to before a process runs them: variables of the environment, arguments, files, the user
//! and the version (The Python Language Reference, 6). What is not told here is not known.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What is known of the process that runs a module.
pub(in crate::judge::facts) trait PythonSurroundings {
    /// A variable of the environment, or that it is not set; `None` where only a run could tell.
    #[expect(
        clippy::option_option,
        reason = "not set, and not known, are two answers, as for a name"
    )]
    fn variable(&self, name: &str) -> Option<Option<String>>;
    /// What `test` says of a file by this letter; `None` where only a run could tell.
    fn file_test(&self, letter: char, path: &str) -> Option<bool>;
    /// `sys.argv`, as far as it is known.
    fn arguments(&self) -> Option<Vec<String>>;
    /// The text of a module beside the script, as far as it is kept.
    fn module_text(&self, name: &str) -> Option<String>;
    /// The number of the user.
    fn user(&self) -> u32;
    /// The minor version of Python 3.
    fn minor_version(&self) -> Option<i64>;
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PythonValue {
    Nothing,
    Truth(bool),
    Number(i64),
    Text(String),
    Several(Vec<PythonValue>),
    /// `os.environ`.
    Environment,
}

use PythonValue::{Environment, Nothing, Number, Several, Text, Truth};

/// The variables of a module; `None` for one whose value is not known.
pub(super) type KnownNames = BTreeMap<String, Option<PythonValue>>;

/// The tokens of one expression that are followed.
const TOKENS: usize = 200;
/// How deep expressions stand in each other.
const DEPTH: usize = 30;
/// The bytes of one value that are held: a module assigns thousands of times.
const BYTES: usize = 4096;

/// The value of an expression, where it is known.
pub(super) fn value_of(text: &str, names: &KnownNames, process: &dyn PythonSurroundings) -> Option<PythonValue> {
    let tokens = tokens_of(text).filter(|tokens| tokens.len() <= TOKENS)?;
    let mut reader = ExpressionReader {
        tokens: &tokens,
        at: 0,
        depth: 0,
        names,
        process,
    };
    let value = reader.either();
    (reader.at == tokens.len()).then_some(value)?
}

impl PythonValue {
    /// Whether it counts as true.
    pub fn holds(&self) -> bool {
        match self {
            Nothing => false,
            Truth(truth) => *truth,
            Number(number) => *number != 0,
            Text(text) => !text.is_empty(),
            Several(values) => !values.is_empty(),
            Environment => true,
        }
    }

    /// Whether it may be held. What holds lists may double with each line.
    fn is_small(&self) -> bool {
        let bytes = |value: &Self| match value {
            Text(text) => text.len(),
            Several(_) => BYTES,
            _ => 1,
        };
        let all = match self {
            Several(values) => values.iter().map(|value| bytes(value) + 1).sum(),
            one => bytes(one),
        };
        all <= BYTES
    }

    fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Number(one), Number(other)) => Some(one.cmp(other)),
            (Text(one), Text(other)) => Some(one.cmp(other)),
            (Several(one), Several(other)) => {
                let mut pairs = one.iter().zip(other);
                let differs = pairs.find(|(one, other)| one != other);
                differs.map_or(Some(one.len().cmp(&other.len())), |(one, other)| one.compare(other))
            }
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum SourceToken {
    /// A name with what stands behind its dots.
    Name(String),
    Value(PythonValue),
    Sign(String),
}

/// The words and signs of an expression; `None` where one is not understood.
fn tokens_of(text: &str) -> Option<Vec<SourceToken>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(sign) = rest.chars().next() {
        let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
        let (token, length) = match sign {
            '\'' | '"' => {
                let inside = rest.get(1..)?;
                let end = inside.find(sign)?;
                let inside = inside.get(..end).filter(|inside| !inside.contains('\\'))?;
                (SourceToken::Value(Text(inside.to_owned())), end + 2)
            }
            '0'..='9' => {
                let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
                (SourceToken::Value(Number(rest.get(..end)?.parse().ok()?)), end)
            }
            _ if is_part(sign) || sign == '.' => {
                let end = rest.find(|sign| !is_part(sign) && sign != '.').unwrap_or(rest.len());
                (SourceToken::Name(rest.get(..end)?.to_owned()), end)
            }
            '=' | '!' | '<' | '>' if rest.get(1..)?.starts_with('=') => {
                (SourceToken::Sign(rest.get(..2)?.to_owned()), 2)
            }
            '(' | ')' | '[' | ']' | ',' | '<' | '>' => (SourceToken::Sign(sign.to_string()), 1),
            _ => return None,
        };
        tokens.push(token);
        rest = rest.get(length..)?.trim_start();
    }
    Some(tokens)
}

struct ExpressionReader<'e> {
    tokens: &'e [SourceToken],
    at: usize,
    depth: usize,
    names: &'e KnownNames,
    process: &'e dyn PythonSurroundings,
}

impl ExpressionReader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let is_next = match self.tokens.get(self.at) {
            Some(SourceToken::Name(name) | SourceToken::Sign(name)) => name == word,
            _ => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    /// `… or …`
    fn either(&mut self) -> Option<PythonValue> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let mut value = self.both();
        while self.take("or") {
            let other = self.both();
            value = match (value, other) {
                (Some(value), _) if value.holds() => Some(value),
                (Some(_), other) => other,
                (None, Some(other)) if other.holds() => Some(Truth(true)),
                _ => None,
            };
        }
        self.depth -= 1;
        value
    }

    /// `… and …`
    fn both(&mut self) -> Option<PythonValue> {
        let mut value = self.negated();
        while self.take("and") {
            let other = self.negated();
            value = match (value, other) {
                (Some(value), _) if !value.holds() => Some(value),
                (Some(_), other) => other,
                (None, Some(other)) if !other.holds() => Some(Truth(false)),
                _ => None,
            };
        }
        value
    }

    fn negated(&mut self) -> Option<PythonValue> {
        if self.take("not") {
            return self.negated().map(|value| Truth(!value.holds()));
        }
        let one = self.primary();
        for sign in ["==", "!=", "<=", ">=", "<", ">", "is", "in", "not"] {
            if self.take(sign) {
                let is_not = (sign == "is" && self.take("not")) || (sign == "not" && self.take("in"));
                let other = self.primary();
                return compared(&one?, sign, is_not, &other?, self.process).map(Truth);
            }
        }
        one
    }

    fn primary(&mut self) -> Option<PythonValue> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        let mut value = match token {
            SourceToken::Value(value) => Some(value.clone()),
            SourceToken::Sign(sign) if sign == "(" || sign == "[" => {
                let (mut values, is_list) = self.list(if sign == "(" { ")" } else { "]" });
                match values.pop() {
                    Some(value) if values.is_empty() && !is_list && sign == "(" => value,
                    last => values.into_iter().chain(last).collect::<Option<_>>().map(Several),
                }
            }
            SourceToken::Name(name) => {
                if self.take("(") {
                    let arguments = self.list(")").0;
                    self.call(name, &arguments)
                } else {
                    self.named(name)
                }
            }
            SourceToken::Sign(_) => return None,
        };
        loop {
            if self.take("[") {
                let (index, _) = self.list("]");
                value = indexed(&value?, index.first()?.as_ref()?, self.process);
            } else if let Some(SourceToken::Name(name)) = self.tokens.get(self.at)
                && name.starts_with('.')
            {
                self.at += 1;
                let arguments = if self.take("(") { self.list(")").0 } else { return None };
                value = self.method(&value?, name, &arguments);
            } else {
                return value.filter(PythonValue::is_small);
            }
        }
    }

    /// Values up to a closing bracket, and whether a comma stands behind the last.
    fn list(&mut self, end: &str) -> (Vec<Option<PythonValue>>, bool) {
        let (mut values, mut is_open) = (Vec::new(), false);
        while !self.take(end) && self.at < self.tokens.len() {
            let before = self.at;
            values.push(self.either());
            is_open = self.take(",");
            if self.at == before {
                break;
            }
        }
        (values, is_open)
    }

    fn named(&self, name: &str) -> Option<PythonValue> {
        // More parts follow, so that it is greater than its first two.
        let version = || {
            Some(Several(vec![
                Number(3),
                Number(self.process.minor_version()?),
                Number(0),
            ]))
        };
        match name {
            "True" => Some(Truth(true)),
            "False" => Some(Truth(false)),
            "None" => Some(Nothing),
            "os.environ" | "environ" => Some(Environment),
            "sys.platform" => Some(Text("linux".to_owned())),
            "os.name" => Some(Text("posix".to_owned())),
            "sys.version_info" => version(),
            "sys.version_info.major" => Some(Number(3)),
            "sys.version_info.minor" => Some(Number(self.process.minor_version()?)),
            "sys.argv" => Some(Several(self.process.arguments()?.into_iter().map(Text).collect())),
            _ => self.names.get(name)?.clone(),
        }
    }

    fn call(&self, name: &str, arguments: &[Option<PythonValue>]) -> Option<PythonValue> {
        let first = arguments.first().and_then(Option::as_ref);
        let tested = |letter| match first {
            Some(Text(path)) => self.process.file_test(letter, path).map(Truth),
            _ => None,
        };
        match (name, first) {
            ("os.environ.get" | "environ.get" | "os.getenv" | "getenv", Some(Text(variable))) => {
                match self.process.variable(variable)? {
                    Some(text) => Some(Text(text)),
                    None => arguments.get(1).map_or(Some(Nothing), Clone::clone),
                }
            }
            ("os.path.exists" | "exists", _) => tested('e'),
            ("os.path.isfile" | "isfile", _) => tested('f'),
            ("os.path.isdir" | "isdir", _) => tested('d'),
            ("os.getuid" | "os.geteuid", None) => Some(Number(self.process.user().into())),
            ("platform.system", None) => Some(Text("Linux".to_owned())),
            ("len", Some(Several(values))) => Some(Number(i64::try_from(values.len()).ok()?)),
            ("len", Some(Text(text))) => Some(Number(i64::try_from(text.len()).ok()?)),
            ("bool", Some(value)) => Some(Truth(value.holds())),
            ("int", Some(Text(text))) => Some(Number(text.parse().ok()?)),
            ("str" | "Path" | "pathlib.Path", Some(Text(text))) => Some(Text(text.clone())),
            ("sys.platform.startswith", Some(Text(text))) => Some(Truth("linux".starts_with(text.as_str()))),
            _ => {
                let (value, method) = name.split_at_checked(name.rfind('.')?)?;
                self.method(&self.named(value)?, method, arguments)
            }
        }
    }

    /// A method of a text, which may be that of a path.
    fn method(&self, value: &PythonValue, name: &str, arguments: &[Option<PythonValue>]) -> Option<PythonValue> {
        let Text(text) = value else { return None };
        let tested = |letter| self.process.file_test(letter, text).map(Truth);
        match (name, arguments) {
            (".lower", []) => Some(Text(text.to_lowercase())),
            (".upper", []) => Some(Text(text.to_uppercase())),
            (".strip", []) => Some(Text(text.trim().to_owned())),
            (".startswith", [Some(Text(begin))]) => Some(Truth(text.starts_with(begin.as_str()))),
            (".endswith", [Some(Text(end))]) => Some(Truth(text.ends_with(end.as_str()))),
            (".exists", []) => tested('e'),
            (".is_file", []) => tested('f'),
            (".is_dir", []) => tested('d'),
            _ => None,
        }
    }
}

fn indexed(value: &PythonValue, index: &PythonValue, process: &dyn PythonSurroundings) -> Option<PythonValue> {
    match (value, index) {
        (Several(values), Number(number)) => values.get(usize::try_from(*number).ok()?).cloned(),
        (Environment, Text(name)) => process.variable(name)?.map(Text),
        _ => None,
    }
}

fn compared(
    one: &PythonValue,
    sign: &str,
    is_not: bool,
    other: &PythonValue,
    process: &dyn PythonSurroundings,
) -> Option<bool> {
    let order = || one.compare(other);
    match sign {
        "==" => Some(one == other),
        "!=" => Some(one != other),
        "<" => order().map(Ordering::is_lt),
        "<=" => order().map(Ordering::is_le),
        ">" => order().map(Ordering::is_gt),
        ">=" => order().map(Ordering::is_ge),
        // Of texts and numbers, what is one object is the interpreter's to say.
        "is" if matches!(other, Nothing | Truth(_)) => Some((one == other) != is_not),
        "in" | "not" => {
            let is_in = match (one, other) {
                (Text(name), Environment) => process.variable(name)?.is_some(),
                (Text(part), Text(text)) => text.contains(part.as_str()),
                (one, Several(values)) => values.contains(one),
                _ => return None,
            };
            Some(is_in != (sign == "not"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownNames, PythonSurroundings, PythonValue, value_of};

    /// A process of which nothing is known.
    struct UnknownProcess;

    impl PythonSurroundings for UnknownProcess {
        fn variable(&self, _: &str) -> Option<Option<String>> {
            None
        }
        fn file_test(&self, _: char, _: &str) -> Option<bool> {
            None
        }
        fn arguments(&self) -> Option<Vec<String>> {
            None
        }
        fn module_text(&self, _: &str) -> Option<String> {
            None
        }
        fn user(&self) -> u32 {
            0
        }
        fn minor_version(&self) -> Option<i64> {
            None
        }
    }

    #[test]
    fn a_value_that_doubles_with_each_line_is_soon_not_known() {
        let mut names = KnownNames::from([("x".to_owned(), Some(PythonValue::Number(1)))]);
        for _ in 0..60 {
            let value = value_of("[x, x]", &names, &UnknownProcess);
            names.insert("x".to_owned(), value);
        }
        assert_eq!(names["x"], None);
        let long = format!("'{}'", "a".repeat(5000));
        assert_eq!(value_of(&long, &names, &UnknownProcess), None);
        let pair = PythonValue::Several(vec![PythonValue::Number(3), PythonValue::Number(9)]);
        assert_eq!(value_of("(3, 9)", &names, &UnknownProcess), Some(pair));
    }
}
