//! Whole images with a user: does a report say what he really gets?
//!
//! Each image is a root with a stub of CUPTI and programs compiled here. It is read from a tar with its owners, modes
//! and capabilities, with the user and the environment of a config; then every program is run in it as that user.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is the real loader, run in a root; tests may panic"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use cupti_audit::judge::facts::{self, CuptiStatus, GatherOptions, ImageFacts, ReadLayers, RequestOutcome};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::CpuLevel;
use image_source::{Image, ImageConfig, LayerDescriptor, Platform, SourceKind};
use testkit::parts;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
const GROUP: &str = "root:x:0:\napp:x:1000:\nvideo:x:44:other,app\n";

/// A user as the config names him, and who he is.
struct User(&'static str, u32, u32, &'static str);

const ROOT: User = User("", 0, 0, "0");
const APP: User = User("app", 1000, 1000, "44");
/// The explicit form has no supplementary groups.
const APP_ALONE: User = User("1000:1000", 1000, 1000, "-");

/// One image: owners and modes of what differs, and the attributes of programs.
struct Case {
    what: &'static str,
    user: User,
    env: &'static [&'static str],
    /// Paths with owner, group and mode.
    access: &'static [(&'static str, u32, u32, u32)],
    capabilities: &'static [(&'static str, &'static str)],
    /// Where libcupti lies.
    at: &'static str,
    /// Which of the programs get it, and whether a plain dlopen does.
    gets: &'static str,
}

/// Below `/app`: linked, with a `DT_RUNPATH` of `/opt/cupti`, with one of `$ORIGIN/../opt/cupti`, opening by name.
const PROGRAMS: [&str; 4] = ["linked", "runpath", "origin", "opens"];
const LIBRARY: &str = "LD_LIBRARY_PATH=/opt/cupti";
const AT: &str = "/opt/cupti/libcupti.so.12";

const CASES: [Case; 14] = [
    Case {
        what: "root gets to all",
        user: ROOT,
        env: &[LIBRARY],
        access: &[("/opt", 1, 1, 0o700), (AT, 1, 1, 0)],
        capabilities: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "everything open",
        user: APP,
        env: &[LIBRARY],
        access: &[],
        capabilities: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "no environment",
        user: APP,
        env: &[],
        access: &[],
        capabilities: &[],
        at: AT,
        gets: "runpath origin",
    },
    Case {
        what: "closed folder above",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt", 0, 0, 0o700)],
        capabilities: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "folder to be listed alone",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt/cupti", 0, 0, 0o744)],
        capabilities: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "folder to be passed alone",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt", 0, 0, 0o711)],
        capabilities: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "file without a mode",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0)],
        capabilities: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "file of a supplementary group",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 44, 0o640)],
        capabilities: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "the same without the group",
        user: APP_ALONE,
        env: &[LIBRARY],
        access: &[(AT, 0, 44, 0o640)],
        capabilities: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "default folder, cached",
        user: APP,
        env: &[],
        access: &[("/usr/lib/libcupti.so.12", 0, 0, 0o600)],
        capabilities: &[],
        at: "/usr/lib/libcupti.so.12",
        gets: "",
    },
    Case {
        what: "setuid as root",
        user: APP,
        env: &[LIBRARY],
        access: &[
            ("/app/linked", 0, 0, 0o4755),
            ("/app/runpath", 0, 0, 0o4755),
            ("/app/origin", 0, 0, 0o4755),
            ("/opt", 0, 0, 0o700),
        ],
        capabilities: &[],
        at: AT,
        gets: "runpath",
    },
    Case {
        what: "setgid and capabilities",
        user: APP,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 44, 0o2755), ("/app/origin", 0, 1000, 0o2755)],
        capabilities: &[("opens", "cap_sys_admin=ep"), ("runpath", "cap_net_raw=p")],
        at: AT,
        gets: "runpath origin plain",
    },
    Case {
        what: "root is not made secure",
        user: ROOT,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 0, 0o4755)],
        capabilities: &[("opens", "cap_sys_admin=ep")],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "a program that may not be executed",
        user: APP,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 0, 0o744), ("/app/opens", 0, 0, 0o700)],
        capabilities: &[],
        at: AT,
        gets: "runpath origin plain",
    },
];

const OPENS: &str = "#include <dlfcn.h>\nint main(void) { return dlopen(\"libcupti.so.12\", RTLD_NOW) ? 0 : 9; }\n";
const LINKED: &str = "int cuptiActivityEnable(int);\nint main(void) { return cuptiActivityEnable(0); }\n";
const CUPTI: &str = "int cuptiActivityEnable(int kind) { return kind; }\n";

/// A folder with what was compiled.
struct Compiled(tempfile::TempDir);

