//! Compares reports on images that have a user with the credentials of the real process.
//!
//! Each image is read from a tar with owners, modes and capabilities, and a config with a user and an environment.
//! Every program then runs as that user, in a chroot and in a real engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cupti_audit::facts::{CuptiStatus, ImageFacts, RequestOutcome};
use image_source::find_user;

use crate::credential_images::{CASES, Case, Compiled, GROUP, PASSWD, PROGRAMS, facts, tar};
use crate::docker::Dockerd;
use crate::support::{have_all, is_root};

/// The programs that get CUPTI according to the audit.
fn ours(facts: &ImageFacts) -> BTreeMap<String, bool> {
    let gets = facts.consumers.iter().map(|consumer| {
        let gets = &consumer.outcome.as_is;
        let is_served = gets.outcome == RequestOutcome::Loaded && gets.other_failures.is_empty();
        (consumer.name.clone(), is_served)
    });
    gets.chain([("plain".to_owned(), facts.status.as_is == CuptiStatus::Loadable)])
        .collect()
}

fn expected(case: &Case) -> BTreeMap<String, bool> {
    let programs = PROGRAMS.into_iter().chain(["plain"]);
    let gets = |name: &str| case.gets.split(' ').any(|gets| gets == name);
    programs.map(|name| (name.to_owned(), gets(name))).collect()
}

#[test]
fn each_program_gets_what_the_users_own_process_gets() {
    if !is_root() || !have_all(&[("gcc", "gcc"), ("setcap", "libcap2-bin")]) {
        return;
    }
    let compiled = Compiled::new();
    for case in &CASES {
        let root = compiled.root(case);
        let facts = facts(case, root.path());
        let expected = expected(case);
        assert_eq!(compiled.real(case, root.path()), expected, "really: {}", case.what);
        assert_eq!(ours(&facts), expected, "our word: {}", case.what);
    }
    println!(
        "{} programs in {} images run as their users",
        CASES.len() * 5,
        CASES.len()
    );
}

#[test]
fn the_reason_is_said() {
    if !is_root() || !have_all(&[("gcc", "gcc"), ("setcap", "libcap2-bin")]) {
        return;
    }
    let compiled = Compiled::new();
    let said = |what: &str| {
        let case = CASES.iter().find(|case| case.what == what).unwrap();
        let facts = facts(case, compiled.root(case).path());
        let messages = facts
            .consumers
            .iter()
            .map(|consumer| consumer.outcome.as_is.message.clone());
        messages.filter(|message| !message.is_empty()).collect::<Vec<_>>()
    };
    let missing = "libcupti.so.12: cannot open shared object file: No such file or directory";
    let closed = "permission denied: /opt is 0700 of 0:0, and the process runs as app (1000:1000) in the group 44";
    assert_eq!(said("closed folder above"), vec![format!("{missing} ({closed})"); 4]);
    let secure = "the program runs setuid as user 0 (secure execution)";
    let expected = [
        format!("{missing} (LD_LIBRARY_PATH is ignored: {secure})"),
        format!("{missing} ({closed})"),
        format!("{missing} (LD_LIBRARY_PATH is ignored: {secure})"),
    ];
    assert_eq!(said("setuid as root"), expected);
}

#[test]
fn an_engine_gives_its_containers_the_same() {
    let Some(engine) = Dockerd::start() else { return };
    if !have_all(&[("gcc", "gcc"), ("setcap", "libcap2-bin")]) {
        return;
    }
    let compiled = Compiled::new();
    for case in &CASES {
        let root = compiled.root(case);
        fs::copy(compiled.path("plain"), root.path().join("app/plain")).unwrap();
        let each = root.path().join("app/each");
        fs::copy(compiled.path("each"), each).unwrap();
        let file = engine.dir().join("image.tar");
        fs::write(&file, tar(root.path())).unwrap();
        let mut import = vec!["import".to_owned()];
        let user = Some(format!("USER {}", case.user.0)).filter(|_| !case.user.0.is_empty());
        let changes = case.env.iter().map(|pair| format!("ENV {pair}")).chain(user);
        import.extend(changes.flat_map(|change| ["--change".to_owned(), change]));
        import.extend([file.to_string_lossy().into_owned(), "case:t".to_owned()]);
        engine.must(&import.iter().map(String::as_str).collect::<Vec<_>>());
        let said = engine.must(&["run", "--rm", "--network", "none", "case:t", "/app/each"]);
        let gets = said.lines().filter_map(|line| line.split_once(' '));
        let gets: BTreeMap<String, bool> = gets.map(|(name, status)| (name.to_owned(), status == "0")).collect();
        assert_eq!(gets, expected(case), "{}", case.what);
    }
    println!("{} images run by a real engine as their users", CASES.len());
}

#[test]
fn an_engine_starts_its_containers_as_the_same_users() {
    let Some(engine) = Dockerd::start() else { return };
    if !have_all(&[("gcc", "gcc"), ("tar", "tar")]) {
        return;
    }
    let compiled = Compiled::new();
    let passwd = format!("{PASSWD}  odd:x:x:7::/:/\n77:x:78:79::/:/\n");
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/passwd"), &passwd).unwrap();
    fs::write(root.path().join("etc/group"), GROUP).unwrap();
    fs::copy(compiled.path("who"), root.path().join("who")).unwrap();
    let file = engine.dir().join("image.tar");
    fs::write(&file, tar(root.path())).unwrap();
    engine.must(&["import", &file.to_string_lossy(), "who:t"]);
    let specs = [
        "root",
        "app",
        "1000",
        "+1000",
        "app:",
        "app:video",
        "app:9",
        ":video",
        "1000:44",
        "0:5",
        "2000",
        "2000:2000",
        "77",
        "odd",
        "nobody",
        "app:none",
        "-1",
        "99999999999",
    ];
    for spec in specs {
        let output = engine.docker(&["run", "--rm", "--network", "none", "--user", spec, "who:t", "/who"]);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let numbers = |text: &str| {
            text.split_whitespace()
                .map(|word| word.parse().unwrap())
                .collect::<Vec<u32>>()
        };
        match find_user(spec, passwd.as_bytes(), GROUP.as_bytes()) {
            Ok(user) => {
                let real = numbers(&out);
                assert_eq!(real[..2], [user.uid, user.gid], "{spec}: {err}");
                // Newer engines also list the user's own group as a supplementary group.
                let all = |gid: u32, groups: &[u32]| groups.iter().copied().chain([gid]).collect::<BTreeSet<u32>>();
                assert_eq!(all(real[1], &real[2..]), all(user.gid, &user.groups), "{spec}");
            }
            Err(why) => assert!(err.contains(&why) && !output.status.success(), "{spec}: {why} {err}"),
        }
    }
    println!("{} users as a real engine finds them", specs.len());
}
