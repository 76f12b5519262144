//! A Vertex AI custom job that runs the image of a phase: the `CustomJobSpec` for `gcloud ai custom-jobs create`.

use crate::make::quote::{comment_line, quote_json};
use crate::make::template::{fill_template, tidy};

/// A job of Vertex AI.
#[derive(Debug, Clone)]
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

const OF_TRACES: &str = "\
# Vertex AI sets AIP_TENSORBOARD_LOG_DIR to logs/ in the output directory. This prints code that records traces there:
#   cupti-audit advise --snippet FRAMEWORK";

const OF_SERVING: &str = "# A custom job ends with its command: this one is for a batch of predictions. A server needs an endpoint of Vertex AI.";

fn optional_key(key: &str, value: Option<&str>) -> String {
    let line = value.map(|value| format!("{key}: {}", quote_json(value)));
    line.unwrap_or_default()
}

impl VertexJob<'_> {
    /// The job's file.
    pub(crate) fn write(&self) -> String {
        let values = [
            ("phase", comment_line(self.phase)),
            ("summary", comment_line(self.summary)),
            ("file", comment_line(&self.file)),
            ("note", if self.is_profiled { OF_TRACES } else { OF_SERVING }.to_owned()),
            ("machine", quote_json(self.machine)),
            ("accelerator", quote_json(self.accelerator)),
            ("count", self.count.to_string()),
            ("image", quote_json(&self.image)),
            ("output", quote_json(&self.output)),
            (
                "tensorboard",
                optional_key("tensorboard", self.tensorboard.filter(|_| self.is_profiled)),
            ),
            ("service_account", optional_key("serviceAccount", self.service_account)),
        ];
        tidy(&fill_template("vertex.yaml", &values))
    }
}