impl Compiled {
    fn new() -> Self {
        let compiled = Self(tempfile::tempdir().unwrap());
        let cupti = compiled.build(
            "libcupti.so.12",
            CUPTI,
            &["-shared", "-fPIC", "-Wl,-soname,libcupti.so.12"],
        );
        let cupti = cupti.to_str().unwrap();
        compiled.build("linked", LINKED, &[cupti]);
        compiled.build("runpath", LINKED, &[cupti, "-Wl,--enable-new-dtags,-rpath,/opt/cupti"]);
        compiled.build(
            "origin",
            LINKED,
            &[cupti, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../opt/cupti"],
        );
        compiled.build("opens", OPENS, &[]);
        compiled.build("plain", OPENS, &[]);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/image-linkage/testdata/loader/as_user.c");
        compiled.build("as_user", &fs::read_to_string(source).unwrap(), &["-static"]);
        compiled
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let text = self.path("source.c");
        fs::write(&text, source).unwrap();
        let to = self.path(name);
        succeed(Command::new("gcc").args(["-O1", "-o"]).arg(&to).arg(text).args(flags));
        to
    }

    fn root(&self, case: &Case) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path.trim_start_matches('/'));
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in [
            "app",
            "etc",
            "lib64",
            "lib/x86_64-linux-gnu",
            "opt/cupti",
            "proc/self",
            "usr/lib",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for own in ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"] {
            fs::copy(own, at(own)).unwrap();
        }
        fs::write(at("etc/passwd"), PASSWD).unwrap();
        fs::write(at("etc/group"), GROUP).unwrap();
        fs::copy(self.path("libcupti.so.12"), at(case.at)).unwrap();
        for program in PROGRAMS {
            fs::copy(self.path(program), at("app").join(program)).unwrap();
        }
        succeed(Command::new("/sbin/ldconfig").arg("-r").arg(root.path()));
        for (path, uid, gid, mode) in case.access {
            chown(at(path), Some(*uid), Some(*gid)).unwrap();
            fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)).unwrap();
        }
        for (program, capabilities) in case.capabilities {
            succeed(Command::new("setcap").arg(capabilities).arg(at("app").join(program)));
        }
        root
    }

    /// Which programs really get it.
    fn real(&self, case: &Case, root: &Path) -> BTreeMap<String, bool> {
        let User(_, uid, gid, groups) = case.user;
        // It belongs to no image: a process without search paths of its own.
        fs::copy(self.path("plain"), root.join("app/plain")).unwrap();
        let run = |program: &str| {
            let exe = root.join("proc/self/exe");
            let _ = fs::remove_file(&exe);
            std::os::unix::fs::symlink(format!("/app/{program}"), exe).unwrap();
            let mut command = Command::new(self.path("as_user"));
            command
                .arg(root)
                .args([uid.to_string(), gid.to_string(), groups.to_owned()]);
            command
                .arg(case.env.len().to_string())
                .args(case.env)
                .arg(format!("/app/{program}"));
            command.output().unwrap().status.success()
        };
        let programs = PROGRAMS.into_iter().chain(["plain"]);
        programs.map(|program| (program.to_owned(), run(program))).collect()
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn facts(case: &Case, root: &Path) -> ImageFacts {
    let mut tar = Command::new("tar");
    tar.args([
        "--format=posix",
        "--numeric-owner",
        "--xattrs",
        "--xattrs-include=security.capability",
    ]);
    let output = tar
        .args(["--exclude=./proc", "-C"])
        .arg(root)
        .args(["-cf", "-", "."])
        .output()
        .unwrap();
    assert!(output.status.success());
    let index = index_layer("root", &*output.stdout, &ExpectedBlob::default(), &cupti_options()).unwrap();
    let pairs = case.env.iter().map(|pair| image_source::split_env(pair));
    let image = Image {
        reference: "case".to_owned(),
        source: SourceKind::Oci,
        digest: None,
        platform: Platform::parse("linux/amd64").unwrap(),
        config: ImageConfig {
            env: pairs.collect(),
            user: Some(case.user.0.to_owned()).filter(|user| !user.is_empty()),
            ..ImageConfig::default()
        },
        layers: vec![LayerDescriptor {
            digest: None,
            diff_id: None,
            media_type: "tar".to_owned(),
            size: None,
            created_by: None,
        }],
    };
    let conditions = GatherOptions {
        environment: Vec::new(),
        cpu: CpuLevel::V1,
    };
    let layers = vec![Ok(index)];
    facts::gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
}

/// Which programs get it by our word.
fn ours(facts: &ImageFacts) -> BTreeMap<String, bool> {
    let gets = facts.consumers.iter().map(|consumer| {
        let gets = &consumer.outcome.as_is;
        let is_served = gets.outcome == RequestOutcome::Loaded && gets.other_failures.is_empty();
        (consumer.name.clone(), is_served)
    });
    gets.chain([("plain".to_owned(), facts.status.as_is == CuptiStatus::Loadable)])
        .collect()
}

#[test]
fn each_program_gets_what_the_users_own_process_gets() {
    if !parts::is_root() || !parts::have_all(&[("gcc", "gcc"), ("setcap", "libcap2-bin")]) {
        return;
    }
    let compiled = Compiled::new();
    for case in &CASES {
        let root = compiled.root(case);
        let facts = facts(case, root.path());
        let expected = PROGRAMS.into_iter().chain(["plain"]);
        let expected = expected.map(|name| (name.to_owned(), case.gets.split(' ').any(|gets| gets == name)));
        let expected: BTreeMap<String, bool> = expected.collect();
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
    if !parts::is_root() || !parts::have_all(&[("gcc", "gcc"), ("setcap", "libcap2-bin")]) {
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
