//! A command for the shell, built from constant text and quoted words.

use crate::make::choose::PatchError;
use crate::make::quote;
use crate::shell_quote::quote_shell;
use image_linkage::path::RootPath;

/// A command whose words are quoted. Text that is not a constant gets in only as a quoted word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine(String);

impl CommandLine {
    /// A command that begins with this text.
    pub(crate) fn new(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Appends text of the shell, with its spaces.
    pub(crate) fn text(mut self, text: &'static str) -> Self {
        self.0.push_str(text);
        self
    }

    /// Appends the text if `condition` is true.
    pub(crate) fn text_if(self, condition: bool, text: &'static str) -> Self {
        if condition { self.text(text) } else { self }
    }

    /// Appends a quoted word.
    pub(crate) fn arg(mut self, word: &str) -> Self {
        self.0.push_str(&quote_shell(word));
        self
    }

    /// Appends the quoted first part of a word, which may be empty.
    pub(crate) fn prefix(self, part: &str) -> Self {
        if part.is_empty() { self } else { self.arg(part) }
    }

    /// Appends quoted words, each after a space.
    pub(crate) fn args(self, words: &[String]) -> Self {
        words.iter().fold(self, |line, word| line.text(" ").arg(word))
    }

    /// Appends a path as a quoted word.
    ///
    /// Errors: [`PatchError::Name`] for a path that `COPY` or the shell could take for something else.
    pub(crate) fn path(self, path: &RootPath) -> Result<Self, PatchError> {
        Ok(self.arg(&quote::literal_path(path)?))
    }

    /// Appends paths, each after a space.
    ///
    /// Errors: As for [`path`](Self::path).
    pub(crate) fn paths<'p>(self, paths: impl IntoIterator<Item = &'p RootPath>) -> Result<Self, PatchError> {
        paths.into_iter().try_fold(self, |line, path| line.text(" ").path(path))
    }

    /// Appends a path that only the shell reads, so that quotes protect `$` and patterns in it.
    ///
    /// Errors: [`PatchError::Name`] for a path that a Dockerfile cannot contain.
    pub(crate) fn shell_path(self, path: &RootPath) -> Result<Self, PatchError> {
        Ok(self.arg(&quote::writable_path(path)?))
    }
}

impl From<CommandLine> for String {
    fn from(line: CommandLine) -> Self {
        line.0
    }
}
