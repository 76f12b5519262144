//! The commands that install packages.

use super::command_line::CommandLine;
use super::{ShellStyle, ldconfig_call, list_files_again, with_system_path};
use crate::make::choose::PatchError;
use crate::make::choose::image_system::{ImageSystem, SystemInstaller};
use crate::make::choose::python_target::PipTarget;
use crate::make::choose::search_path::MAIN_CONF;
use crate::make::patch::package::{CondaPackage, Package, PipPackage, RepositorySetup, SystemPackage};
use image_linkage::path::RootPath;

/// The file of apt's sources that exists only while a build installs.
const APT_LIST: &str = "/etc/apt/sources.list.d/cupti.list";

/// Wheels for pip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wheels<'a> {
    /// Requirements in pip's syntax.
    pub requirements: &'a [String],
    /// Whether pip lists them as installed.
    pub is_listed: bool,
    /// Whether their dependencies are also installed.
    pub takes_dependencies: bool,
}

/// Installs a package with the libraries of the folder of `library`. A build also removes what the phase does not need of
/// it, and writes the folder that the package manager names into `conf`.
///
/// Errors: [`PatchError::Name`] for a path that a command cannot contain.
pub(super) fn install_commands(
    package: &Package,
    library: &RootPath,
    conf: Option<&RootPath>,
    system: &ImageSystem,
    style: ShellStyle,
) -> Result<Vec<String>, PatchError> {
    match (package, style) {
        (Package::Pip(pip), ShellStyle::Console) => Ok(vec![install_wheel(pip, style)?]),
        (Package::Pip(pip), ShellStyle::Build) => build_with_pip(pip, &library.parent()),
        (Package::Conda(conda), _) => conda_install(conda, style),
        (Package::System(package), ShellStyle::Console) => package_install(package, &system.missing_path, style),
        (Package::System(package), ShellStyle::Build) => {
            let mut commands = package_install(package, &system.missing_path, style)?;
            commands.extend(clean_package(package, conf)?);
            commands.push(ldconfig_call(system, style)?);
            Ok(commands)
        }
    }
}

/// Installs a wheel, in one line.
fn install_wheel(pip: &PipPackage, style: ShellStyle) -> Result<String, PatchError> {
    let wheels = Wheels {
        requirements: &pip.wheels,
        is_listed: pip.is_listed,
        takes_dependencies: pip.takes_dependencies,
    };
    pip_install(&pip.target, wheels, style)
}

/// Installs wheels, in one line.
pub(crate) fn pip_install(target: &PipTarget, wheels: Wheels<'_>, style: ShellStyle) -> Result<String, PatchError> {
    let builds = style == ShellStyle::Build;
    let (mut line, reinstall) = match &target.uv {
        Some(uv) => (call_uv(target, uv, builds)?, " --reinstall"),
        None => (call_pip(target, builds)?, " --force-reinstall"),
    };
    line = line
        .text_if(!wheels.takes_dependencies, " --no-deps")
        .text_if(wheels.is_listed, reinstall)
        .text_if(target.is_managed, " --break-system-packages")
        .args(wheels.requirements);
    if target.is_apart && target.uv.is_none() {
        let then = if builds { "; " } else { " && " };
        line = line.text(then).text("cp -a /tmp/cupti/. ").path(&target.site)?;
        line = line.text(then).text("rm -r /tmp/cupti");
    }
    Ok(line.into())
}

fn call_uv(target: &PipTarget, uv: &RootPath, builds: bool) -> Result<CommandLine, PatchError> {
    // A RUN takes the mount before its commands.
    let mount = target.mount.filter(|_| !builds);
    let mut line = CommandLine::new(mount.unwrap_or_default())
        .text_if(mount.is_some(), " ")
        .path(uv)?
        .text(" pip install --python ")
        .path(&target.interpreter)?;
    if target.is_apart || target.user_base.is_some() {
        line = line.text(" --target ").path(&target.site)?;
    }
    Ok(line.text_if(builds, " --no-cache"))
}

/// pip's own command. With `--target` it would replace whole folders that other wheels share, so it gets another one.
fn call_pip(target: &PipTarget, builds: bool) -> Result<CommandLine, PatchError> {
    let mut line = CommandLine::new("");
    if let Some(base) = &target.user_base {
        line = line.text("PYTHONUSERBASE=").path(base)?.text(" ");
    }
    line = match &target.other_pip {
        Some(other) => line.path(other)?.text(" -m pip --python ").path(&target.interpreter)?,
        None => line.path(&target.interpreter)?.text(" -m pip"),
    };
    Ok(line
        .text(" install")
        .text_if(target.user_base.is_some(), " --user")
        .text_if(target.is_apart, " --target /tmp/cupti")
        .text_if(builds, " --no-cache-dir"))
}

