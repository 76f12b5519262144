//! The text report: all images in sequence, separated by an empty line.

use std::io;

use super::pages::build_file::{CheckedFiles, check_page};
use super::pages::image_text::image_text_page;
pub(crate) use super::text_layout::{TextDetail, TextLayout};
use super::writer::ReportWriter;
use crate::judge::outcome::AuditedImage;

/// The text report: all images in sequence, separated by an empty line.
pub(crate) struct TextReport {
    layout: TextLayout,
    has_image: bool,
}

impl TextReport {
    /// An empty report with this layout.
    pub(crate) fn new(layout: TextLayout) -> Self {
        Self {
            layout,
            has_image: false,
        }
    }
}

impl ReportWriter for TextReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        // Images are written as they are read, so it is unknown whether another follows.
        if self.layout.detail == TextDetail::Nothing {
            return String::new();
        }
        let between = if self.has_image { "\n" } else { "" };
        self.has_image = true;
        between.to_owned() + &image_text_page(audit, self.layout.detail).text(self.layout)
    }

    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String> {
        if self.layout.detail == TextDetail::Nothing {
            return Ok(String::new());
        }
        Ok(check_page(checked, self.layout.detail == TextDetail::All).text(self.layout))
    }
}
