//! Python processes of consumers: `import` simulates the process of an import, and `source_text` finds the names that a
//! module passes to ctypes.

mod import;
mod source_text;

pub(crate) use import::{ImportedObject, import_object};
pub(crate) use source_text::{SourceText, read_source};
