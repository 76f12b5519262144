//! Why a command ends without a result.

use std::fmt;

use super::terminal::report_error;
use crate::judge::outcome::RunExit;

pub(crate) enum CommandError {
    /// It was said already.
    Said(RunExit),
    /// A sentence that is still to be said.
    Why(String),
}

impl CommandError {
    /// Says what is still to be said.
    pub(crate) fn report(self) -> RunExit {
        match self {
            Self::Said(exit) => exit,
            Self::Why(error) => report_error(&error),
        }
    }
}

impl From<RunExit> for CommandError {
    fn from(exit: RunExit) -> Self {
        Self::Said(exit)
    }
}

impl<E: fmt::Display> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Why(error.to_string())
    }
}
