//! Python processes: which interpreter finds a package, and what its import maps before and behind it.
//!
//! `settings` is what the image says to a Python, `interpreter` where one looks for packages (`sys.path`, with `editable`
//! packages), `environment` which of them finds an object, `import` the process that an import makes, `module_imports` which
//! modules a module imports, `source_text` the names that it gives to ctypes, by its `source_words`. Nothing else of a module's
//! code is followed: whatever a module imports is taken to be imported.

mod editable;
mod environment;
mod file_names;
mod import;
mod interpreter;
mod module_imports;
mod settings;
mod source_text;
mod source_words;
#[cfg(test)]
mod tests;

pub(super) use environment::PythonEnvironment;
pub use environment::PythonUse;
pub(super) use file_names::{is_interpreter_name, is_source};
pub(super) use import::{ImportedObject, import_object};
pub(super) use settings::{PythonSettings, SettingSources};
pub(super) use source_text::{SourceText, read_source};
