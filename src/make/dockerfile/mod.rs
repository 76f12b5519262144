//! A remedy as a Dockerfile: templates filled with a recipe, each line with its reason.

pub(crate) mod config_instructions;
mod fill_page;
pub(crate) mod image_name;
mod phase_page;
pub(crate) mod project;
pub(crate) mod quote;
mod templates;

pub(crate) use fill_page::fill_page;
pub(crate) use phase_page::PhasePage;
pub(crate) use templates::{DockerfileTemplates, TemplateError};

/// The Dockerfile for one phase.
///
/// Errors: [`TemplateError`], when a template cannot be used.
pub(crate) fn render_phase(templates: &DockerfileTemplates, page: &PhasePage) -> Result<String, TemplateError> {
    templates.render("phase.j2", page).map(|text| templates::tidy(&text))
}
