//! `audit`: reads images, judges them, writes the reports.

use cupti_audit::cli::AuditArgs;
use cupti_audit::image::ImageError;
use cupti_audit::plan;
use cupti_audit::profile::{self, Phase};
use cupti_audit::report::{Audit, Exit, Unread};
use cupti_audit::rule::{self, Rule};

use super::output::Outputs;
use super::{color, fail, read};

/// Audits the images, one after the other; the gravest outcome counts.
pub fn audit(args: &AuditArgs) -> Exit {
    color(args.output.color);
    let rules = rule::built_in();
    let phases = profile::phases();
    let mut outputs = match Outputs::open(args, &rules) {
        Ok(outputs) => outputs,
        Err(error) => return fail(&error),
    };
    let mut exit = Exit::Clean;
    for image in &args.images {
        match audit_one(image, args, &rules, &phases) {
            Ok(audit) => {
                exit = exit.max(audit.exit(args.fail_on.into()));
                outputs.write(|report| report.audited(&audit));
            }
            Err(error) => {
                exit = exit.max(fail(&error));
                let unread = Unread {
                    image: image.clone(),
                    why: error.to_string(),
                };
                outputs.write(|report| report.unread(&unread));
            }
        }
    }
    outputs.write(|report| report.end(exit));
    exit.max(outputs.close())
}

fn audit_one(
    image: &str,
    args: &AuditArgs,
    rules: &[Rule],
    phases: &[Phase],
) -> Result<Audit, ImageError> {
    let facts = read(image, &args.image, &args.output)?;
    let subjects = rule::subjects(&facts);
    let findings = rule::judge(rules, &subjects, &args.phase);
    let plan = |phase| plan::plan(&facts, rules, &subjects, phase);
    let plans = phases.iter().map(plan).collect();
    Ok(Audit {
        facts,
        findings,
        phases: args.phase.clone(),
        plans,
    })
}
