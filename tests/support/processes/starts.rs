//! Failures before a program's own code runs: undefined symbols, and files that the kernel does not execute.

use super::features::{leave_first, more_library};
use super::generate::{Draft, object};
use super::spec::{Build, Content, Damage, ObjectSpec};

/// Programs with a defined or undefined function or variable; functions are bound lazily or at once.
pub fn unbound_program(draft: &mut Draft) {
    let build = *draft.random.one_of(&[Build::MoreData, Build::More, Build::Empty]);
    more_library(draft);
    draft.put(0, "/opt/more/lib/libmore.so.1", object(build, "libmore.so.1"));
    for _ in 0..=draft.random.below(3) {
        let mut program = draft.asks_by_name();
        let kinds = match program.build {
            Build::Link => [Build::LinkMore, Build::LinkData],
            _ => [Build::OpenMore, Build::OpenData],
        };
        program.build = *draft.random.one_of(&kinds);
        let path = program.rpath.take().or(program.runpath.take());
        let path = path.map_or("/opt/more/lib".to_owned(), |path| format!("{path}:/opt/more/lib"));
        program.runpath = Some(path);
        draft.program(program);
    }
    if draft.random.chance(35) {
        let value = draft.random.pick(&["1", "0", ""]).to_owned();
        draft.env("LD_BIND_NOW", &value);
    }
    if draft.random.chance(20) {
        draft.put(0, "/opt/preload.so", object(Build::UnboundData, ""));
        draft.env("LD_PRELOAD", "/opt/preload.so");
    }
}

/// A program for another processor, or an object of another kind.
pub fn foreign(damage: Damage) -> Content {
    Content::Object(ObjectSpec {
        build: Build::Open,
        name: "libnothing.so".to_owned(),
        damage: Some(damage),
        ..ObjectSpec::default()
    })
}

/// Makes the command a folder, an empty file, a truncated object, one for another processor, or a loader's argument.
pub fn command_kind(draft: &mut Draft) {
    leave_first(draft);
    let kind = draft.random.below(10);
    let program = draft.spec.processes[0].command[0].clone();
    if kind < 3 {
        let loader = "/lib64/ld-linux-x86-64.so.2".to_owned();
        draft.spec.processes[0].command.insert(0, loader);
        if kind < 2 {
            draft.user();
            let mode = draft.random.pick(&["644", "755", "4755"]).to_owned();
            let entry = &mut draft.spec.layers[1][&program];
            entry.capabilities = Some("2000".to_owned());
            entry.mode = Some(mode);
        }
    } else {
        let at = "/opt/command";
        let is = match kind {
            3 => Content::Dir,
            4 => Content::Text(String::new()),
            5 => foreign(Damage::Type(1)),
            6 => foreign(Damage::Machine(183)),
            7 => foreign(Damage::Cut(draft.random.below(30))),
            _ => foreign(Damage::Cut(draft.random.below(900))),
        };
        draft.put(1, at, is).mode = Some("755".to_owned());
        let process = &mut draft.spec.processes[0];
        at.clone_into(&mut process.object);
        process.command = vec![at.to_owned()];
        draft.spec.layers[1].shift_remove(&program);
    }
    draft.spec.cmd.clone_from(&draft.spec.processes[0].command);
}
