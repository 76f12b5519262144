//! The templates of `Dockerfile.templates/`, which `build.rs` puts into the program.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::make::quote;
use crate::shell_quote::quote_shell;

/// Why a template gives no text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    /// A template cannot be used.
    #[error(transparent)]
    Template(#[from] minijinja::Error),
    /// A name of the image cannot be written into a Dockerfile.
    #[error(transparent)]
    Name(#[from] serde_json::Error),
}

/// The templates, ready to be rendered.
pub(crate) struct DockerfileTemplates(Environment<'static>);

impl DockerfileTemplates {
    /// Reads the templates of the program.
    ///
    /// Errors: The first that cannot be read.
    pub(crate) fn new() -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        // A misspelt name is an error, but asking with `if` for what may be absent is none.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        // The text is no HTML; a template says itself by `sh`, `env` or `json` where a value stands.
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            // Rendered parts are put together, and would share a line where one ends and the next begins.
            .keep_trailing_newline(true)
            .build();
        environment.set_syntax(syntax?);
        filters(&mut environment);
        for (name, text) in crate::knowledge::data_files::TEMPLATES {
            environment.add_template_owned(format!("{name}.j2"), *text)?;
        }
        Ok(Self(environment))
    }

    /// Fills a template with what a page says.
    ///
    /// Errors: A name that cannot be written, or the template, its line and the mistake, as when a template names what
    /// there is not.
    pub(crate) fn render(&self, name: &str, page: impl Serialize) -> Result<String, TemplateError> {
        // Not at once into a value of the templates, which keeps an error for whoever asks for the field.
        let page = serde_json::to_value(page)?;
        Ok(self.0.get_template(name)?.render(Value::from(Serde(&page)))?)
    }
}

fn filters(environment: &mut Environment<'static>) {
    environment.add_filter("sh", |text: &str| quote_shell(text));
    environment.add_filter("env", |text: &str| quote::quote_env(text));
    environment.add_filter("comment", |text: &str| quote::comment_line(text));
    environment.add_filter("size", crate::size::format_size);
    environment.add_filter("filename", |path: &str| {
        path.rsplit('/').next().unwrap_or_default().to_owned()
    });
    environment.add_filter("folder", |path: &str| {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        folder.to_owned()
    });
    // Not minijinja's `tojson`, which writes `<`, `>` and `&` as escapes for HTML.
    environment.add_filter("json", |value: Value, options: Kwargs| {
        options.assert_all_used()?;
        let text = serde_json::to_string(&value);
        text.map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))
    });
}

/// The text with no more than one empty line between two others, none at the start and no space at the end of a line.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A part that is left out of a template leaves the empty lines around its tags.
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
