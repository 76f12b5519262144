//! The features of generated images, one function each. An image without features only has programs that request CUPTI
//! by its name.

use super::generate::{Draft, cupti};
use super::pythons;
use super::spec::{Build, Content, Damage, Feature, ObjectSpec};
use super::starts;

/// Adds a feature to an image.
pub fn apply(draft: &mut Draft, feature: Feature) {
    match feature {
        Feature::Plain => {}
        Feature::Layers => layers(draft),
        Feature::Cache => cache(draft),
        Feature::Preload => preload(draft),
        Feature::Through => through(draft),
        Feature::Setuid => more_rights(draft, &["4755", "4711", "4750"], None),
        Feature::Setgid => more_rights(draft, &["2755", "2711"], None),
        // net_raw, which Docker keeps; sys_admin and perfmon, which it drops; none.
        Feature::Capabilities => more_rights(draft, &["755", "711"], Some(&["2000", "200000", "4000000000", "0"])),
        Feature::FileMode => file_mode(draft),
        Feature::AccessList => access_list(draft),
        Feature::FolderMode => folder_mode(draft),
        Feature::ProgramMode => more_rights(draft, &["0", "700", "711", "744", "750", "755"], None),
        Feature::AbsoluteName => absolute_name(draft),
        Feature::RelativeName => relative_name(draft),
        Feature::OriginName => origin_name(draft),
        Feature::Pattern => pattern(draft),
        Feature::Immediate => immediate(draft),
        Feature::Alias => alias(draft),
        Feature::EnvCommand => env_command(draft),
        Feature::Script => script(draft),
        Feature::ChangedUser => changed_user(draft),
        Feature::ScriptMode => script_mode(draft),
        Feature::Directory => directory(draft),
        Feature::Loop => script_of(draft, &LOOPS),
        Feature::Sourced => sourced(draft),
        Feature::Namespace => namespace(draft),
        Feature::Static => another_build(draft, Build::OpenStatic),
        Feature::StaticPie => another_build(draft, Build::OpenStaticPie),
        Feature::Damage => damage(draft),
        Feature::MissingLibrary => missing_library(draft),
        Feature::MissingInterpreter => missing_interpreter(draft),
        Feature::ScriptInterpreter => script_interpreter(draft),
        Feature::StaticTls => another_cupti(draft, &[Build::CuptiStaticTls, Build::CuptiSomeTls]),
        Feature::Unbound => another_cupti(draft, &[Build::CuptiUnbound, Build::CuptiUnboundNow]),
        Feature::UnboundProgram => starts::unbound_program(draft),
        Feature::CommandKind => starts::command_kind(draft),
        Feature::PythonSystem
        | Feature::PythonVenv
        | Feature::PythonUser
        | Feature::PythonTarget
        | Feature::PythonPth
        | Feature::PythonPrefix
        | Feature::PythonPreload
        | Feature::PythonAfter
        | Feature::PythonMissing
        | Feature::PythonImport => pythons::apply(draft, feature),
    }
}

fn layers(draft: &mut Draft) {
    for layer in 2..=2 + draft.random.below(3) {
        let (folder, soname, file) = draft.some_copy();
        match draft.random.below(7) {
            0 => drop(draft.put(layer, &file, Content::Whiteout).clone()),
            1 => drop(
                draft
                    .put(layer, &format!("{folder}/{soname}"), Content::Whiteout)
                    .clone(),
            ),
            2 if !folder.starts_with("/usr/lib") => {
                draft.put(layer, &folder, Content::Opaque);
                if draft.random.chance(60) {
                    let soname = draft.soname();
                    draft.put(layer, &format!("{folder}/{soname}"), cupti(&soname));
                }
            }
            3 => {
                draft.put(layer, "/opt/other/lib/libcupti.so.12", cupti("libcupti.so.12"));
                let to = "/opt/other/hard/libcupti.so.12";
                draft.put(layer, to, Content::Hardlink("/opt/other/lib/libcupti.so.12".to_owned()));
                let program = by_name(draft, "libcupti.so.12", Some("/opt/other/hard"));
                draft.program(program);
            }
            4 => {
                draft.put(
                    layer,
                    "/usr/local/cuda",
                    Content::Link("/etc/alternatives/cuda".to_owned()),
                );
                draft.put(
                    layer,
                    "/etc/alternatives/cuda",
                    Content::Link("/usr/local/cuda-12.4".to_owned()),
                );
                let name = draft.soname();
                let program = by_name(draft, &name, Some("/usr/local/cuda/lib64"));
                draft.program(program);
            }
            5 => drop(
                draft
                    .put(layer, &file, Content::Text("<html>404</html>\n".repeat(9)))
                    .clone(),
            ),
            _ => {
                draft.put(layer, &file, Content::Whiteout);
                draft.put(layer + 1, &file, cupti(&soname));
            }
        }
    }
}

