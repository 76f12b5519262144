//! A Vertex AI custom job that runs the image of a phase: the `CustomJobSpec` for `gcloud ai custom-jobs create`.

use serde::Serialize;

use super::templates::{DockerfileTemplates, TemplateError, tidy};

/// The template input for a job.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct VertexJob<'a> {
    /// The phase of the image.
    pub phase: &'a str,
    /// The purpose of the phase.
    pub summary: &'a str,
    /// The name of the job's file, without its folder.
    pub file: String,
    /// The image in a registry.
    pub image: String,
    pub machine: &'a str,
    pub accelerator: &'a str,
    pub count: u32,
    /// The folder in a bucket for what the job writes.
    pub output: String,
    /// Whether the phase records traces with CUPTI.
    pub is_profiled: bool,
    pub tensorboard: Option<&'a str>,
    pub service_account: Option<&'a str>,
}

impl VertexJob<'_> {
    /// The job's file.
    ///
    /// Errors: [`TemplateError`] if the template fails.
    pub(crate) fn render(&self, templates: &DockerfileTemplates) -> Result<String, TemplateError> {
        Ok(tidy(&templates.render("vertex.yaml.j2", self)?))
    }
}
