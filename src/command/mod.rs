//! The commands, each in a file of its own, and what they share: reading an image and writing a result.

mod advise;
mod audit;
mod output;
mod profilers;
mod rules;
mod schema;
mod tree;

use std::io::{self, Write as _};

use cupti_audit::cli::{ColorArg, ImageArgs, OutputArgs};
use cupti_audit::facts::{Conditions, ImageFacts};
use cupti_audit::image::ImageError;
use cupti_audit::image::registry::{CredentialSource, RegistryOptions};
use cupti_audit::limits::Limits;
use cupti_audit::progress::{Bars, Show};
use cupti_audit::report::Exit;
use cupti_audit::run::{self, Options};

pub use advise::advise;
pub use audit::audit;
pub use profilers::profilers;
pub use rules::rules;
pub use schema::schema;
pub use tree::tree;

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
