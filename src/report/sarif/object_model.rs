//! The part of SARIF's object model that is written here, in the order and words of the specification (section 3).

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct SarifLog {
    #[serde(rename = "$schema")]
    pub schema: &'static str,
    pub version: &'static str,
    // One run for all images: GitHub refuses a file in which two runs have the same tool and category.
    pub runs: [SarifRun; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SarifRun {
    pub tool: SarifTool,
    pub invocations: [SarifInvocation; 1],
    pub original_uri_base_ids: BTreeMap<String, UriBase>,
    pub results: Vec<SarifResult>,
    pub column_kind: &'static str,
    pub properties: RunProperties,
}

#[derive(Serialize)]
pub(super) struct SarifTool {
    pub driver: ToolComponent,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolComponent {
    pub name: &'static str,
    pub semantic_version: &'static str,
    pub rules: Vec<ReportingDescriptor>,
    pub notifications: [ReportingDescriptor; 2],
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportingDescriptor {
    pub id: String,
    pub short_description: SarifMessage,
    // The schema has no null: what is not there is left out, here and below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_description: Option<SarifMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<MultiformatMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_configuration: Option<ReportingConfiguration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<RuleProperties>,
}

#[derive(Serialize)]
pub(super) struct ReportingConfiguration {
    pub level: &'static str,
}

#[derive(Serialize)]
pub(super) struct RuleProperties {
    // GitHub lets alerts be filtered by them.
    pub tags: [&'static str; 2],
    #[serde(rename = "problem.severity")]
    pub problem_severity: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SarifInvocation {
    pub execution_successful: bool,
    pub exit_code: u8,
    pub exit_code_description: &'static str,
    pub tool_execution_notifications: Vec<SarifNotification>,
}

#[derive(Serialize)]
pub(super) struct SarifNotification {
    pub descriptor: DescriptorReference,
    pub level: &'static str,
    pub message: SarifMessage,
}

#[derive(Serialize)]
pub(super) struct DescriptorReference {
    pub id: &'static str,
}

#[derive(Serialize)]
pub(super) struct UriBase {
    pub description: SarifMessage,
}

#[derive(Serialize)]
pub(super) struct RunProperties {
    // A property bag (section 3.8), as SARIF has no word for an image and its verdict.
    pub images: Vec<ImageProperties>,
}

#[derive(Serialize)]
pub(super) struct ImageProperties {
    pub reference: String,
    pub digest: Option<String>,
    pub platform: String,
    pub verdict: String,
    pub phases: IndexMap<String, &'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SarifResult {
    pub rule_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_index: Option<usize>,
    pub level: &'static str,
    pub message: SarifMessage,
    pub locations: Vec<SarifLocation>,
    pub partial_fingerprints: BTreeMap<&'static str, String>,
    /// Section 3.27.23: where one result has the list, all have; none in it is a result that counts.
    pub suppressions: Vec<SarifSuppression>,
    pub properties: ResultProperties,
}

/// Why a result does not count (section 3.35).
#[derive(Serialize)]
pub(super) struct SarifSuppression {
    pub kind: &'static str,
    pub status: &'static str,
    pub justification: String,
}

#[derive(Serialize)]
pub(super) struct ResultProperties {
    pub image: String,
    pub platform: String,
    pub evidence: Vec<String>,
    pub fix: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SarifLocation {
    pub physical_location: PhysicalLocation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logical_locations: Vec<LogicalLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<SarifMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PhysicalLocation {
    pub artifact_location: ArtifactLocation,
    pub region: SarifRegion,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactLocation {
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_base_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SarifRegion {
    pub start_line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogicalLocation {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fully_qualified_name: Option<String>,
    pub kind: &'static str,
}

/// Text and the same in Markdown (section 3.12).
#[derive(Serialize)]
pub(super) struct MultiformatMessage {
    pub text: String,
    pub markdown: String,
}

/// A plain text message (section 3.11).
#[derive(Default, Serialize)]
pub(super) struct SarifMessage {
    pub text: String,
}

impl SarifMessage {
    /// A message that says `text` as it stands: nothing in it is a link (section 3.11.6) or a placeholder (3.11.5).
    pub(crate) fn plain(text: &str) -> Self {
        // Only the bracket that ends the text of a link is escaped: a path may hold any other, and stays as it is.
        let text = text.trim().replace("](", "\\](");
        let mut out = String::with_capacity(text.len());
        for (at, piece) in text.split('{').enumerate() {
            // `{0}` is a placeholder, `{directory}` of a message is not.
            if at > 0 {
                let placeholder = piece.starts_with(|c: char| c.is_ascii_digit());
                out.push_str(if placeholder { "{{" } else { "{" });
            }
            out.push_str(piece);
        }
        Self { text: out }
    }
}

#[cfg(test)]
mod tests {
    use super::SarifMessage;

    #[test]
    fn a_name_is_neither_a_link_nor_a_placeholder() {
        let said = |text| SarifMessage::plain(text).text;
        assert_eq!(said("[a](https://b)"), "[a\\](https://b)");
        assert_eq!(said("{0} of {directory}"), "{{0} of {directory}");
    }
}
