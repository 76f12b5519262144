//! `rules`: what the program looks for.

use crate::cli::{RulesAction, RulesArgs};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::report::{self};

use super::{fail, project_config, width, write};

/// Lists the rules or explains one.
pub fn rules(args: &RulesArgs) -> RunExit {
    let Knowledge { rules, phases, .. } = match project_config::known(&args.own) {
        Ok(knowledge) => knowledge,
        Err(exit) => return exit,
    };
    match &args.action {
        None | Some(RulesAction::List) => write(Ok(report::rules::list(&rules)), RunExit::Clean),
        Some(RulesAction::Explain { id }) => match rules.iter().find(|rule| rule.id == *id) {
            Some(rule) => write(
                Ok(report::rules::explain(rule, &phases, width())),
                RunExit::Clean,
            ),
            None => fail(&format!(
                "there is no rule {id:?}; cupti-audit rules lists them"
            )),
        },
    }
}