/// A program that opens or links a name, with a search path.
fn by_name(draft: &mut Draft, name: &str, path: Option<&str>) -> ObjectSpec {
    let rpath = draft.random.chance(50);
    ObjectSpec {
        build: if draft.random.chance(50) {
            Build::Link
        } else {
            Build::Open
        },
        name: name.to_owned(),
        rpath: path.filter(|_| rpath).map(str::to_owned),
        runpath: path.filter(|_| !rpath).map(str::to_owned),
        ..ObjectSpec::default()
    }
}

fn cache(draft: &mut Draft) {
    let mut entries = Vec::new();
    for (folder, soname, _) in draft.copies.clone() {
        let at = match draft.random.below(4) {
            0 => format!("/opt/stale/{soname}"),
            _ => format!("{folder}/{soname}"),
        };
        if !entries.iter().any(|(name, _)| *name == soname) {
            entries.push((soname, at));
        }
    }
    if draft.random.chance(30) {
        let file = draft.some_copy().2;
        entries.retain(|(name, _)| name != "libcupti.so");
        entries.push(("libcupti.so".to_owned(), file));
    }
    let folder = draft.some_copy().0;
    draft.put(2, "/etc/ld.so.conf.d/cupti.conf", Content::Text(format!("{folder}\n")));
    if draft.random.chance(80) {
        draft.put(2, "/etc/ld.so.cache", Content::Cache(entries));
    }
}

fn preload(draft: &mut Draft) {
    let (folder, soname, file) = draft.some_copy();
    let value = match draft.random.below(6) {
        0 => soname,
        1 => format!("/opt/gone/libcupti.so.12 {folder}/{soname}"),
        2 => "/opt/gone/libcupti.so.12".to_owned(),
        3 => format!("{folder}/{soname}"),
        _ => file,
    };
    if draft.random.chance(70) {
        draft.env("LD_PRELOAD", &value);
    } else {
        draft.put(2, "/etc/ld.so.preload", Content::Text(format!("{value}\n")));
    }
    if draft.random.chance(30) {
        draft.user();
    }
}

fn through(draft: &mut Draft) {
    let mut library = draft.asks_by_name();
    library.build = if library.build == Build::Link {
        Build::LibraryLinks
    } else {
        Build::LibraryOpens
    };
    let path = "/opt/through/lib/libprobe.so";
    draft.put(1, path, Content::Object(library));
    let mut program = by_name(draft, "libprobe.so", Some("$ORIGIN/../lib"));
    program.build = Build::UsesLibrary;
    let at = "/opt/through/bin/through";
    draft.put(1, at, Content::Object(program));
    draft.process(path, vec![at.to_owned()]);
}

/// Adds another library that a program or module needs: in a default folder, in the object's search path, elsewhere, or
/// not at all.
pub fn more_library(draft: &mut Draft) {
    let places = [
        (3, None),
        (2, Some("/usr/lib/x86_64-linux-gnu")),
        (2, Some("/opt/more/lib")),
        (1, Some("/srv/elsewhere")),
    ];
    if let Some(folder) = draft.random.weighted(&places) {
        let path = format!("{folder}/libmore.so.1");
        draft.put(0, &path, super::generate::object(Build::More, "libmore.so.1"));
    }
}

