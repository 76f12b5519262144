//! `audit`: reads images, judges them, writes the reports.

use std::io;

use cupti_audit::cli::{AuditArgs, Format};
use cupti_audit::plan;
use cupti_audit::profile::{self, Phase};
use cupti_audit::report::{self, Audit, Exit};
use cupti_audit::rule::{self, Rule};

use super::{color, fail, layout, read, write};

/// Audits the images, one after the other; the gravest outcome counts.
pub fn audit(args: &AuditArgs) -> Exit {
    color(args.output.color);
    let rules = rule::built_in();
    let phases = profile::phases();
    let mut exit = Exit::Clean;
    for (number, image) in args.images.iter().enumerate() {
        if number > 0 && args.output.format == Format::Text {
            exit = exit.max(write(Ok("\n".to_owned()), Exit::Clean));
        }
        exit = exit.max(audit_one(image, args, &rules, &phases));
    }
    exit
}

fn audit_one(image: &str, args: &AuditArgs, rules: &[Rule], phases: &[Phase]) -> Exit {
    let facts = match read(image, &args.image, &args.output) {
        Ok(facts) => facts,
        Err(error) => return fail(&error),
    };
    let subjects = rule::subjects(&facts);
    let findings = rule::judge(rules, &subjects, &args.phase);
    let plan = |phase| plan::plan(&facts, rules, &subjects, phase);
    let plans = phases.iter().map(plan).collect();
    let audit = Audit {
        facts,
        findings,
        phases: args.phase.clone(),
        plans,
    };
    let text = match args.output.format {
        Format::Json => report::json::line(&audit)
            .map(|line| line + "\n")
            .map_err(io::Error::other),
        Format::Text => Ok(report::text::report(&audit, layout(&args.output))),
    };
    write(text, audit.exit(args.fail_on.into()))
}
