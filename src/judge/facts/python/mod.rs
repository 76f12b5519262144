//! Python processes: which interpreter finds a package, and what its import maps before and behind it.
//!
//! `settings` is what the image says to a Python, `interpreter` where one looks for packages (`sys.path`, with `editable`
//! packages), `environment` which of them finds an object, `import` the process that an import makes, `module_imports` what
//! it runs before, `source_text` what a module says that it opens, by its `source_words`, `source_flow` whether it comes to its
//! end, by its `source_values`.

mod editable;
mod environment;
mod file_names;
mod import;
mod interpreter;
mod module_imports;
mod settings;
mod source_faults;
mod source_flow;
mod source_names;
mod source_text;
mod source_values;
mod source_words;
#[cfg(test)]
mod tests;

pub(super) use environment::PythonEnvironment;
pub use environment::PythonUse;
pub(super) use file_names::{is_interpreter_name, is_source};
pub(super) use import::{ImportedObject, import_object};
pub(super) use settings::{PythonSettings, SettingSources};
pub(super) use source_faults::source_fault;
pub(super) use source_flow::{end_of_module, fails_as_module};
pub(super) use source_text::{SourceText, demanded_variables, read_source, sets_environment};
pub(super) use source_values::PythonSurroundings;
pub(super) use source_words::is_too_long;