fn missing_library(draft: &mut Draft) {
    more_library(draft);
    for _ in 0..=draft.random.below(2) {
        let mut program = draft.asks_by_name();
        program.build = match program.build {
            Build::Link => Build::LinkMore,
            _ => Build::OpenMore,
        };
        if draft.random.chance(40) {
            let path = program.rpath.take().or(program.runpath.take());
            let path = path.map_or("/opt/more/lib".to_owned(), |path| format!("{path}:/opt/more/lib"));
            program.runpath = Some(path);
        }
        draft.program(program);
    }
}

fn missing_interpreter(draft: &mut Draft) {
    if draft.random.chance(60) {
        let link = |to: &str| Content::Link(to.to_owned());
        let is = match draft.random.below(8) {
            0..=2 => link("/lib64/ld-linux-x86-64.so.2"),
            3 => link("/opt/gone/ld.so"),
            4 => Content::Dir,
            5 => Content::Text("no object\n".repeat(20)),
            6 => Content::Text("short\n".to_owned()),
            _ => starts::foreign(Damage::Machine(183)),
        };
        let entry = draft.put(0, "/opt/loader/ld.so", is);
        if matches!(entry.is, Content::Text(_)) {
            entry.mode = Some("755".to_owned());
        }
    }
    for _ in 0..=draft.random.below(2) {
        let mut program = draft.asks_by_name();
        program.build = match program.build {
            Build::Link => Build::LinkForeign,
            _ => Build::OpenForeign,
        };
        draft.program(program);
    }
}

fn script_interpreter(draft: &mut Draft) {
    let folder = folder_of_start(draft);
    let shells = [
        "/bin/sh",
        "/opt/venv/bin/sh",
        "/usr/bin/env sh",
        "/usr/bin/env bash",
        "/bin/sh -e",
    ];
    let shell = draft.random.pick(&shells).to_owned();
    if draft.random.chance(30) {
        draft.put(1, "/opt/venv/bin/sh", Content::Link("/bin/sh".to_owned()));
    }
    let end = if draft.random.chance(15) { "\r" } else { "" };
    let text = format!("#!{shell}{end}\nexport LD_LIBRARY_PATH={folder}\nexec \"$@\"\n");
    draft.put(2, "/entrypoint.sh", Content::Text(text));
    start_by(draft, vec!["/entrypoint.sh".to_owned()]);
}

/// The path of an existing program.
fn some_program(draft: &mut Draft) -> String {
    let programs: Vec<String> = draft.spec.layers[1]
        .keys()
        .filter(|path| path.starts_with("/opt/prog"))
        .cloned()
        .collect();
    let programs: Vec<String> = programs.into_iter().filter(|path| path.contains("/bin/")).collect();
    draft.random.one_of(&programs).clone()
}

fn more_rights(draft: &mut Draft, modes: &[&str], capabilities: Option<&[&str]>) {
    draft.user();
    for _ in 0..=draft.random.below(3) {
        let program = some_program(draft);
        let mode = draft.random.pick(modes).to_owned();
        let owner = draft
            .random
            .weighted(&[(5, (0, 0)), (2, (1001, 1001)), (2, (0, 1500)), (1, (1000, 1000))]);
        let capabilities = capabilities.map(|all| draft.random.pick(all).to_owned());
        let entry = &mut draft.spec.layers[1][&program];
        entry.mode = Some(mode);
        entry.owner = owner;
        entry.capabilities = capabilities;
    }
}

fn file_mode(draft: &mut Draft) {
    draft.user();
    for _ in 0..=draft.random.below(2) {
        let file = draft.some_copy().2;
        let mode = draft
            .random
            .pick(&["0", "600", "640", "400", "604", "444", "711"])
            .to_owned();
        let owner = draft
            .random
            .weighted(&[(4, (0, 0)), (3, (0, 1500)), (2, (1000, 1000)), (2, (0, 1600))]);
        if let Some(entry) = draft.spec.layers[0].get_mut(&file) {
            entry.mode = Some(mode);
            entry.owner = owner;
        }
    }
}

