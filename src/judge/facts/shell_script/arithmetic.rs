//! Arithmetic of one step: `$((OPTIND - 1))`, `(( $# > 2 ))` (POSIX.1-2017, Shell Command Language, 2.6.4).

use super::script_run::{ScriptRun, VariableValue};

/// The signs between two numbers, the longer ones first.
const SIGNS: [&str; 11] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%"];

impl ScriptRun<'_> {
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
