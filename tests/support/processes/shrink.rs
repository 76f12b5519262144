//! Makes an image smaller as long as a run refutes the same kind of claim.

use super::spec::{Content, EntrySpec, ImageSpec};

/// How often a case is tried, at most.
const TRIES: usize = 200;

/// The smallest image that is found on which `differs` holds.
pub fn shrink(mut spec: ImageSpec, differs: impl Fn(&ImageSpec) -> bool) -> ImageSpec {
    let (mut tries, mut at, mut since_last) = (0, 0, 0);
    loop {
        let smaller = smaller(&spec);
        if since_last >= smaller.len() || tries >= TRIES {
            return spec;
        }
        at %= smaller.len();
        tries += 1;
        if differs(&smaller[at]) {
            spec = smaller[at].clone();
            since_last = 0;
        } else {
            at += 1;
            since_last += 1;
        }
    }
}

/// The image with one thing less, for each thing; the larger ones first.
fn smaller(spec: &ImageSpec) -> Vec<ImageSpec> {
    let mut all = Vec::new();
    let mut push = |change: &dyn Fn(&mut ImageSpec)| {
        let mut changed = spec.clone();
        change(&mut changed);
        changed.layers.retain(|layer| !layer.is_empty());
        if changed != *spec {
            all.push(changed);
        }
    };
    for nth in 0..spec.processes.len() {
        if spec.processes.len() > 1 {
            push(&|spec| {
                let kept = spec.processes.remove(nth);
                // A program that nobody starts is in nobody's way.
                for gone in std::mem::replace(&mut spec.processes, vec![kept]) {
                    remove(spec, &gone.object);
                }
            });
            push(&|spec| {
                let gone = spec.processes.remove(nth);
                remove(spec, &gone.object);
            });
        }
    }
    for nth in 0..spec.layers.len() {
        push(&|spec| drop(spec.layers.remove(nth)));
    }
    for change in wholes() {
        push(&change);
    }
    for nth in 0..spec.env.len() {
        push(&|spec| drop(spec.env.remove(nth)));
        for value in less(&spec.env[nth]) {
            push(&|spec| spec.env[nth].clone_from(&value));
        }
    }
    for (layer, entries) in spec.layers.iter().enumerate() {
        for (path, entry) in entries {
            push(&|spec| drop(spec.layers[layer].shift_remove(path)));
            for entry in less_of(entry) {
                push(&|spec| drop(spec.layers[layer].insert(path.clone(), entry.clone())));
            }
        }
    }
    all
}

fn remove(spec: &mut ImageSpec, path: &str) {
    for layer in &mut spec.layers {
        layer.shift_remove(path);
    }
}

/// What is left out as a whole.
fn wholes() -> [fn(&mut ImageSpec); 5] {
    [
        |spec| spec.user = None,
        |spec| spec.working_dir = None,
        |spec| spec.env.clear(),
        |spec| spec.python = false,
        |spec| {
            spec.entrypoint.clear();
            spec.cmd.clone_from(&spec.processes[0].command);
        },
    ]
}

/// A variable with an element less, for each element of a list.
fn less(variable: &str) -> Vec<String> {
    let (key, value) = variable.split_once('=').unwrap();
    let elements: Vec<&str> = value.split(':').collect();
    let without = |nth: usize| {
        let mut rest = elements.clone();
        rest.remove(nth);
        format!("{key}={}", rest.join(":"))
    };
    if elements.len() > 1 {
        (0..elements.len()).map(without).collect()
    } else {
        Vec::new()
    }
}

fn less_of(entry: &EntrySpec) -> Vec<EntrySpec> {
    let mut all = Vec::new();
    let mut push = |change: &dyn Fn(&mut EntrySpec)| {
        let mut changed = entry.clone();
        change(&mut changed);
        if changed != *entry {
            all.push(changed);
        }
    };
    push(&|entry| entry.mode = None);
    push(&|entry| entry.owner = (0, 0));
    push(&|entry| entry.capabilities = None);
    push(&|entry| {
        if let Content::Object(object) = &mut entry.is {
            object.rpath = None;
        }
    });
    push(&|entry| {
        if let Content::Object(object) = &mut entry.is {
            object.runpath = None;
        }
    });
    push(&|entry| {
        if let Content::Object(object) = &mut entry.is {
            object.damage = None;
        }
    });
    all
}