/// Sets modes together with access lists: the mode's group bits show the list's mask.
fn access_list(draft: &mut Draft) {
    draft.user();
    let (folder, _, file) = draft.some_copy();
    let is_own = !folder.starts_with("/usr/l") && folder != "/home/app";
    let path = if is_own && draft.random.chance(40) {
        folder
    } else {
        file
    };
    let mask = draft.random.weighted(&[(6, 5), (2, 4), (1, 1), (1, 0)]);
    let mut bits = || draft.random.weighted(&[(3, 5), (2, 4), (3, 0)]);
    let mut list = vec![(4, bits(), u32::MAX), (16, mask, u32::MAX)];
    let named = [(2, 1000), (2, 4242), (8, 1500), (8, 1600), (8, 1001)];
    list.extend(named.map(|(tag, id)| (tag, bits(), id)));
    list.retain(|(_, _, id)| *id == u32::MAX || draft.random.chance(40));
    let others = draft.random.weighted(&[(3, 0), (2, 5)]);
    let owner = draft.random.weighted(&[(6, (0, 0)), (2, (0, 1500)), (1, (1000, 1000))]);
    if !draft.spec.layers[0].contains_key(&path) {
        draft.put(0, &path, Content::Dir);
    }
    let entry = &mut draft.spec.layers[0][&path];
    entry.mode = Some(format!("{:o}", 0o700 | mask << 3 | others));
    entry.owner = owner;
    entry.access_list = list;
}

/// Replaces some copies by another build.
fn another_cupti(draft: &mut Draft, builds: &[Build]) {
    for _ in 0..=draft.random.below(2) {
        let file = draft.some_copy().2;
        let build = *draft.random.one_of(builds);
        if let Some(entry) = draft.spec.layers[0].get_mut(&file)
            && let Content::Object(object) = &mut entry.is
        {
            object.build = build;
        }
    }
}

fn folder_mode(draft: &mut Draft) {
    draft.user();
    let folder = draft.some_copy().0;
    let cuts: Vec<&str> = folder
        .match_indices('/')
        .map(|(at, _)| &folder[..at])
        .chain([folder.as_str()])
        .collect();
    let own: Vec<&str> = cuts.into_iter().filter(|path| path.matches('/').count() > 1).collect();
    let Some(path) = own.last().filter(|path| !path.starts_with("/usr/lib")) else {
        return;
    };
    let path = if draft.random.chance(70) {
        (*path).to_owned()
    } else {
        (*draft.random.one_of(&own)).to_owned()
    };
    if path == "/usr/lib" || path == "/usr/local" || path == "/home/app" {
        return;
    }
    let mode = draft
        .random
        .pick(&["700", "711", "750", "0", "755", "744", "701"])
        .to_owned();
    let owner = draft
        .random
        .weighted(&[(5, (0, 0)), (3, (0, 1500)), (2, (1000, 1000)), (2, (0, 1600))]);
    let entry = draft.put(0, &path, Content::Dir);
    entry.mode = Some(mode);
    entry.owner = owner;
}

fn opens(name: &str, build: Build) -> ObjectSpec {
    ObjectSpec {
        build,
        name: name.to_owned(),
        ..ObjectSpec::default()
    }
}

fn absolute_name(draft: &mut Draft) {
    for _ in 0..=draft.random.below(3) {
        let (folder, soname, file) = draft.some_copy();
        let name = match draft.random.below(5) {
            0 => "/opt/gone/libcupti.so.12".to_owned(),
            1 => file,
            2 => format!("{folder}/libcupti.so"),
            _ => format!("{folder}/{soname}"),
        };
        let build = if draft.random.chance(25) {
            Build::Link
        } else {
            Build::Open
        };
        draft.program(opens(&name, build));
    }
}

fn relative_name(draft: &mut Draft) {
    let (folder, soname, _) = draft.some_copy();
    let (above, last) = folder.rsplit_once('/').unwrap();
    let (dir, name) = match draft.random.below(4) {
        0 => (folder.clone(), format!("./{soname}")),
        1 => ("/srv".to_owned(), format!("{last}/{soname}")),
        2 => ("/opt".to_owned(), format!("..{folder}/{soname}")),
        _ => (above.to_owned(), format!("{last}/{soname}")),
    };
    draft.spec.working_dir = Some(if dir.is_empty() { "/".to_owned() } else { dir });
    draft.program(opens(&name, Build::Open));
}

