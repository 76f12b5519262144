//! Arithmetic of one step: `$((OPTIND - 1))`, `(( $# > 2 ))` (POSIX.1-2017, Shell Command Language, 2.6.4).

use image_linkage::escape;

use super::script_run::{ScriptRun, Success, VariableValue};

/// The signs between two numbers, the longer ones first.
const SIGNS: [&str; 11] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%"];

impl ScriptRun<'_> {
    /// `((…))` of bash: it succeeds where it comes to another number than 0.
    pub(super) fn run_arithmetic(&mut self, text: &str) -> Success {
        self.is_of_program = false;
        let number = if let Some((name, value, number)) = self.step(text) {
            self.assign(&name, VariableValue::Text(value.to_string()));
            Some(number)
        } else {
            self.forget_in(text);
            self.calculate(text)
        };
        self.asks = number.is_none();
        self.failed = escape::escape_bytes(format!("(({text}))").as_bytes());
        number.map(|number| number != 0)
    }

    /// What a step that sets one variable makes of it, and what the step itself comes to.
    fn step(&self, text: &str) -> Option<(String, i64, i64)> {
        let text = text.trim();
        let by_one = |name: &str, change: i64| {
            let before = self.number(name)?;
            Some((name.trim().to_owned(), before.checked_add(change)?, before))
        };
        let is_name = |name: &str| {
            name.trim()
                .starts_with(|sign: char| sign == '_' || sign.is_ascii_alphabetic())
        };
        let found = if let Some(name) = text.strip_suffix("++") {
            by_one(name, 1)
        } else if let Some(name) = text.strip_suffix("--") {
            by_one(name, -1)
        } else if let Some(name) = text.strip_prefix("++") {
            by_one(name, 1).map(|(name, after, _)| (name, after, after))
        } else if let Some(name) = text.strip_prefix("--") {
            by_one(name, -1).map(|(name, after, _)| (name, after, after))
        } else {
            let (name, rest) = text.split_once('=').filter(|(_, rest)| !rest.starts_with('='))?;
            let value = match name.strip_suffix(['+', '-']) {
                Some(own) => self.calculate(&format!("{own}{}{rest}", name.get(own.len()..)?))?,
                None => self.calculate(rest)?,
            };
            let name = name.trim_end_matches(['+', '-']).trim();
            Some((name.to_owned(), value, value))
        };
        found.filter(|(name, ..)| is_name(name) && name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric()))
    }

    /// What an expression comes to; `None` where only a run could tell.
    pub(super) fn calculate(&self, text: &str) -> Option<i64> {
        let text = text.trim();
        if let Some(number) = self.number(text) {
            return Some(number);
        }
        let (at, sign) = SIGNS.iter().find_map(|sign| Some((text.find(sign)?, sign)))?;
        let (one, rest) = text.split_at_checked(at)?;
        let (one, other) = (self.number(one)?, self.number(rest.strip_prefix(sign)?)?);
        match *sign {
            "<=" => Some(i64::from(one <= other)),
            ">=" => Some(i64::from(one >= other)),
            "==" => Some(i64::from(one == other)),
            "!=" => Some(i64::from(one != other)),
            "<" => Some(i64::from(one < other)),
            ">" => Some(i64::from(one > other)),
            "+" => one.checked_add(other),
            "-" => one.checked_sub(other),
            "*" => one.checked_mul(other),
            "/" => one.checked_div(other),
            _ => one.checked_rem(other),
        }
    }

    /// A number, or the variable that holds one.
    fn number(&self, text: &str) -> Option<i64> {
        let text = text.trim();
        let name = text.strip_prefix('$').unwrap_or(text);
        let name = name
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
            .unwrap_or(name);
        let is_name = name == "#" || name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric());
        if name.is_empty() || !is_name {
            return None;
        }
        // A zero in front makes it octal.
        if text.starts_with(|sign: char| sign.is_ascii_digit()) {
            return text.parse().ok().filter(|_| text == "0" || !text.starts_with('0'));
        }
        match self.value(name) {
            VariableValue::Text(value) => value.parse().ok(),
            VariableValue::Unset if name == "OPTIND" => Some(1),
            VariableValue::Unset => Some(0),
            VariableValue::Unknown => None,
        }
    }

    /// The variables that an expression may set are not known behind it.
    pub(super) fn forget_in(&mut self, text: &str) {
        let sets = text
            .replace("==", "")
            .replace("!=", "")
            .replace("<=", "")
            .replace(">=", "");
        if !sets.contains('=') && !sets.contains("++") && !sets.contains("--") {
            return;
        }
        let names = text.split(|sign: char| sign != '_' && !sign.is_ascii_alphanumeric());
        for name in names.filter(|name| name.starts_with(|sign: char| sign == '_' || sign.is_ascii_alphabetic())) {
            self.assign(name, VariableValue::Unknown);
        }
    }
}
