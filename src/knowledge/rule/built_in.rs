//! The built-in rule whose check a rule of the user shares.

use super::{Explains, MessageTemplate, Rule, RuleQuestion};
use crate::knowledge::catalog::DataKind;
use crate::knowledge::data_files::built_in_files;
use crate::knowledge::mistake::{TextMistake, unknown_name};
use crate::knowledge::yaml_text::YamlText;
use image_linkage::escape::escape_bytes;

/// The operators in the conditions of users' rules. Longer ones come first, because shorter ones are their prefixes.
pub const OPERATORS: [&str; 4] = [">=", "<=", ">", "<"];

/// How no value of a check begins, but comparisons in other languages do.
const NO_OPERATORS: [char; 6] = ['=', '!', '~', '≥', '≤', '≠'];

/// The names that a check gives to its rule.
pub(super) struct CheckNames {
    /// The id of the built-in rule.
    id: String,
    /// The values for texts.
    values: Vec<String>,
    /// The conditions of higher severities.
    raises: Vec<String>,
    pub(super) about: RuleQuestion,
    pub(super) explains: Option<Explains>,
}

impl CheckNames {
    /// The names of the check that a user's rule shares.
    ///
    /// Errors: It shares none.
    pub(super) fn of_user_rule(rule: &Rule, text: YamlText<'_>) -> Result<Self, TextMistake> {
        let files: Vec<_> = built_in_files().filter(|file| file.kind == DataKind::Rule).collect();
        let Some(file) = files.iter().find(|file| file.id == rule.check()) else {
            let ids: Vec<&str> = files.iter().map(|file| &*file.id).collect();
            return Err(match &rule.like {
                Some(like) => text.mistake(&["like"], unknown_name("built-in rule", like, &ids)),
                None => text.mistake(
                    &[],
                    "add like: and the id of the built-in rule whose check this rule shares".to_owned(),
                ),
            });
        };
        // A rule with the name of a built-in one replaces it (see `catalog`).
        if file.id != rule.id && files.iter().any(|file| file.id == rule.id) {
            return Err(text.mistake(
                &["like"],
                format!(
                    "a rule that replaces {} keeps its check; remove this line, or rename the file",
                    rule.id
                ),
            ));
        }
        let known: Rule = file.yaml().read()?;
        let mut values = known.values;
        for template in [&known.message, &known.fix].into_iter().chain(&known.verdict) {
            values.extend(template.fields().map(str::to_owned));
        }
        values.sort();
        values.dedup();
        let mut raises: Vec<String> = Vec::new();
        for raise in known.raise {
            if !raises.contains(&raise.when) {
                raises.push(raise.when);
            }
        }
        Ok(Self {
            id: file.id.clone(),
            values,
            raises,
            about: known.about,
            explains: known.explains,
        })
    }

    /// Checks the names in a user's rule.
    ///
    /// Errors: The first that the check does not have.
    pub(super) fn check_rule(&self, rule: &Rule, text: YamlText<'_>) -> Result<(), TextMistake> {
        for (name, written) in &rule.conditions {
            self.check_condition(name, written)
                .map_err(|what| text.mistake(&["where", name], what))?;
        }
        for (number, raise) in rule.raise.iter().enumerate() {
            let path = ["raise", &number.to_string(), "if"];
            self.find("condition", &raise.when, &[&self.raises])
                .map_err(|what| text.mistake(&path, what))?;
        }
        let texts = [("message", Some(&rule.message)), ("verdict", rule.verdict.as_ref())];
        for (key, template) in texts.into_iter().chain([("fix", Some(&rule.fix))]) {
            for field in template.into_iter().flat_map(MessageTemplate::fields) {
                self.find("value", field, &[&self.values])
                    .map_err(|what| text.mistake(&[key], what))?;
            }
        }
        Ok(())
    }

    fn check_condition(&self, name: &str, written: &str) -> Result<(), String> {
        self.find("value", name, &[&self.values, &self.raises])?;
        if self.raises.iter().any(|raise| raise == name) && !["true", "false"].contains(&written) {
            let unknown = unknown_name("value", written, &["true", "false"]);
            return Err(format!("of {}: {unknown}", self.id));
        }
        for operator in OPERATORS {
            let Some(number) = written.strip_prefix(operator).map(str::trim) else {
                continue;
            };
            if number.parse::<u64>().is_err() {
                let number = escape_bytes(number.as_bytes());
                return Err(format!(
                    "expected a number after \"{operator}\", such as \"{operator} 3\"; found \"{number}\""
                ));
            }
            return Ok(());
        }
        if written.trim() != written || written.is_empty() || written.starts_with(NO_OPERATORS) {
            let found = escape_bytes(written.as_bytes());
            return Err(format!(
                "expected a value, or one of >=, <=, >, < and a number; found \"{found}\""
            ));
        }
        Ok(())
    }

    fn find(&self, kind: &str, name: &str, known: &[&Vec<String>]) -> Result<(), String> {
        let known: Vec<&str> = known
            .iter()
            .flat_map(|names| names.iter().map(String::as_str))
            .collect();
        if known.contains(&name) {
            return Ok(());
        }
        Err(format!("of {}: {}", self.id, unknown_name(kind, name, &known)))
    }
}
