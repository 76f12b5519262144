//! A remedy as a Dockerfile: templates filled with a recipe, each line with its reason.

mod config_instructions;
pub(crate) mod image_name;
mod phase_page;
pub(crate) mod project;
mod templates;

pub(crate) use phase_page::{PhasePage, fill_page};
pub(crate) use templates::{DockerfileTemplates, TemplateError};

/// The Dockerfile for one phase.
///
/// Errors: [`TemplateError`], when a template cannot be used.
pub(crate) fn render_phase(templates: &DockerfileTemplates, page: &PhasePage<'_>) -> Result<String, TemplateError> {
    templates.render("phase.j2", page).map(|text| templates::tidy(&text))
}
