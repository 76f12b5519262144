//! The folders that the loader searches in a finished stage.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::paths::{is_default_folder, parent_folder};
use super::stages::StepPlace;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::build_steps::BaseImage;
use crate::knowledge::packages::ToolkitLayout;

/// The folder that the ld.so.conf of distributions names, so that every run of ldconfig finds it.
pub(super) const LOCAL_FOLDER: &str = "/usr/local/lib";

/// What the steps of a stage have set.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchPath {
    /// The folders of `LD_LIBRARY_PATH` in the base image; `None` if it may have any.
    inherited: Option<BTreeSet<String>>,
    /// The folders that steps add to `LD_LIBRARY_PATH`.
    pub set: Vec<(String, StepPlace)>,
    /// The files in `/etc/ld.so.conf.d` that no run of ldconfig has read yet.
    pub unread_confs: Vec<(String, StepPlace)>,
    /// The texts of the steps that mention the search path.
    mentions: Vec<Rc<str>>,
}

impl SearchPath {
    pub(super) fn of_image(image: Option<&BaseImage>, cuda: Option<CudaVersion>) -> Self {
        let searched = image.and_then(|image| image.searched.as_ref()).map(|folders| {
            let since = folders.iter().filter(|folder| parse_cuda_version(&folder.from) <= cuda);
            since.map(|folder| folder.folder.clone()).collect()
        });
        Self {
            inherited: searched,
            ..Self::default()
        }
    }

    /// Sets `LD_LIBRARY_PATH`.
    pub(super) fn set(&mut self, value: &str, place: &StepPlace) {
        // `/opt/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`
        for folder in value.split(':').filter_map(|folder| folder.split('$').next()) {
            if folder.starts_with('/') {
                self.set.push((folder.trim_end_matches('/').to_owned(), place.clone()));
            }
        }
    }

    /// Notes the text of a RUN or COPY.
    pub(super) fn note_step(&mut self, text: &str, place: &StepPlace) {
        let mentions_any = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if mentions_any(&["ldconfig", "ld.so", "LD_LIBRARY_PATH"]) {
            self.mentions.push(Rc::from(text));
        }
        // These managers run ldconfig when they install libraries.
        if mentions_any(&["ldconfig", "apt-get install", "apt install", "dnf ", "yum "]) {
            self.unread_confs.clear();
        } else if mentions_any(&["cuda", "cupti", "CUPTI"]) && mentions_any(&[">", "tee ", "COPY "]) {
            let mut words = text.split([' ', '>', '"', '\'', '\n', ';']);
            let conf = words.find(|word| word.starts_with("/etc/ld.so.conf.d/"));
            self.unread_confs
                .extend(conf.map(|conf| (conf.to_owned(), place.clone())));
        }
    }

    pub(super) fn truncate(&mut self, most: usize) {
        self.set.truncate(most);
        self.unread_confs.truncate(most);
        self.mentions.truncate(most);
    }

    /// Whether the loader may search a folder: by default, by `LD_LIBRARY_PATH`, or because of a mention in a step.
    pub(super) fn may_contain(&self, folder: &str, toolkit: &ToolkitLayout) -> bool {
        let is_mentioned =
            |text: &Rc<str>| text.contains('$') || text.contains(folder) || text.contains(parent_folder(folder));
        // Packages name these folders in /etc/ld.so.conf.d, and a program's own RUNPATH leads to a folder beside it.
        is_default_folder(folder)
            || folder == LOCAL_FOLDER
            || folder.starts_with(&toolkit.folder)
            || folder.contains("-packages/")
            || self.inherited.as_ref().is_none_or(|folders| folders.contains(folder))
            || self.set.iter().any(|(own, _)| own == folder)
            || self.mentions.iter().any(is_mentioned)
    }
}
