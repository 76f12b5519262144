//! Where the Pythons of an image look for packages, and which modules an import runs.
//!
//! `settings` is what the image says to a Python, `interpreter` where one looks for packages (`sys.path`, with `editable`
//! packages), `environment` which of them finds an object, `module_imports` which modules a module imports, by its
//! `source_words`. `distributions` are the packages that are installed, `requirements` what they require. Nothing else of a module's code is followed: whatever a module imports is taken to be imported.

mod distributions;
mod editable;
mod environment;
mod file_names;
mod interpreter;
mod module_imports;
mod requirements;
mod settings;
mod source_words;

pub use distributions::{PythonDistribution, normal_name, read_distribution};
pub use environment::{CtypesSource, FoundObject, PythonEnvironment, PythonUse};
pub use file_names::{fits_version, is_interpreter_name, is_source};
pub use interpreter::PythonInterpreter;
pub use module_imports::{ImportRun, follow_import};
pub use requirements::{DistributionRequirement, MarkerValues, read_requirements};
pub use settings::{DEFAULT_PATH, PythonSettings, SettingSources};
pub use source_words::{OPENERS, SourceString, SourceWords, read_words};