/// Installs a wheel in a build, and removes its headers and the spare libraries in `folder`.
fn build_with_pip(pip: &PipPackage, folder: &RootPath) -> Result<Vec<String>, PatchError> {
    let libraries: Vec<RootPath> = pip.spare.iter().map(|stem| folder.join(stem.as_bytes())).collect();
    let remove = CommandLine::new("rm -rf").paths(libraries.iter().chain(&pip.headers))?;
    let distribution = pip.name.replace('-', "_") + "-";
    let list = list_files_again(std::slice::from_ref(&pip.target.site), &distribution)?;
    Ok(vec![
        install_wheel(pip, ShellStyle::Build)?,
        remove.into(),
        format!("# keep pip's list of files correct\n{list}"),
    ])
}

/// Installs conda packages; in a build, removes the spare libraries.
fn conda_install(conda: &CondaPackage, style: ShellStyle) -> Result<Vec<String>, PatchError> {
    let (program, prefix) = (&conda.environment.program, &conda.environment.prefix);
    let install = CommandLine::new("")
        .path(program)?
        .text(" install -y -p ")
        .path(prefix)?
        .text(" -c conda-forge --override-channels")
        .text_if(conda.is_listed, " --force-reinstall");
    let mut commands = vec![install.args(&conda.packages).into()];
    if style == ShellStyle::Build {
        commands.push(CommandLine::new("").path(program)?.text(" clean -afy").into());
        let mut remove = CommandLine::new("rm -f");
        for stem in &conda.spare {
            remove = remove.text(" ").path(prefix)?.text("/lib/").text(stem).text("* ");
            remove = remove.path(prefix)?.text("/targets/*/lib/").text(stem).text("*");
        }
        commands.extend((!conda.spare.is_empty()).then(|| remove.into()));
    }
    Ok(commands)
}

/// Installs a package of the distribution or of NVIDIA's repository. A build has the repository's key or file already.
fn package_install(package: &SystemPackage, missing_path: &str, style: ShellStyle) -> Result<Vec<String>, PatchError> {
    if package.manager == SystemInstaller::AptGet {
        return apt_install(package, missing_path, style);
    }
    let mut commands = vec![rpm_install(package, style)];
    match (style, &package.setup) {
        (ShellStyle::Build, _) => {
            let clean = CommandLine::new(package.manager.program()).text(" clean ");
            let is_zypper = package.manager == SystemInstaller::Zypper;
            commands.push(clean.text(if is_zypper { "--all" } else { "all" }).into());
        }
        (ShellStyle::Console, Some(RepositorySetup::Repository { url, file, folder, .. })) => {
            let fetch = CommandLine::new("curl -o ").arg(&format!("{folder}/{file}")).text(" ");
            commands.insert(0, fetch.arg(&format!("{url}/{file}")).into());
        }
        (ShellStyle::Console, _) => {}
    }
    Ok(commands)
}

fn apt_install(package: &SystemPackage, missing_path: &str, style: ShellStyle) -> Result<Vec<String>, PatchError> {
    const UPDATE: &str = "apt-get update";
    let builds = style == ShellStyle::Build;
    let mut commands: Vec<String> = Vec::new();
    match &package.setup {
        Some(RepositorySetup::Repository { url, certificates, .. }) if builds => {
            if *certificates {
                commands.push(UPDATE.into());
                commands.push("apt-get install -y --no-install-recommends ca-certificates".into());
            }
            let source = format!("deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {url}/ /");
            commands.push(CommandLine::new("echo ").arg(&source).text(" > ").text(APT_LIST).into());
        }
        Some(RepositorySetup::Repository { url, keyring, .. }) => {
            let fetch = CommandLine::new("wget -O /tmp/cuda-keyring.deb ").arg(&format!("{url}/{keyring}"));
            commands.push(UPDATE.into());
            commands.push("apt-get install -y --no-install-recommends ca-certificates wget".into());
            commands.push(fetch.into());
            commands.push(with_system_path(missing_path, "dpkg -i /tmp/cuda-keyring.deb"));
        }
        Some(RepositorySetup::Component { name, file, deb822 }) => {
            commands.extend((!builds).then(|| UPDATE.into()));
            commands.push(component_source(name, file, *deb822)?);
        }
        None => {}
    }
    let install = CommandLine::new("apt-get install -y --no-install-recommends")
        .text_if(package.is_listed, " --reinstall")
        .text(" ")
        .arg(&format!("{}={}", package.name, package.version));
    commands.extend([UPDATE.into(), install.into()]);
    if builds {
        let remove = CommandLine::new("rm -rf /var/lib/apt/lists/*")
            .text_if(package.setup.is_some(), " /etc/apt/sources.list.d/cupti.*");
        commands.extend(["apt-get clean".into(), remove.into()]);
    }
    Ok(commands)
}