fn origin_name(draft: &mut Draft) {
    let name = draft
        .random
        .pick(&[
            "$ORIGIN/../lib/libcupti.so.12",
            "${ORIGIN}/libcupti.so.12",
            "$ORIGIN/../gone/libcupti.so.12",
        ])
        .to_owned();
    let path = draft.program(opens(&name, Build::Open));
    let top = path.rsplit_once("/bin/").unwrap().0.to_owned();
    draft.put(1, &format!("{top}/lib/libcupti.so.12"), cupti("libcupti.so.12"));
    if draft.random.chance(50) {
        draft.put(1, &format!("{top}/bin/libcupti.so.12"), cupti("libcupti.so.12"));
    }
    if draft.random.chance(30) {
        draft.user();
        let entry = &mut draft.spec.layers[1][&path];
        entry.mode = Some("4755".to_owned());
    }
}

fn pattern(draft: &mut Draft) {
    let folder = draft.some_copy().0;
    let name = if draft.random.chance(60) {
        "libcupti.so.%d".to_owned()
    } else {
        format!("{folder}/libcupti.so.%d")
    };
    draft.program(opens(&name, Build::OpenPattern));
}

fn immediate(draft: &mut Draft) {
    let build = if draft.random.chance(60) {
        Build::OpenImmediate
    } else {
        Build::OpenBareImmediate
    };
    draft.program(opens("", build));
}

fn alias(draft: &mut Draft) {
    let file = draft.some_copy().2;
    draft.put(2, "/usr/lib/x86_64-linux-gnu/libprofiling.so", Content::Link(file));
    let name = draft
        .random
        .pick(&["libprofiling.so", "/usr/lib/x86_64-linux-gnu/libprofiling.so"])
        .to_owned();
    draft.program(opens(&name, Build::Open));
}

/// Removes all programs but the first, because the changed start only applies to that one.
pub fn leave_first(draft: &mut Draft) {
    for gone in draft.spec.processes.split_off(1) {
        for layer in &mut draft.spec.layers {
            layer.shift_remove(&gone.object);
        }
    }
}

/// Keeps one process; the config puts these words before its command.
fn start_by(draft: &mut Draft, before: Vec<String>) {
    leave_first(draft);
    let mut process = draft.spec.processes[0].clone();
    let program = process.command;
    if draft.random.chance(50) {
        draft.spec.entrypoint.clone_from(&before);
        draft.spec.cmd.clone_from(&program);
    } else {
        draft.spec.entrypoint = [before.clone(), program.clone()].concat();
    }
    process.command = [before, program].concat();
    draft.spec.processes = vec![process];
}

/// A folder with CUPTI, usually one that only the start of the process adds to the search path.
fn folder_of_start(draft: &mut Draft) -> String {
    if draft.random.chance(30) {
        return draft.some_copy().0;
    }
    let folder = "/opt/start/lib";
    draft.put(1, &format!("{folder}/libcupti.so.12"), cupti("libcupti.so.12"));
    folder.to_owned()
}

fn env_command(draft: &mut Draft) {
    let folder = folder_of_start(draft);
    let env = draft.random.pick(&["env", "/usr/bin/env"]).to_owned();
    let words = match draft.random.below(5) {
        0 => vec![env, format!("LD_PRELOAD={folder}/libcupti.so.12")],
        1 => vec![env, "-u".to_owned(), "LD_LIBRARY_PATH".to_owned()],
        2 => vec![env, "-i".to_owned(), format!("LD_LIBRARY_PATH={folder}")],
        _ => vec![env, format!("LD_LIBRARY_PATH={folder}"), "OTHER=1".to_owned()],
    };
    start_by(draft, words);
}

