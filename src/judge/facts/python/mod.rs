//! Python processes: which interpreter finds a package, and what its import maps before and behind it.
//!
//! `settings` is what the image says to a Python, `interpreter` where one looks for packages (`sys.path`),
//! `environment` which of them finds an object, `import` the process that an import makes.

mod environment;
mod import;
mod interpreter;
mod settings;
#[cfg(test)]
mod tests;

pub use environment::PythonUse;
pub(super) use environment::{PythonEnvironment, is_interpreter_name};
pub(super) use import::{ImportedObject, import_object};
pub(super) use settings::{PythonSettings, SettingSources};
