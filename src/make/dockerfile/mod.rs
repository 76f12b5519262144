//! A remedy as a Dockerfile: templates filled with a recipe, with a reason for each line.

mod config_instructions;
pub(crate) mod image_name;
mod phase_page;
pub(crate) mod project;
mod templates;
pub(crate) mod vertex;

pub(crate) use phase_page::{PhasePage, fill_page};
pub(crate) use templates::{DockerfileTemplates, TemplateError};

/// The Dockerfile for one phase.
///
/// Errors: [`TemplateError`] if a template fails.
pub(crate) fn render_phase(templates: &DockerfileTemplates, page: &PhasePage<'_>) -> Result<String, TemplateError> {
    templates.render("phase.j2", page).map(|text| templates::tidy(&text))
}
