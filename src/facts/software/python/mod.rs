//! Python processes of consumers: `import` is the process that an import makes, `source_text` the names that a module gives
//! to ctypes.

mod import;
mod source_text;
#[cfg(test)]
mod tests;

pub(crate) use import::{ImportedObject, import_object};
pub(crate) use source_text::{SourceText, read_source};
