//! Cases for access rights and secure-execution mode: a root with owners and modes, a program, and a user.

use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::random::Random;

/// The C library of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    Glibc,
    Musl,
}

/// The variant of a compiled program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Compiled {
    pub library: Library,
    /// The tag and its path.
    pub search: Option<(&'static str, &'static str)>,
    /// The needed library; the name may contain a token.
    pub needs: Option<&'static str>,
}

/// Owner, group and mode of a path.
pub type Access = (&'static str, u32, u32, u32);

#[derive(Debug, Clone)]
pub struct Case {
    pub seed: u64,
    pub compiled: Compiled,
    pub program: &'static str,
    /// The argument of `setcap`.
    pub capabilities: Option<&'static str>,
    pub user: (u32, u32, &'static str),
    pub library_path: Option<&'static str>,
    pub preload: Option<&'static str>,
    pub preload_file: Option<&'static str>,
    pub has_cache: bool,
    /// The paths of libraries.
    pub libraries: Vec<&'static str>,
    pub accesses: Vec<Access>,
    /// The libraries that the program opens.
    pub opens: Vec<&'static str>,
}

/// The possible paths of libraries.
const PLACES: [&str; 7] = [
    "/opt/a/libw.so",
    "/opt/b/libw.so",
    "/usr/lib/w/libw.so",
    "/usr/lib/libw.so",
    "/cached/libw.so",
    "/usr/lib/libp.so",
    "/opt/a/libp.so",
];
const FOLDERS: [&str; 8] = [
    "/opt",
    "/opt/a",
    "/opt/b",
    "/usr/lib/w",
    "/cached",
    "/app",
    "/etc",
    "/usr/lib/app",
];
const SEARCHES: [(&str, &str); 7] = [
    ("enable", "/opt/a"),
    ("disable", "/opt/b:/opt/a"),
    ("enable", "$ORIGIN/../opt/a"),
    ("disable", "$ORIGIN/../opt/a:/opt/b"),
    ("enable", "$ORIGIN/../w:$ORIGIN/../usr/lib/w"),
    ("enable", "/opt/$ORIGIN:/opt/b"),
    ("disable", "$ORIGIN/../../../opt/../usr/lib/w"),
];

fn any<T: Copy>(random: &mut Random, percent: usize, choices: &[T]) -> Option<T> {
    random.chance(percent).then(|| *random.one_of(choices))
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let library = if random.chance(30) {
            Library::Musl
        } else {
            Library::Glibc
        };
        let needs = any(
            random,
            85,
            &[
                "libw.so",
                "libw.so",
                "libw.so",
                "libw.so",
                "/opt/a/libw.so",
                "$ORIGIN/../opt/a/libw.so",
            ],
        );
        let program = *random.one_of(&["/app/prog", "/usr/lib/app/prog"]);
        let preload = any(random, 25, &["libp.so", "/opt/a/libp.so", "libp.so:/opt/a/libp.so"]);
        Self {
            seed,
            compiled: Compiled {
                library,
                search: any(random, 70, &SEARCHES),
                needs: needs.filter(|_| library == Library::Glibc).or(needs.map(|_| "libw.so")),
            },
            program,
            capabilities: any(
                random,
                20,
                &[
                    "cap_net_raw=ep",
                    "cap_dac_override=ep",
                    "cap_dac_read_search+ep",
                    "cap_net_raw=p",
                    "cap_net_raw=i",
                    "cap_sys_admin=ep",
                    "cap_sys_admin=p",
                ],
            ),
            user: *random.one_of(&[
                (0, 0, "-"),
                (1000, 1000, "-"),
                (1000, 1000, "44"),
                (1000, 44, "7"),
                (7, 7, "-"),
            ]),
            library_path: any(random, 50, &["/opt/b", "/opt/a:/opt/b", "$ORIGIN/../opt/a", "/cached"]),
            preload,
            preload_file: any(random, 12, &["/opt/a/libp.so", "libp.so"]),
            has_cache: random.chance(50),
            libraries: PLACES.into_iter().filter(|_| random.chance(55)).collect(),
            accesses: accesses(random, program),
            opens: ["libw.so", "/opt/a/libw.so", "/usr/lib/w/libw.so", "libp.so"]
                .into_iter()
                .filter(|_| random.chance(40))
                .collect(),
        }
    }

    /// Writes the files of a root.
    pub fn write(&self, root: &Path, program: &[u8], library: &[u8]) {
        let at = |path: &str| root.join(path.trim_start_matches('/'));
        for folder in FOLDERS
            .into_iter()
            .chain(["/proc/self", "/lib64", "/lib/x86_64-linux-gnu", "/tmp"])
        {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(self.program, at("/proc/self/exe")).unwrap();
        for path in &self.libraries {
            fs::write(at(path), library).unwrap();
        }
        fs::write(at(self.program), program).unwrap();
        if let Some(name) = self.preload_file {
            fs::write(at("/etc/ld.so.preload"), format!("{name}\n")).unwrap();
        }
    }

    /// Sets owners and modes, deepest first, because chown clears mode bits.
    pub fn close(&self, root: &Path) {
        let at = |path: &str| root.join(path.trim_start_matches('/'));
        for (path, mode, uid, gid) in self.accesses.iter().filter(|(path, ..)| at(path).exists()) {
            chown(at(path), Some(*uid), Some(*gid)).unwrap();
            fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)).unwrap();
        }
        if let Some(capabilities) = self.capabilities {
            let status = Command::new("setcap").arg(capabilities).arg(at(self.program)).status();
            assert!(status.unwrap().success(), "setcap {capabilities}");
        }
    }

    pub fn variables(&self) -> Vec<String> {
        let own = [("LD_LIBRARY_PATH", self.library_path), ("LD_PRELOAD", self.preload)];
        own.iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", (*value)?)))
            .collect()
    }
}

