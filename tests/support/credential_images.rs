//! Images with users, owners, modes and capabilities: a root with a stub of CUPTI and compiled programs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use cupti_audit::facts::{self, GatherOptions, ImageFacts, ReadLayers, StartOverrides};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::CpuLevel;
use image_source::{Image, ImageConfig, LayerDescriptor, Platform, SourceKind};

pub const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
pub const GROUP: &str = "root:x:0:\napp:x:1000:\nvideo:x:44:other,app\n";

/// The tag, permission bits and ID of an access list entry.
pub type ListEntry = (u16, u16, u32);

/// A user as in the config, then the real UID, GID and supplementary groups.
pub struct User(pub &'static str, pub u32, pub u32, pub &'static str);

const ROOT: User = User("", 0, 0, "0");
const APP: User = User("app", 1000, 1000, "44");
/// A numeric user with a group has no supplementary groups.
const APP_ALONE: User = User("1000:1000", 1000, 1000, "-");

/// An image: differing owners and modes, and the programs' attributes.
pub struct Case {
    pub what: &'static str,
    pub user: User,
    pub env: &'static [&'static str],
    /// Paths with owner, group and mode.
    pub access: &'static [(&'static str, u32, u32, u32)],
    pub capabilities: &'static [(&'static str, &'static str)],
    /// Paths with their access lists, without the owner's entry: tag, bits and ID.
    pub lists: &'static [(&'static str, &'static [ListEntry])],
    /// The path of libcupti.
    pub at: &'static str,
    /// The programs that get it, and whether a plain dlopen does.
    pub gets: &'static str,
}

/// The programs in `/app`: one links CUPTI, one has a `DT_RUNPATH` of `/opt/cupti`, one of `$ORIGIN/../opt/cupti`, and
/// one opens it by name.
pub const PROGRAMS: [&str; 4] = ["linked", "runpath", "origin", "opens"];
const LIBRARY: &str = "LD_LIBRARY_PATH=/opt/cupti";
/// The ID in entries without a user or group.
const NOBODY: u32 = u32::MAX;
const AT: &str = "/opt/cupti/libcupti.so.12";

pub const CASES: [Case; 20] = [
    Case {
        what: "root gets to all",
        user: ROOT,
        env: &[LIBRARY],
        access: &[("/opt", 1, 1, 0o700), (AT, 1, 1, 0)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "everything open",
        user: APP,
        env: &[LIBRARY],
        access: &[],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "no environment",
        user: APP,
        env: &[],
        access: &[],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "runpath origin",
    },
    Case {
        what: "closed folder above",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt", 0, 0, 0o700)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "folder to be listed alone",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt/cupti", 0, 0, 0o744)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "folder to be passed alone",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt", 0, 0, 0o711)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "file without a mode",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "file of a supplementary group",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 44, 0o640)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "the same without the group",
        user: APP_ALONE,
        env: &[LIBRARY],
        access: &[(AT, 0, 44, 0o640)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "",
    },
    Case {
        what: "default folder, cached",
        user: APP,
        env: &[],
        access: &[("/usr/lib/libcupti.so.12", 0, 0, 0o600)],
        capabilities: &[],
        lists: &[],
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
        lists: &[],
        at: AT,
        gets: "runpath",
    },
    Case {
        what: "setgid and capabilities",
        user: APP,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 44, 0o2755), ("/app/origin", 0, 1000, 0o2755)],
        capabilities: &[("opens", "cap_sys_admin=ep"), ("runpath", "cap_net_raw=p")],
        lists: &[],
        at: AT,
        gets: "runpath origin plain",
    },
    Case {
        what: "root is not made secure",
        user: ROOT,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 0, 0o4755)],
        capabilities: &[("opens", "cap_net_raw=ep")],
        lists: &[],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "capabilities that no container has",
        user: APP,
        env: &[LIBRARY],
        access: &[],
        capabilities: &[("linked", "cap_perfmon=ep"), ("opens", "cap_sys_admin=p")],
        lists: &[],
        at: AT,
        gets: "runpath origin opens plain",
    },
    Case {
        what: "a program that may not be executed",
        user: APP,
        env: &[LIBRARY],
        access: &[("/app/linked", 0, 0, 0o744), ("/app/opens", 0, 0, 0o700)],
        capabilities: &[],
        lists: &[],
        at: AT,
        gets: "runpath origin plain",
    },
    Case {
        what: "a list that lets the user read",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0o640), ("/opt/cupti", 0, 0, 0o750)],
        capabilities: &[],
        lists: &[
            (AT, &[(2, 4, 1000), (4, 0, NOBODY), (16, 4, NOBODY)]),
            ("/opt/cupti", &[(2, 5, 1000), (4, 0, NOBODY), (16, 5, NOBODY)]),
        ],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "a list whose mask leaves nothing to read",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0o610)],
        capabilities: &[],
        lists: &[(AT, &[(2, 4, 1000), (4, 4, NOBODY), (16, 1, NOBODY)])],
        at: AT,
        gets: "",
    },
    Case {
        what: "a list that keeps the user out of a folder",
        user: APP,
        env: &[LIBRARY],
        access: &[("/opt", 0, 0, 0o755)],
        capabilities: &[],
        lists: &[("/opt", &[(2, 0, 1000), (4, 5, NOBODY), (16, 5, NOBODY)])],
        at: AT,
        gets: "",
    },
    Case {
        what: "a list that names a supplementary group",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0o640)],
        capabilities: &[],
        lists: &[(AT, &[(4, 0, NOBODY), (8, 4, 44), (16, 4, NOBODY)])],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
    Case {
        what: "the others, where the mask is empty",
        user: APP,
        env: &[LIBRARY],
        access: &[(AT, 0, 0, 0o604)],
        capabilities: &[],
        lists: &[(AT, &[(2, 0, 1000), (4, 0, NOBODY), (16, 0, NOBODY)])],
        at: AT,
        gets: "linked runpath origin opens plain",
    },
];

