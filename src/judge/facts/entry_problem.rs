//! Why the container's command does not come to its program: values, and the one place that puts them into words.

use std::fmt;

/// Why the container's command does not come to its program, or not among the files of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryProblem {
    /// What is to be executed, and why it is not.
    NotStarted(String),
    /// A script ends before it starts this program, and why.
    EndsBefore(String, String),
    /// A script stops at a file that it reads, and what is the matter with that.
    StopsAt(String, &'static str),
    /// The rest has another folder of the image as its root directory.
    OtherRoot(String),
    /// The dynamic loader is told by this option to search in another way than is followed here.
    LoaderOption(String),
    /// The same by this variable.
    LoaderVariable(&'static str),
}

impl EntryProblem {
    /// What is the matter, as the end of a sentence that says that the command does not start; `None` where it may.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::NotStarted(what) => Some(what.clone()),
            Self::EndsBefore(..) | Self::StopsAt(..) => Some(format!("it {}", self.predicate())),
            Self::OtherRoot(_) | Self::LoaderOption(_) | Self::LoaderVariable(_) => None,
        }
    }

    fn predicate(&self) -> String {
        match self {
            Self::NotStarted(what) => format!("does not start: {what}"),
            Self::EndsBefore(program, why) => format!("ends before it starts {program}: {why}"),
            Self::StopsAt(file, why) => format!("stops at {file}, which {why}"),
            Self::OtherRoot(root) => format!("goes on in {root} as its root directory"),
            Self::LoaderOption(option) => format!("gives {option} to the dynamic loader, which is not followed here"),
            Self::LoaderVariable(name) => format!("starts with {name} in its environment, which is not followed here"),
        }
    }
}

impl fmt::Display for EntryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the container's command {}", self.predicate())
    }
}