fn script(draft: &mut Draft) {
    let folder = folder_of_start(draft);
    let program = draft.spec.processes[0].command.join(" ");
    let body = match draft.random.below(7) {
        0 => format!("export LD_LIBRARY_PATH={folder}\nexec \"$@\"\n"),
        1 => format!("set -e\nLD_LIBRARY_PATH=\"{folder}:$LD_LIBRARY_PATH\"\nexport LD_LIBRARY_PATH\nexec \"$@\"\n"),
        2 => format!("LD_LIBRARY_PATH={folder} exec {program}\n"),
        3 => "unset LD_LIBRARY_PATH\nexec \"$@\"\n".to_owned(),
        4 => format!("export LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n\"$@\"\n"),
        5 => format!("if [ -d {folder} ]; then\n  export LD_LIBRARY_PATH={folder}\nfi\nexec \"$@\"\n"),
        _ => format!("FOLDER={folder}\nexport LD_LIBRARY_PATH=\"$FOLDER\"\nexec \"$@\"\n"),
    };
    if draft.random.chance(25) {
        let process = &mut draft.spec.processes[0];
        process.command = ["sh", "-c", &format!("LD_LIBRARY_PATH={folder} exec {program}")]
            .map(str::to_owned)
            .to_vec();
        draft.spec.entrypoint.clone_from(&process.command);
        leave_first(draft);
        return;
    }
    draft.put(2, "/entrypoint.sh", Content::Text(format!("#!/bin/sh\n{body}")));
    start_by(draft, vec!["/entrypoint.sh".to_owned()]);
}

/// Starts the image's program through another that changes the user, or leaves it with another effective user.
fn changed_user(draft: &mut Draft) {
    let folder = folder_of_start(draft);
    draft.env("LD_LIBRARY_PATH", &folder);
    let words = match draft.random.below(8) {
        0 => "setpriv --euid 1000",
        1 => "setpriv --egid=1500 --keep-groups",
        2 => "setpriv --ruid app",
        3 => "setpriv --reuid=1000 --regid=1000 --clear-groups",
        4 => "setpriv --reuid 1001 --regid 1001 --init-groups",
        5 => "setpriv --reuid=4242 --egid 1500 --clear-groups",
        _ => "/usr/local/bin/wrap",
    };
    let is_wrapper = words.starts_with('/');
    if is_wrapper {
        draft.user();
        let (mode, owner, capabilities) = *draft.random.one_of(&[
            ("4755", (0, 0), None),
            ("4755", (1001, 1001), None),
            ("2755", (0, 1500), None),
            ("755", (0, 0), None),
            // net_raw, which Docker keeps.
            ("755", (0, 0), Some("2000")),
        ]);
        let entry = draft.put(2, "/usr/local/bin/wrap", Content::Object(opens("", Build::Wrapper)));
        entry.mode = Some(mode.to_owned());
        entry.owner = owner;
        entry.capabilities = capabilities.map(str::to_owned);
    } else {
        draft.spec.user = None;
        if draft.random.chance(40) {
            let entry = draft.put(1, &folder, Content::Dir);
            entry.mode = Some("750".to_owned());
            entry.owner = (0, 1500);
        }
    }
    start_by(draft, words.split(' ').map(str::to_owned).collect());
}

/// A script that its user may execute, but whose shell may not be able to read it.
fn script_mode(draft: &mut Draft) {
    draft.user();
    let folder = folder_of_start(draft);
    let text = format!("#!/bin/sh\nexport LD_LIBRARY_PATH={folder}\nexec \"$@\"\n");
    let mode = draft
        .random
        .pick(&["711", "700", "744", "750", "755", "644", "111"])
        .to_owned();
    let owner = draft.random.weighted(&[(5, (0, 0)), (2, (1000, 1000)), (2, (0, 1500))]);
    let entry = draft.put(2, "/entrypoint.sh", Content::Text(text));
    entry.mode = Some(mode);
    entry.owner = owner;
    start_by(draft, vec!["/entrypoint.sh".to_owned()]);
}

