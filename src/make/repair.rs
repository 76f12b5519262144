//! Commands that reinstall packages to cure findings, for the installer in the image.

use serde::Serialize;

use super::dockerfile::{DockerfileTemplates, TemplateError};
use super::remedy::image_system::{ImageSystem, SystemInstaller, read_image_system};
use super::remedy::python_target::{PipTarget, find_pip_target, split_mounted};
use crate::facts::{ImageFacts, OwnerKind};
use crate::judge::outcome::AuditedImage;
use crate::judge::rule::PackageRepair;
use crate::shell_quote::quote_shell;

/// Attaches repair commands to findings about packages, if the image has their installer.
pub(crate) fn tell_repairs(audit: &mut AuditedImage) {
    let mut repairs = audit
        .findings
        .iter_mut()
        .filter(|finding| finding.repair.is_some())
        .peekable();
    // Most images have none, so skip the setup.
    if repairs.peek().is_none() {
        return;
    }
    let system = read_image_system(&audit.facts);
    let Ok(templates) = DockerfileTemplates::new() else {
        return;
    };
    for finding in repairs {
        if let Some(repair) = &finding.repair {
            let lines = repair_commands(&audit.facts, &system, &templates, repair);
            (finding.commands, finding.instructions) = split_mounted(lines);
        }
    }
}

fn repair_commands(
    facts: &ImageFacts,
    system: &ImageSystem,
    templates: &DockerfileTemplates,
    repair: &PackageRepair,
) -> Vec<String> {
    let quoted: Vec<String> = repair.packages.iter().map(|package| quote_shell(package)).collect();
    let packages = quoted.join(" ");
    match repair.manager {
        OwnerKind::Pip => find_pip_target(facts, &repair.environment)
            .filter(|target| system.shell || target.mount.is_none())
            .and_then(|target| pip_command(templates, target, repair).ok())
            .into_iter()
            .collect(),
        OwnerKind::Deb if system.apt => vec![
            "apt-get update".to_owned(),
            format!("apt-get install -y --reinstall {packages}"),
        ],
        OwnerKind::Rpm => {
            let program = system.dnf.map(SystemInstaller::program);
            let command = |program| match program {
                "zypper" => format!("zypper --non-interactive install --force {packages}"),
                _ => format!("{program} reinstall -y {packages}"),
            };
            program.map(command).into_iter().collect()
        }
        OwnerKind::Conda => {
            let program = system
                .conda
                .as_ref()
                .map(|conda| quote_shell(&conda.program.to_string()));
            let prefix = quote_shell(&repair.environment.to_string());
            let command = |program| format!("{program} install -y -p {prefix} --force-reinstall {packages}");
            program.map(command).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The input of the template for pip's command, in the form of a recipe.
#[derive(Serialize)]
struct PipCommand<'a> {
    way: PipPackages<'a>,
    once: bool,
}

#[derive(Serialize)]
struct PipPackages<'a> {
    #[serde(flatten)]
    target: PipTarget,
    is_listed: bool,
    takes_dependencies: bool,
    wheels: &'a [String],
}

/// Errors: A path that a command cannot contain.
fn pip_command(
    templates: &DockerfileTemplates,
    target: PipTarget,
    repair: &PackageRepair,
) -> Result<String, TemplateError> {
    let way = PipPackages {
        target,
        is_listed: repair.is_listed,
        takes_dependencies: repair.takes_requirements,
        wheels: &repair.packages,
    };
    let text = templates.render("pip-install.j2", PipCommand { way, once: false })?;
    Ok(text.trim().to_owned())
}
