//! Finds the Pythons of an image, their search paths, and the modules that an import runs.
//!
//! `settings` is the image's configuration for a Python. `interpreter` builds `sys.path`, including editable
//! packages. `environment` decides which interpreter finds an object. `module_imports` lists the imports of a module,
//! from its `source_words`. `distributions` are the installed packages, and `requirements` their requirements. A
//! module's code is not evaluated: every import in it counts as executed.

mod distributions;
mod environment;
mod file_names;
mod interpreter;
mod module_imports;
mod requirements;
mod settings;
mod source_words;

pub use distributions::{ExactRequirement, PythonDistribution, named_distribution, normal_name, read_distribution};
pub use environment::{CtypesSource, FoundObject, PythonEnvironment, PythonUse};
pub use file_names::{fits_version, is_interpreter_name, is_source};
pub use interpreter::PythonInterpreter;
pub use module_imports::{ImportRun, closed_to_import, follow_import};
pub use requirements::{DistributionRequirement, MarkerValues, read_requirements};
pub use settings::{DEFAULT_PATH, PythonSettings, SettingSources};
pub use source_words::{OPENERS, SourceString, SourceWords, read_words};