/// Writes a source for a component of the distribution's archive, in the format of the file with the others.
fn component_source(name: &str, file: &RootPath, deb822: bool) -> Result<String, PatchError> {
    let (option, script, list) = if deb822 {
        let script = format!("s/^Components:.*/Components: {name}/");
        ("sed ", script, "/etc/apt/sources.list.d/cupti.sources")
    } else {
        let script = format!(r"s/^\(deb .*\) main.*$/\1 {name}/p");
        ("sed -n ", script, APT_LIST)
    };
    let sed = CommandLine::new(option).arg(&script).text(" ").path(file)?;
    Ok(sed.text(" > ").text(list).into())
}

fn rpm_install(package: &SystemPackage, style: ShellStyle) -> String {
    use SystemInstaller::{AptGet, Dnf, Dnf5, Microdnf, Tdnf, Yum, Zypper};
    let SystemPackage {
        manager, name, version, ..
    } = package;
    // tdnf and zypper take no pattern; the name has the CUDA release.
    let exact = match manager {
        Tdnf | Zypper if version.contains('*') => name.clone(),
        Zypper => format!("{name}={version}"),
        AptGet | Dnf | Dnf5 | Microdnf | Tdnf | Yum => format!("{name}-{version}"),
    };
    let program = manager.program();
    if *manager == Zypper {
        return CommandLine::new("zypper --non-interactive --gpg-auto-import-keys install --no-recommends")
            .text_if(package.is_listed, " --force")
            .text(" ")
            .arg(&exact)
            .into();
    }
    let line = if package.is_listed {
        let reinstall = CommandLine::new("{ rpm -q ").arg(name).text(" && ").text(program);
        reinstall.text(" reinstall -y ").arg(&exact).text("; } || ")
    } else {
        CommandLine::new("")
    };
    let takes_weak = style == ShellStyle::Build && !matches!(manager, Tdnf | Yum);
    line.text(program)
        .text(" install -y")
        .text_if(takes_weak, " --setopt=install_weak_deps=0")
        .text(" ")
        .arg(&exact)
        .into()
}

/// Removes the spare libraries of an installed package, and names the folder of its library in `conf`, in the main file
/// in front of the others.
fn clean_package(package: &SystemPackage, conf: Option<&RootPath>) -> Result<Vec<String>, PatchError> {
    let (mut cases, mut after) = (Vec::new(), Vec::new());
    if !package.spare.is_empty() {
        cases.push(match_stems(&package.spare, "*").text(") rm -f \"$file\""));
    }
    if let Some(conf) = conf {
        let name = CommandLine::new("*/libcupti.so.*) echo \"${file%/*}\" >> ");
        if *conf == RootPath::from(MAIN_CONF) {
            cases.push(name.text("/etc/ld.so.conf.cupti"));
            after = vec![
                "cat /etc/ld.so.conf >> /etc/ld.so.conf.cupti || true".to_owned(),
                "cat /etc/ld.so.conf.cupti > /etc/ld.so.conf".to_owned(),
                "rm /etc/ld.so.conf.cupti".to_owned(),
            ];
        } else {
            cases.push(name.path(conf)?);
        }
    }
    let files = (!cases.is_empty()).then(|| for_package_files(package, cases));
    Ok(files.into_iter().chain(after).collect())
}

/// A pattern for the files that begin with one of the stems; `rest` is the pattern of what follows the stem.
pub(crate) fn match_stems(stems: &[&'static str], rest: &'static str) -> CommandLine {
    let mut line = CommandLine::new("");
    for (number, stem) in stems.iter().enumerate() {
        line = line.text_if(number > 0, "|").text("*/").text(stem).text(rest);
    }
    line
}

/// Runs the first matching of these cases for each file of an installed package.
pub(crate) fn for_package_files(package: &SystemPackage, cases: impl IntoIterator<Item = CommandLine>) -> String {
    let is_debian = package.manager == SystemInstaller::AptGet;
    let list = CommandLine::new(if is_debian { "dpkg -L " } else { "rpm -ql " }).arg(&package.name);
    let cases = cases
        .into_iter()
        .map(|case| format!("        {} ;; \\\n", String::from(case)));
    let (list, cases) = (String::from(list), cases.collect::<String>());
    format!("for file in $({list}); do \\\n    case \"$file\" in \\\n{cases}    esac; \\\ndone")
}
