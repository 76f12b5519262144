//! Entry points for the fuzz targets only; `tests/support/fuzz_targets.rs` calls them.

use std::path::Path;

use super::config::ConfigFile;
use crate::judge::outcome::AuditedImage;
use crate::knowledge::rule::Rule;
use crate::make::quote::{comment_line, quote_env, require_literal, require_plain, require_writable};
use crate::report::ReportWriter;
use crate::report::github::GitHubAnnotations;
use crate::report::html::HtmlReport;
use crate::report::json::JsonReport;
use crate::report::markdown::MarkdownReport;
use crate::report::text::{TextDetail, TextLayout, TextReport};
use crate::shell_quote::quote_shell;

/// The mistake in the text of a config, as a sentence.
pub fn config_mistake(text: &str) -> Option<String> {
    let read = ConfigFile::read("config", (Path::new("/"), None), text);
    read.err().map(|mistake| mistake.to_string())
}

/// A text quoted for the shell, for `ENV` and for a comment; `None` if a Dockerfile cannot contain it.
pub fn quoted(text: &str) -> Option<[String; 3]> {
    let text = require_writable("text", text).ok()?;
    Some([quote_shell(text), quote_env(text), comment_line(text)])
}

/// A name for unquoted use in a Dockerfile, and one for JSON and shell quotes.
pub fn unquoted(name: &[u8]) -> [Option<String>; 2] {
    [require_plain("name", name).ok(), require_literal("name", name).ok()]
}

/// Reports of an image in several formats: text, JSON, Markdown, annotations, HTML.
pub fn reports(audit: &AuditedImage, rules: &[Rule]) -> [String; 5] {
    let layout = TextLayout {
        width: 100,
        detail: TextDetail::All,
    };
    [
        TextReport::new(layout).audited(audit),
        JsonReport.audited(audit),
        MarkdownReport.audited(audit),
        GitHubAnnotations.audited(audit),
        HtmlReport::new(rules, "CUPTI").audited(audit),
    ]
}