/// Starts the program in another directory, with a relative name or search path.
fn directory(draft: &mut Draft) {
    let folder = folder_of_start(draft);
    let (above, last) = folder.rsplit_once('/').unwrap();
    let (above, last) = (above.to_owned(), last.to_owned());
    let is_name = draft.random.chance(50);
    if is_name {
        let soname = "libcupti.so.12";
        let name = draft
            .random
            .one_of(&[format!("{last}/{soname}"), format!("./{last}/{soname}")])
            .clone();
        let path = draft.program(opens(&name, Build::Open));
        let at = draft
            .spec
            .processes
            .iter()
            .position(|process| process.object == path)
            .unwrap();
        draft.spec.processes.swap(0, at);
    }
    let path = if is_name {
        String::new()
    } else {
        format!("export LD_LIBRARY_PATH={last}\n")
    };
    let program = draft.spec.processes[0].command.join(" ");
    draft.spec.working_dir = draft
        .random
        .one_of(&[None, Some("/srv".to_owned()), Some(above.clone())])
        .clone();
    let body = match draft.random.below(7) {
        0 => format!("cd {above}\n{path}exec \"$@\"\n"),
        1 => format!("{path}cd {above} && exec \"$@\"\n"),
        2 => format!("{path}cd {folder}/.. || exit 1\n\"$@\"\n"),
        3 => format!("{path}cd /srv\ncd -- \"$WHERE\"\nexec \"$@\"\n"),
        4 => format!("{path}(cd {above}; true)\nexec \"$@\"\n"),
        5 => format!("{path}[ -e /opt/gone ] || cd {above}\nexec {program}\n"),
        _ => String::new(),
    };
    draft.env("WHERE", &above);
    let goes = !body.contains("(cd");
    let words = if body.is_empty() {
        let mut words = ["env", "-C", &above].map(str::to_owned).to_vec();
        words.extend((!is_name).then(|| format!("LD_LIBRARY_PATH={last}")));
        words
    } else {
        draft.put(2, "/entrypoint.sh", Content::Text(format!("#!/bin/sh\n{body}")));
        vec!["/entrypoint.sh".to_owned()]
    };
    start_by(draft, words);
    draft.spec.processes[0].directory = Some(above).filter(|_| goes);
}

/// Loops that set the search path; `FOLDER` is replaced by a folder with CUPTI.
const LOOPS: [&str; 9] = [
    "while read -r line; do export \"$line\"; done < /etc/cupti.env\n",
    "for name in LD_LIBRARY_PATH LD_PRELOAD; do unset $name; done\n",
    "for name in $NAMES; do unset \"$name\"; done\n",
    "for folder in /opt/gone FOLDER; do LD_LIBRARY_PATH=$folder:$LD_LIBRARY_PATH; done\nexport LD_LIBRARY_PATH\n",
    "for folder in /opt/*/lib /srv/*/cupti; do\n  [ -d \"$folder\" ] && export LD_LIBRARY_PATH=$folder:$LD_LIBRARY_PATH\ndone\n",
    "i=0\nwhile [ $i -lt 2 ]; do i=$((i + 1)); LD_LIBRARY_PATH=FOLDER; done\nexport LD_LIBRARY_PATH\n",
    "for word in \"$@\"; do LD_LIBRARY_PATH=FOLDER; done\nexport LD_LIBRARY_PATH\n",
    "until [ -n \"$LD_LIBRARY_PATH\" ]; do export LD_LIBRARY_PATH=FOLDER; done\n",
    "for folder in a b; do [ $folder = b ] && break; unset LD_LIBRARY_PATH; done\n",
];

/// Other files that scripts read.
const READS: [&str; 7] = [
    ". /etc/cupti.env\nexport LD_LIBRARY_PATH\n",
    "set -a; . /etc/cupti.env; set +a\n",
    "[ -r /etc/cupti.env ] && . /etc/cupti.env\nexport LD_LIBRARY_PATH\n",
    "cd FOLDER\nexport LD_LIBRARY_PATH=$PWD\n",
    "cd FOLDER\nexport LD_LIBRARY_PATH=\"$(pwd):$LD_LIBRARY_PATH\"\n",
    "export LD_LIBRARY_PATH=~/cupti\n",
    "cd /srv\n. ./gone.env\nexport LD_LIBRARY_PATH=FOLDER\n",
];