fn accesses(random: &mut Random, program: &'static str) -> Vec<Access> {
    let owners = [0, 0, 0, 1000, 7];
    let groups = [0, 0, 44, 1000];
    let mut all = vec![];
    // Only some directories, so that most cases reach a library.
    for folder in FOLDERS {
        let mode = if random.chance(22) {
            *random.one_of(&[0o700, 0o711, 0o750, 0o701, 0o070, 0o000, 0o744])
        } else {
            0o755
        };
        all.push((folder, mode, *random.one_of(&owners), *random.one_of(&groups)));
    }
    for file in PLACES.into_iter().chain(["/etc/ld.so.cache", "/etc/ld.so.preload"]) {
        let mode = if random.chance(25) {
            *random.one_of(&[0o600, 0o000, 0o640, 0o040, 0o604, 0o4755, 0o4600])
        } else {
            0o644
        };
        all.push((file, mode, *random.one_of(&owners), *random.one_of(&groups)));
    }
    let mode = *random.one_of(&[
        0o755, 0o755, 0o755, 0o4755, 0o4755, 0o4755, 0o2755, 0o2755, 0o6755, 0o4711, 0o2745, 0o711, 0o750, 0o744, 0o644,
    ]);
    all.push((program, mode, *random.one_of(&owners), *random.one_of(&groups)));
    all
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "seed {}: {:?}", self.seed, self.compiled)?;
        writeln!(
            to,
            "  {} {:?} by {:?} with {:?}",
            self.program,
            self.capabilities,
            self.user,
            self.variables()
        )?;
        writeln!(
            to,
            "  preload file {:?}, cache {}, libraries {:?}",
            self.preload_file, self.has_cache, self.libraries
        )?;
        for (path, mode, uid, gid) in &self.accesses {
            write!(to, "  {path} {mode:o} {uid}:{gid}")?;
        }
        writeln!(to)
    }
}

/// The Debian files that every root needs, and their paths in the root.
pub fn own_files(library: Library) -> [(PathBuf, &'static str); 2] {
    match library {
        Library::Glibc => [
            ("/lib64/ld-linux-x86-64.so.2".into(), "lib64/ld-linux-x86-64.so.2"),
            (
                "/lib/x86_64-linux-gnu/libc.so.6".into(),
                "lib/x86_64-linux-gnu/libc.so.6",
            ),
        ],
        Library::Musl => [
            ("/lib/ld-musl-x86_64.so.1".into(), "lib/ld-musl-x86_64.so.1"),
            ("/lib/ld-musl-x86_64.so.1".into(), "lib/x86_64-linux-gnu/libc.musl"),
        ],
    }
}
