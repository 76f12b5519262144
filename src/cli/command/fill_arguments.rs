//! What the command line and the environment leave open, the config fills.

use crate::cli::audit::AuditArgs;
use crate::cli::config::ProjectConfig;
use crate::cli::option_values::FailOnArg;
use crate::cli::shared_args::ImageArgs;
use crate::judge::outcome::FailOn;
use crate::knowledge::Knowledge;

use super::command_error::CommandError;
use super::terminal::report_error;

impl ProjectConfig {
    /// Fills what `audit` takes. A list of the command line stands in place of the config's.
    pub(super) fn fill_audit(&self, args: &mut AuditArgs) {
        args.report.fail_on = args.report.fail_on.or(self.fail_on);
        args.report.format = args.report.format.or(self.format);
        // clap has put in what the variable says by now, so that it counts before the config, too.
        if args.report.outputs.is_empty() {
            args.report.outputs.clone_from(&self.outputs);
        }
        args.assumptions.strict |= self.strict;
        if args.purpose.tools.is_empty() {
            args.purpose.tools.clone_from(&self.tools);
        }
        self.fill_image(&mut args.read.image);
    }

    /// Fills what the image is for.
    ///
    /// Errors: Names that no phase has; all of them are told by then.
    pub(super) fn fill_phases(&self, phases: &mut Vec<String>, knowledge: &Knowledge) -> Result<(), CommandError> {
        if phases.is_empty() {
            phases.clone_from(&self.phases);
        }
        let strange = phases.iter().filter_map(|name| knowledge.phase(name).err());
        match strange.fold(None, |_, error| Some(report_error(&error))) {
            Some(exit) => Err(exit.into()),
            None => Ok(()),
        }
    }

    /// From which severity on findings fail the run, where the command line says `given`.
    pub(super) fn fail_on(&self, given: Option<FailOnArg>) -> FailOn {
        given.or(self.fail_on).unwrap_or_default().into()
    }

    /// Fills how images are had. Variables are joined: of two for one name, that of the command line counts.
    pub(super) fn fill_image(&self, args: &mut ImageArgs) {
        if args.platform.is_none() {
            args.platform.clone_from(&self.platform);
        }
        args.cpu = args.cpu.or(self.cpu);
        let given = std::mem::take(&mut args.environment);
        args.environment.clone_from(&self.environment);
        // Behind the config's, because of two values for one name the last counts.
        let files = args.start.env_file.iter().flat_map(|file| file.0.iter().cloned());
        args.environment.extend(files);
        args.environment.extend(given);
        if args.insecure_registries.is_empty() {
            args.insecure_registries.clone_from(&self.insecure_registries);
        }
        if args.ca_cert.is_none() {
            args.ca_cert.clone_from(&self.ca_cert);
        }
    }
}