/// Starts the program through a script with one of these texts.
fn script_of(draft: &mut Draft, texts: &[&str]) {
    let folder = folder_of_start(draft);
    if draft.random.chance(50) {
        let path = draft.some_copy().0;
        draft.env("LD_LIBRARY_PATH", &path);
    }
    draft.env("NAMES", "LD_LIBRARY_PATH");
    let text = draft.random.one_of(texts).replace("FOLDER", &folder);
    draft.put(
        2,
        "/etc/cupti.env",
        Content::Text(format!("LD_LIBRARY_PATH={folder}\n")),
    );
    if draft.random.chance(25) {
        draft.user();
        let entry = draft.put(
            2,
            "/etc/cupti.env",
            Content::Text(format!("LD_LIBRARY_PATH={folder}\n")),
        );
        entry.mode = Some("640".to_owned());
    }
    draft.put(
        2,
        "/entrypoint.sh",
        Content::Text(format!("#!/bin/sh\n{text}exec \"$@\"\n")),
    );
    start_by(draft, vec!["/entrypoint.sh".to_owned()]);
}

fn sourced(draft: &mut Draft) {
    if draft.random.chance(60) {
        return script_of(draft, &READS);
    }
    let folder = folder_of_start(draft);
    let parts = "for part in /etc/profile.d/*.sh; do\n  if [ -r $part ]; then . $part; fi\ndone\nunset part\n";
    let profile = match draft.random.below(3) {
        0 => format!("export LD_LIBRARY_PATH={folder}\n"),
        1 => format!("if [ \"$(id -u)\" -eq 0 ]; then\n  export LD_LIBRARY_PATH={folder}\nfi\n"),
        _ => parts.to_owned(),
    };
    draft.put(2, "/etc/profile", Content::Text(profile));
    let part = format!("export LD_LIBRARY_PATH={folder}\n");
    draft.put(2, "/etc/profile.d/cupti.sh", Content::Text(part));
    if draft.random.chance(50) {
        draft.user();
    }
    leave_first(draft);
    let process = &mut draft.spec.processes[0];
    let program = process.command.join(" ");
    let option = draft.random.pick(&["-lc", "-c"]);
    process.command = ["sh", option, &format!("exec {program}")].map(str::to_owned).to_vec();
    draft.spec.entrypoint.clone_from(&process.command);
}

/// Programs that open CUPTI in a new link-map list, where objects that are already mapped do not count.
fn namespace(draft: &mut Draft) {
    if draft.random.chance(40) {
        let file = "/opt/start/lib/libcupti.so.12";
        draft.put(1, file, cupti("libcupti.so.12"));
        draft.env("LD_PRELOAD", file);
    }
    another_build(draft, Build::OpenNamespace);
}

fn another_build(draft: &mut Draft, build: Build) {
    for _ in 0..=draft.random.below(2) {
        let (folder, soname, _) = draft.some_copy();
        let name = if draft.random.chance(70) {
            draft.soname()
        } else {
            format!("{folder}/{soname}")
        };
        let mut object = opens(&name, build);
        if draft.random.chance(40) && build == Build::OpenNamespace {
            object.runpath = Some(folder);
        }
        draft.program(object);
    }
}

fn damage(draft: &mut Draft) {
    let file = draft.some_copy().2;
    let number = *draft.random.one_of(&[0, 1, 2, 3, 40, 183, 0xff00]);
    let damage = match draft.random.below(6) {
        0 => Damage::Cut(draft.random.below(1000)),
        1 => Damage::NoDynamic,
        2 => Damage::Type(number),
        3 => Damage::Machine(number),
        4 => Damage::Version(u8::try_from(number % 256).unwrap()),
        _ => Damage::Abi(u8::try_from(number % 256).unwrap()),
    };
    if let Some(entry) = draft.spec.layers[0].get_mut(&file)
        && let Content::Object(object) = &mut entry.is
    {
        object.damage = Some(damage);
    }
}
