//! Commands that reinstall packages to cure findings, for the installer in the image.

use super::choose::image_system::{ImageSystem, SystemInstaller, read_image_system};
use super::choose::python_target::{find_pip_target, split_mounted};
use super::shell::ShellStyle;
use super::shell::command_line::CommandLine;
use super::shell::package::{Wheels, pip_install};
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
    for finding in repairs {
        if let Some(repair) = &finding.repair {
            let lines = repair_commands(&audit.facts, &system, repair);
            (finding.commands, finding.instructions) = split_mounted(lines);
        }
    }
}

fn repair_commands(facts: &ImageFacts, system: &ImageSystem, repair: &PackageRepair) -> Vec<String> {
    let quoted: Vec<String> = repair.packages.iter().map(|package| quote_shell(package)).collect();
    let packages = quoted.join(" ");
    let wheels = Wheels {
        requirements: &repair.packages,
        is_listed: repair.is_listed,
        takes_dependencies: repair.takes_requirements,
    };
    match repair.manager {
        OwnerKind::Pip => find_pip_target(facts, &repair.environment)
            .filter(|target| system.shell || target.mount.is_none())
            .and_then(|target| pip_install(&target, wheels, ShellStyle::Console).ok())
            .into_iter()
            .collect(),
        OwnerKind::Deb if system.apt => vec![
            "apt-get update".to_owned(),
            reinstall(SystemInstaller::AptGet, &packages),
        ],
        OwnerKind::Rpm => {
            let installer = system.rpm_installer.into_iter();
            installer.map(|installer| reinstall(installer, &packages)).collect()
        }
        OwnerKind::Conda => {
            let command = system.conda.as_ref().and_then(|conda| {
                let program = CommandLine::new("").path(&conda.program).ok()?;
                let install = program.text(" install -y -p ").path(&repair.environment).ok()?;
                Some(install.text(" --force-reinstall").args(&repair.packages).into())
            });
            command.into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The command that installs packages again.
fn reinstall(installer: SystemInstaller, packages: &str) -> String {
    use SystemInstaller::{AptGet, Dnf, Dnf5, Microdnf, Tdnf, Yum, Zypper};
    let program = installer.program();
    match installer {
        AptGet => format!("{program} install -y --reinstall {packages}"),
        Dnf | Dnf5 | Microdnf | Tdnf | Yum => format!("{program} reinstall -y {packages}"),
        Zypper => format!("{program} --non-interactive install --force {packages}"),
    }
}
