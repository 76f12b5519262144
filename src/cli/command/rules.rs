//! `rules`: what the program looks for.

use crate::cli::rules::{RulesAction, RulesArgs};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::suggestion;
use crate::report;

use super::command_error::CommandError;
use super::project_config;
use super::terminal::{terminal_width, write_result};

/// Lists the rules or explains one.
pub fn run_rules(args: &RulesArgs) -> Result<RunExit, CommandError> {
    let Knowledge { rules, phases, .. } = project_config::load_config_and_knowledge(&args.own)?;
    let text = match &args.action {
        None => report::rules::list_rules(&rules),
        Some(RulesAction::Explain { id }) => {
            let Some(rule) = rules.iter().find(|rule| rule.id == *id) else {
                let known: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
                let meant = suggestion(id, &known);
                return Err(format!("there is no rule {id:?}{meant}; cupti-audit rules lists them").into());
            };
            report::rules::explain_rule(rule, &phases, terminal_width())
        }
    };
    Ok(write_result(&text, RunExit::Clean))
}
