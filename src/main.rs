//! The program: reads the command line, runs, writes the results and gives the exit code.
#![expect(
    clippy::print_stderr,
    reason = "results go to standard output, everything else to standard error"
)]

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use cupti_audit::cli::{
    AuditArgs, Cli, ColorArg, Command, Format, ImageArgs, OutputArgs, RulesAction, RulesArgs,
    TreeArgs,
};
use cupti_audit::facts::{Conditions, ImageFacts};
use cupti_audit::image::ImageError;
use cupti_audit::image::registry::{CredentialSource, RegistryOptions};
use cupti_audit::limits::Limits;
use cupti_audit::progress::{Bars, Show};
use cupti_audit::report::{self, Audit, Exit};
use cupti_audit::rule::{self, Rule};
use cupti_audit::run::{self, Options};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = match cli.command {
        None => audit(&cli.audit),
        Some(Command::Audit(args)) => audit(&args),
        Some(Command::Tree(args)) => tree(&args),
        Some(Command::Rules(args)) => rules(&args),
    };
    ExitCode::from(exit as u8)
}

fn audit(args: &AuditArgs) -> Exit {
    color(args.output.color);
    let rules = rule::built_in();
    let mut exit = Exit::Clean;
    for (number, image) in args.images.iter().enumerate() {
        if number > 0 && args.output.format == Format::Text {
            exit = exit.max(write(Ok("\n".to_owned()), Exit::Clean));
        }
        exit = exit.max(audit_one(image, args, &rules));
    }
    exit
}

fn audit_one(image: &str, args: &AuditArgs, rules: &[Rule]) -> Exit {
    let facts = match read(image, &args.image, &args.output) {
        Ok(facts) => facts,
        Err(error) => return fail(&error),
    };
    let findings = rule::judge(rules, &rule::subjects(&facts), &args.phase);
    let audit = Audit {
        facts,
        findings,
        phases: args.phase.clone(),
    };
    let text = match args.output.format {
        Format::Json => report::json::line(&audit)
            .map(|line| line + "\n")
            .map_err(io::Error::other),
        Format::Text => Ok(report::text::report(&audit, layout(&args.output))),
    };
    write(text, audit.exit(args.fail_on.into()))
}

fn tree(args: &TreeArgs) -> Exit {
    color(args.output.color);
    let facts = match read(&args.image_name, &args.image, &args.output) {
        Ok(facts) => facts,
        Err(error) => return fail(&error),
    };
    let ground = facts.grounds.get(args.world.into());
    if ground.linker.is_none() && !args.object.contains('/') {
        return fail(&format!(
            "{}: the image has no dynamic loader for {}",
            args.image_name, facts.image.platform
        ));
    }
    let resolution = if args.object.contains('/') {
        let Some(resolution) = ground.start(args.object.as_bytes()) else {
            return fail(&format!(
                "{}: there is no file {} that a loader of the image could load",
                args.image_name, args.object
            ));
        };
        resolution
    } else {
        ground.open_plain(args.object.as_bytes())
    };
    let tree = report::tree::Tree {
        world: args.world.into(),
        root: &args.object,
        resolution: &resolution,
    };
    let text = match args.output.format {
        Format::Json => report::tree::json(&tree)
            .map(|line| line + "\n")
            .map_err(io::Error::other),
        Format::Text => Ok(report::tree::text(&tree, args.output.verbose)),
    };
    let exit = match () {
        () if !resolution.loads() => Exit::Findings,
        () if !resolution.unread.is_empty() => Exit::Open,
        () => Exit::Clean,
    };
    write(text, exit)
}

fn rules(args: &RulesArgs) -> Exit {
    let rules = rule::built_in();
    match &args.action {
        None | Some(RulesAction::List) => write(Ok(report::rules::list(&rules)), Exit::Clean),
        Some(RulesAction::Explain { id }) => match rules.iter().find(|rule| rule.id == *id) {
            Some(rule) => write(Ok(report::rules::explain(rule, width())), Exit::Clean),
            None => fail(&format!(
                "there is no rule {id:?}; cupti-audit rules lists them"
            )),
        },
    }
}

fn read(image: &str, args: &ImageArgs, output: &OutputArgs) -> Result<ImageFacts, ImageError> {
    let bars = Bars::new(if output.quiet {
        Show::Never
    } else {
        Show::OnTerminal
    });
    let options = Options {
        platform: args.platform.as_ref(),
        registry: RegistryOptions {
            insecure: args.insecure_registries.clone(),
            ca_cert: args.ca_cert.clone(),
            credentials: CredentialSource::Host,
            ..RegistryOptions::default()
        },
        conditions: Conditions {
            environment: args.environment.clone(),
            cpu: args.cpu,
        },
        limits: Limits::default(),
        progress: &bars,
    };
    let facts = run::read(image, &options);
    bars.clear();
    facts
}

fn color(when: ColorArg) {
    match when {
        ColorArg::Auto => {}
        ColorArg::Always => anstream::ColorChoice::Always.write_global(),
        ColorArg::Never => anstream::ColorChoice::Never.write_global(),
    }
}

fn layout(output: &OutputArgs) -> report::text::Layout {
    report::text::Layout {
        width: width(),
        verbose: output.verbose,
    }
}

/// The width of the terminal; where there is none, that of a page.
fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Writes a result. A reader that has gone away, as behind `head`, is no failure.
fn write(text: io::Result<String>, exit: Exit) -> Exit {
    let written = text.and_then(|text| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    });
    match written {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => fail(&format!("cannot write the result: {error}")),
    }
}

fn fail(error: &dyn std::fmt::Display) -> Exit {
    eprintln!("error: {error}");
    Exit::Open
}
