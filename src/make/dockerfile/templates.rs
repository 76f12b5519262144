//! The templates of `Dockerfile.templates/`, which `build.rs` embeds in the program.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::make::quote;
use crate::shell_quote::quote_shell;

/// Why rendering a template failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    /// The template itself failed.
    #[error(transparent)]
    Template(#[from] minijinja::Error),
    /// A Dockerfile cannot contain a name from the image.
    #[error(transparent)]
    Name(#[from] serde_json::Error),
}

/// The templates and their filters.
pub(crate) struct DockerfileTemplates(Environment<'static>);

impl DockerfileTemplates {
    /// The environment of the embedded templates, which are parsed on first use.
    ///
    /// Errors: Unsupported syntax markers.
    pub(crate) fn new() -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        // A misspelled name is an error, but an `if` may test an absent name.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        // The output is not HTML. Templates escape values explicitly with `sh`, `env` or `json`.
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            // Rendered parts are concatenated; without the final newline two parts would share a line.
            .keep_trailing_newline(true)
            .build();
        environment.set_syntax(syntax?);
        filters(&mut environment);
        environment.set_loader(|file| {
            let mut templates = crate::knowledge::data_files::TEMPLATES.iter();
            let found = templates.find(|(name, ..)| file.strip_suffix(".j2") == Some(name));
            Ok(found.map(|(_, text, _)| (*text).to_owned()))
        });
        Ok(Self(environment))
    }

    /// Renders a template with the values of a page.
    ///
    /// Errors: A name that a Dockerfile cannot contain, or a template error with its line, such as an unknown name.
    pub(crate) fn render(&self, name: &str, page: impl Serialize) -> Result<String, TemplateError> {
        // Serialize first: a minijinja value would keep a serialization error until a template reads the field.
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
    // Not minijinja's `tojson`, which escapes `<`, `>` and `&` for HTML.
    environment.add_filter("json", |value: Value, options: Kwargs| {
        options.assert_all_used()?;
        let text = serde_json::to_string(&value);
        text.map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))
    });
}

/// The text without repeated or leading empty lines and without trailing spaces.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // An omitted part of a template leaves the empty lines around its tags.
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

#[cfg(test)]
mod tests {
    use super::DockerfileTemplates;
    use crate::knowledge::data_files::TEMPLATES;

    #[test]
    fn every_template_can_be_parsed() {
        let templates = DockerfileTemplates::new().unwrap();
        for (name, ..) in TEMPLATES {
            let parsed = templates.0.get_template(&format!("{name}.j2"));
            assert!(parsed.is_ok(), "{name}: {:?}", parsed.err());
        }
    }
}
