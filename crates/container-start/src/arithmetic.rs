//! Shell arithmetic (POSIX shell, 2.6.4). A result is known only if all operands are.

use shuck_ast::{ArithmeticBinaryOp as Binary, ArithmeticExpr as Expr, ArithmeticExprNode};

use crate::declarations::is_name;
use crate::reader::Reader;
use crate::state::State;

impl Reader<'_> {
    /// Evaluates an expression. If it is unsupported, every variable that it may assign becomes a hole.
    pub(crate) fn evaluate_number(&mut self, expression: &ArithmeticExprNode, state: &mut State) -> Option<i64> {
        match &expression.kind {
            Expr::Number(text) => plain_number(text.slice(&state.script.text)),
            Expr::Variable(name) => match &*self.parameter(name, state) {
                [] => Some(0),
                [text] if text.is_empty() => Some(0),
                [text] => plain_number(text),
                _ => None,
            },
            Expr::ShellWord(word) => plain_number(&self.word_text(word, state)),
            Expr::Parenthesized { expression } => self.evaluate_number(expression, state),
            Expr::Binary { left, op, right } => {
                let left = self.evaluate_number(left, state);
                let right = self.evaluate_number(right, state);
                if matches!(op, Binary::Divide | Binary::Modulo) && right.is_none_or(|right| right == 0) {
                    // Division by zero aborts the command.
                    self.assume_keeps("arithmetic");
                }
                compute(left?, *op, right?)
            }
            _ => {
                let text = expression.span.slice(&state.script.text).to_owned();
                let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                for name in words.filter(|word| is_name(word)) {
                    self.set_unknown(name, state);
                }
                None
            }
        }
    }
}

/// Parses a decimal number. A leading zero means octal, which is not supported.
fn plain_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

fn compute(left: i64, op: Binary, right: i64) -> Option<i64> {
    let holds = match op {
        Binary::Multiply => return left.checked_mul(right),
        Binary::Divide => return left.checked_div(right),
        Binary::Modulo => return left.checked_rem(right),
        Binary::Add => return left.checked_add(right),
        Binary::Subtract => return left.checked_sub(right),
        Binary::LessThan => left < right,
        Binary::LessThanOrEqual => left <= right,
        Binary::GreaterThan => left > right,
        Binary::GreaterThanOrEqual => left >= right,
        Binary::Equal => left == right,
        Binary::NotEqual => left != right,
        _ => return None,
    };
    Some(i64::from(holds))
}
