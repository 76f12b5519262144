//! Numbers that shells compute (POSIX shell, 2.6.4): known where all that they are made of is known.

use shuck_ast::{
    ArithmeticAssignOp as Assign, ArithmeticBinaryOp as Binary, ArithmeticExpr as Expr, ArithmeticExprNode,
    ArithmeticLvalue, ArithmeticPostfixOp, ArithmeticUnaryOp as Unary,
};

use crate::reader::Reader;
use crate::state::{ShellValue, State};

impl Reader<'_> {
    /// The value of an expression, which may assign variables; those of unknown values become holes.
    pub(crate) fn evaluate_number(&mut self, expression: &ArithmeticExprNode, state: &mut State) -> Option<i64> {
        match &expression.kind {
            Expr::Number(text) => plain_number(text.slice(&state.script.text)),
            Expr::Variable(name) => self.variable_number(name, state),
            Expr::Indexed { index, .. } => {
                self.evaluate_number(index, state);
                None
            }
            Expr::ShellWord(word) => {
                let text = self.word_text(word, state);
                plain_number(&text)
            }
            Expr::Parenthesized { expression } => self.evaluate_number(expression, state),
            Expr::Unary { op, expr } => {
                let value = self.evaluate_number(expr, state);
                match op {
                    Unary::Plus => value,
                    Unary::Minus => value?.checked_neg(),
                    Unary::LogicalNot => value.map(|value| i64::from(value == 0)),
                    Unary::BitwiseNot => value.map(|value| !value),
                    Unary::PreIncrement => {
                        self.assign_number(expr, value.and_then(|value| value.checked_add(1)), state)
                    }
                    Unary::PreDecrement => {
                        self.assign_number(expr, value.and_then(|value| value.checked_sub(1)), state)
                    }
                }
            }
            Expr::Postfix { expr, op } => {
                let value = self.evaluate_number(expr, state);
                let step = if *op == ArithmeticPostfixOp::Increment { 1 } else { -1 };
                self.assign_number(expr, value.and_then(|value| value.checked_add(step)), state);
                value
            }
            Expr::Binary { left, op, right } => {
                let left = self.evaluate_number(left, state);
                let right = self.evaluate_number(right, state);
                if matches!(op, Binary::Divide | Binary::Modulo) && right.is_none_or(|right| right == 0) {
                    // A division by zero ends the command.
                    let place = state.place(expression.span);
                    self.assume_keeps("arithmetic", &place);
                }
                compute(left?, *op, right?)
            }
            Expr::Conditional {
                condition,
                then_expr,
                else_expr,
            } => {
                let holds = self.evaluate_number(condition, state);
                let then = self.evaluate_number(then_expr, state);
                let other = self.evaluate_number(else_expr, state);
                if holds? == 0 { other } else { then }
            }
            Expr::Assignment { target, op, value } => {
                let value = self.evaluate_number(value, state);
                let name = match target {
                    ArithmeticLvalue::Variable(name) | ArithmeticLvalue::Indexed { name, .. } => name,
                };
                let before = self.variable_number(name, state);
                let value = match op {
                    Assign::Assign => value,
                    Assign::AddAssign => before.zip(value).and_then(|(before, value)| before.checked_add(value)),
                    Assign::SubAssign => before.zip(value).and_then(|(before, value)| before.checked_sub(value)),
                    _ => None,
                };
                let value = value.filter(|_| matches!(target, ArithmeticLvalue::Variable(_)));
                self.set_number(name, value, state);
                value
            }
        }
    }

    fn assign_number(&mut self, target: &ArithmeticExprNode, value: Option<i64>, state: &mut State) -> Option<i64> {
        if let Expr::Variable(name) | Expr::Indexed { name, .. } = &target.kind {
            let value = value.filter(|_| matches!(target.kind, Expr::Variable(_)));
            self.set_number(name, value, state);
        }
        value
    }

    fn set_number(&mut self, name: &str, value: Option<i64>, state: &mut State) {
        let text = match value {
            Some(value) => value.to_string(),
            None => self.hole(&state.script.path, &format!("{name}, which is computed")),
        };
        state.set_text(name, text);
    }

    fn variable_number(&mut self, name: &str, state: &State) -> Option<i64> {
        match self.parameter(name, state) {
            None => Some(0),
            Some(ShellValue::Text(text)) if text.is_empty() => Some(0),
            Some(ShellValue::Text(text)) => plain_number(&text),
            Some(ShellValue::List(_)) => None,
        }
    }
}

/// A decimal number; one with a leading zero is octal, and not read.
fn plain_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

fn compute(left: i64, op: Binary, right: i64) -> Option<i64> {
    let truth = |holds: bool| Some(i64::from(holds));
    match op {
        Binary::Comma => Some(right),
        Binary::Multiply => left.checked_mul(right),
        Binary::Divide => left.checked_div(right),
        Binary::Modulo => left.checked_rem(right),
        Binary::Add => left.checked_add(right),
        Binary::Subtract => left.checked_sub(right),
        Binary::LessThan => truth(left < right),
        Binary::LessThanOrEqual => truth(left <= right),
        Binary::GreaterThan => truth(left > right),
        Binary::GreaterThanOrEqual => truth(left >= right),
        Binary::Equal => truth(left == right),
        Binary::NotEqual => truth(left != right),
        Binary::LogicalAnd => truth(left != 0 && right != 0),
        Binary::LogicalOr => truth(left != 0 || right != 0),
        Binary::BitwiseAnd => Some(left & right),
        Binary::BitwiseOr => Some(left | right),
        Binary::BitwiseXor => Some(left ^ right),
        Binary::Power | Binary::ShiftLeft | Binary::ShiftRight => None,
    }
}
