//! A remedy as a Dockerfile: templates filled with a recipe, each line with its reason.

pub mod config_instructions;
pub mod image_name;
mod page;
pub mod project;
mod quote;
mod templates;

pub use page::{PhasePage, fill_page};
pub use templates::{DockerfileTemplates, TemplateError};

/// Why there is no Dockerfile.
#[derive(Debug, thiserror::Error)]
pub enum DockerfileError {
    /// The image cannot be helped, or not in the way that is asked for.
    #[error(transparent)]
    Refusal(#[from] crate::make::remedy::RemedyError),
    /// A template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// The Dockerfile for one phase.
///
/// Errors: [`TemplateError`], when a template cannot be used.
pub fn render_phase(
    templates: &DockerfileTemplates,
    page: &PhasePage,
) -> Result<String, TemplateError> {
    templates.render("phase.j2", page).map(|text| tidy(&text))
}

/// The text with no more than one empty line between two others, none at the start and no space at the end of a line.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = true;
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && empty) {
            out.push_str(line);
            out.push('\n');
        }
        empty = line.is_empty();
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}
