//! The templates of `Dockerfile.templates/`, and those of a user in place of them.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use super::quote;
use crate::shell_quote::quote_shell;

/// What a template may take to be rendered, in instructions: some thousand times what those of the program take.
const FUEL: u64 = 10_000_000;

/// The bytes that a template may write. Those of the program write some kB.
const LONGEST: usize = 4 << 20;

/// The templates, ready to be rendered.
pub(crate) struct DockerfileTemplates(Environment<'static>);

/// A template that cannot be used, or not with what there is to say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    /// It cannot be read.
    #[error("template {name}: {why}")]
    Syntax {
        name: String,
        /// What is wrong, and in which line.
        why: String,
    },
    #[error("template {name}: {why}")]
    Render {
        name: String,
        /// What is wrong, and in which line.
        why: String,
    },
}

impl DockerfileTemplates {
    /// The program's templates, those of the user in place of the ones of the same name.
    ///
    /// Errors: [`TemplateError::Syntax`] for the first, by name, that cannot be read.
    pub(crate) fn with(own: &BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        // A misspelt name is an error, but asking with `if` for what may be absent is none.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        // The text is no HTML; a template says itself by `sh`, `env` or `json` where a value stands.
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            // Rendered parts are put together, and would share a line where one ends and the next begins.
            .keep_trailing_newline(true)
            .build();
        let syntax = syntax.map_err(|error| TemplateError::Syntax {
            name: String::new(),
            why: error.to_string(),
        })?;
        environment.set_syntax(syntax);
        filters(&mut environment);
        let built_in = crate::knowledge::data_files::TEMPLATES.iter();
        let built_in = built_in.map(|(name, text)| (format!("{name}.j2"), (*text).to_owned()));
        let mut all: BTreeMap<String, String> = built_in.collect();
        // Behind those of the program, as the last of a name stays.
        all.extend(own.iter().map(|(name, text)| (name.clone(), text.clone())));
        for (name, text) in all {
            environment
                .add_template_owned(name.clone(), text)
                .map_err(|error| TemplateError::Syntax {
                    why: words(&error),
                    name,
                })?;
        }
        Ok(Self(environment))
    }

    /// Fills a template with what a page says.
    ///
    /// Errors: [`TemplateError::Render`], as when a template names what there is not.
    pub(crate) fn render(&self, name: &str, page: impl Serialize) -> Result<String, TemplateError> {
        let mut text = vec![0; LONGEST];
        let mut rest = text.as_mut_slice();
        let template = self.0.get_template(name);
        let written = template.and_then(|template| {
            template
                .render_captured_to(Value::from(Serde(&page)), &mut rest)
                .map(drop)
        });
        let left = rest.len();
        let failed = |why: String| TemplateError::Render {
            name: name.to_owned(),
            why,
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::WriteFailure => failed(format!("it writes more than {LONGEST} bytes")),
            _ => failed(words(&error)),
        })?;
        text.truncate(LONGEST - left);
        String::from_utf8(text).map_err(|error| failed(error.to_string()))
    }
}

/// An error in one line, with the line of the template; that of an included template comes first.
fn words(error: &Error) -> String {
    let inner = std::error::Error::source(error).and_then(|inner| inner.downcast_ref::<Error>());
    if let Some(inner) = inner {
        return words(inner);
    }
    let place = error.name().zip(error.line());
    let place = place.map(|(name, line)| format!(" ({name}, line {line})"));
    let detail = error.detail().map(|detail| format!(": {detail}"));
    format!(
        "{}{}{}",
        error.kind(),
        detail.unwrap_or_default(),
        place.unwrap_or_default()
    )
}

fn filters(environment: &mut Environment<'static>) {
    environment.add_filter("sh", |text: &str| quote_shell(text));
    environment.add_filter("env", |text: &str| quote::quote_env(text));
    environment.add_filter("comment", |text: &str| quote::comment_line(text));
    environment.add_filter("size", crate::size::format_size);
    // Not minijinja's `tojson`, which writes `<`, `>` and `&` as escapes for HTML.
    environment.add_filter("json", |value: Value, options: Kwargs| {
        options.assert_all_used()?;
        let text = serde_json::to_string(&value);
        text.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::DockerfileTemplates;

    fn own(name: &str, text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), text.to_owned())])
    }

    #[test]
    fn the_templates_of_the_program_can_be_read_and_a_user_replaces_them_by_name() {
        assert!(DockerfileTemplates::with(&BTreeMap::new()).is_ok());
        let mine = DockerfileTemplates::with(&own("head.j2", "# {{ word | sh }}\n")).unwrap();
        let page = serde_json::json!({"word": "a b"});
        assert_eq!(mine.render("head.j2", page).unwrap(), "# 'a b'\n");
    }

    #[test]
    fn a_mistake_in_a_template_is_one_line_with_its_place() {
        let broken = DockerfileTemplates::with(&own("head.j2", "a\n{% if %}\n"))
            .err()
            .unwrap();
        let said = broken.to_string();
        assert!(
            said.starts_with("template head.j2: ") && said.contains("line 2"),
            "{said}"
        );
        let unknown = DockerfileTemplates::with(&own("head.j2", "{{ nobody.knows }}")).unwrap();
        let said = unknown
            .render("head.j2", serde_json::json!({}))
            .unwrap_err()
            .to_string();
        assert!(said.contains("undefined") && !said.contains('\n'), "{said}");
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        let endless = DockerfileTemplates::with(&own("head.j2", endless)).unwrap();
        let said = endless
            .render("head.j2", serde_json::json!({}))
            .unwrap_err()
            .to_string();
        assert!(said.contains("fuel"), "{said}");
        let long = format!("{{% for a in range(9999) %}}{}{{% endfor %}}", "long ".repeat(1_000));
        let long = DockerfileTemplates::with(&own("head.j2", &long)).unwrap();
        let said = long.render("head.j2", serde_json::json!({})).unwrap_err().to_string();
        assert_eq!(said, "template head.j2: it writes more than 4194304 bytes");
    }
}
