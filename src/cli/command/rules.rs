//! `rules`: what the program looks for.

use crate::cli::rules::{RulesAction, RulesArgs};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::report::{self};

use super::project_config;
use super::terminal::{report_error, terminal_width, write_result};

/// Lists the rules or explains one.
pub fn run_rules(args: &RulesArgs) -> RunExit {
    let Knowledge { rules, phases, .. } = match project_config::load_config_and_knowledge(&args.own) {
        Ok(knowledge) => knowledge,
        Err(exit) => return exit,
    };
    match &args.action {
        None | Some(RulesAction::List) => write_result(Ok(report::rules::list_rules(&rules)), RunExit::Clean),
        Some(RulesAction::Explain { id }) => match rules.iter().find(|rule| rule.id == *id) {
            Some(rule) => write_result(
                Ok(report::rules::explain_rule(rule, &phases, terminal_width())),
                RunExit::Clean,
            ),
            None => report_error(&format!("there is no rule {id:?}; cupti-audit rules lists them")),
        },
    }
}