const OPENS: &str = "#include <dlfcn.h>\nint main(void) { return dlopen(\"libcupti.so.12\", RTLD_NOW) ? 0 : 9; }\n";
const LINKED: &str = "int cuptiActivityEnable(int);\nint main(void) { return cuptiActivityEnable(0); }\n";
const CUPTI: &str = "int cuptiActivityEnable(int kind) { return kind; }\n";

/// Runs every program like a container's process, and prints its exit status.
const EACH: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    const char *names[] = {"linked", "runpath", "origin", "opens", "plain"};
    for (int at = 0; at < 5; at++) {
        char path[32];
        int status = 0;
        snprintf(path, sizeof path, "/app/%s", names[at]);
        if (!fork()) {
            execl(path, path, (char *)0);
            _exit(120);
        }
        wait(&status);
        printf("%s %d\n", names[at], status);
    }
}
"#;
/// Prints the credentials of the process: user, group, other groups.
const WHO: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    gid_t groups[64];
    int many = getgroups(64, groups);
    printf("%d %d", getuid(), getgid());
    for (int at = 0; at < many; at++)
        printf(" %d", groups[at]);
}
"#;

/// The folder of the compiled programs.
pub struct Compiled(tempfile::TempDir);

impl Compiled {
    pub fn new() -> Self {
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
        compiled.build("each", EACH, &["-static"]);
        compiled.build("who", WHO, &["-static"]);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/image-linkage/testdata/loader/as_user.c");
        compiled.build("as_user", &fs::read_to_string(source).unwrap(), &["-static"]);
        compiled
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let text = self.path("source.c");
        fs::write(&text, source).unwrap();
        let to = self.path(name);
        succeed(Command::new("gcc").args(["-O1", "-o"]).arg(&to).arg(text).args(flags));
        to
    }

    pub fn root(&self, case: &Case) -> tempfile::TempDir {
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
        for (path, entries) in case.lists {
            set_list(&at(path), entries);
        }
        root
    }

    /// The programs that really get it.
    pub fn real(&self, case: &Case, root: &Path) -> BTreeMap<String, bool> {
        let User(_, uid, gid, groups) = case.user;
        // This program is not part of the image. It stands for a process without search paths.
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

/// Sets a file's access list like setfacl; the mode determines the entries of the owner and of others.
fn set_list(path: &Path, entries: &[(u16, u16, u32)]) {
    let mode = u16::try_from(fs::metadata(path).unwrap().permissions().mode() & 0o777).unwrap();
    let own = [(1, mode >> 6, NOBODY), (32, mode & 7, NOBODY)];
    let mut all = [&own, entries].concat();
    all.sort_by_key(|(tag, ..)| *tag);
    let mut attribute = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in all {
        attribute.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        attribute.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    rustix::fs::setxattr(path, name, &attribute, rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        u32::from(mode)
    );
}

pub fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The root as a tar by GNU tar, with owners and attributes.
pub fn tar(root: &Path) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["--format=posix", "--numeric-owner", "--xattrs"]);
    tar.args([
        "--xattrs-include=security.capability",
        "--xattrs-include=system.posix_acl_access",
    ]);
    tar.args(["--exclude=./proc", "-C"]);
    let output = tar.arg(root).args(["-cf", "-", "."]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The audit's facts about the image.
pub fn facts(case: &Case, root: &Path) -> ImageFacts {
    let index = index_layer("root", &*tar(root), &ExpectedBlob::default(), &cupti_options()).unwrap();
    let pairs = case.env.iter().map(|pair| image_source::split_env(pair));
    let image = Image {
        reference: "case".to_owned(),
        source: SourceKind::Oci,
        digest: None,
        repo_digests: Vec::new(),
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
        limits: image_linkage::limits::Limits::default(),
        start: StartOverrides::default(),
    };
    let layers = vec![Ok(index)];
    facts::gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
}
