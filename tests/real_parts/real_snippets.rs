//! Runs the code of `advise --snippet` with the real JAX, and in `make test-all` with PyTorch and TensorFlow.

use std::path::Path;
use std::process::{Command, Output};

use crate::session::Session;

/// Runs a snippet around a training, and prints the steps in its trace.
const RUN: &str = include_str!("../support/snippet_run.py");

const FRAMEWORKS: [&str; 3] = ["jax", "pytorch", "tensorflow"];

fn snippet(framework: &str) -> String {
    let output = crate::support::run(&["advise", "--snippet", framework]);
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that the trace has the recorded steps, for a training that ends in the middle and for one that goes on.
fn check(framework: &str, start: impl Fn(&[&str]) -> Output) {
    let code = snippet(framework);
    for (last, steps) in [("3", "2 3"), ("7", "2 3 4")] {
        let output = start(&["-B", "-c", RUN, framework, &code, last]);
        let said = String::from_utf8_lossy(&output.stdout);
        let problems = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, format!("steps {steps} in /gcs/bucket/job/logs/\n"), "{problems}");
    }
    println!("{framework} records the steps that its snippet says");
}

fn check_in_environment(name: &str, framework: &str) {
    let Some(root) = crate::support::environment(name) else {
        return;
    };
    if !crate::session::is_allowed() {
        return;
    }
    check(framework, |words| {
        let folder = tempfile::tempdir().unwrap();
        let session = Session {
            root: &root,
            lent: Some(folder.path()),
            hidden: &[],
        };
        let python = ["HOME=/root", "PATH=/opt/venv/bin:/usr/bin:/bin", "/opt/venv/bin/python"];
        session
            .command(&[&python[..], words, &["/mnt"]].concat())
            .output()
            .unwrap()
    });
}

fn host_python(words: &[&str], packages: &Path) -> Output {
    let mut command = Command::new("python3");
    command.args(words).env("PYTHONPATH", packages).output().unwrap()
}

#[test]
fn every_snippet_is_python() {
    if !crate::support::have("python3", "python3") {
        return;
    }
    for framework in FRAMEWORKS {
        let parse = ["-c", "import ast, sys; ast.parse(sys.argv[1])", &snippet(framework)];
        let output = host_python(&parse, Path::new(""));
        assert!(output.status.success(), "{framework}: {output:?}");
    }
}

#[test]
fn jax_records_the_steps_of_its_snippet() {
    let Some(packages) = crate::support::part("jax") else {
        return;
    };
    check("jax", |words| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        host_python(&[words, &[folder]].concat(), &packages)
    });
}

#[test]
fn torch_records_the_steps_of_its_snippet() {
    check_in_environment("torch", "pytorch");
}

#[test]
fn tensorflow_records_the_steps_of_its_snippet() {
    check_in_environment("tensorflow-2.21", "tensorflow");
}
