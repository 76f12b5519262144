//! Cases for the loader, made from a seed: a small root file system, an environment and a program.

use std::fmt::{self, Write as _};

use testkit::elf::{Class, Elf, Endian, Kind, Machine, df_1};

use super::loader_random::Random;
use super::loader_tree::{Content, Tree};

/// What one seed stands for.
#[derive(Debug, Clone)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The files as they are before `ldconfig` runs.
    pub tree: Tree,
    /// Whether `ldconfig` runs before the program.
    pub ldconfig: bool,
    /// Paths that are deleted after `ldconfig` ran.
    pub deleted: Vec<String>,
    /// What is added after `ldconfig` ran.
    pub added: Tree,
    /// What is wrong with the cache, if anything.
    pub damage: Option<Damage>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<String>,
    /// `LD_PRELOAD`.
    pub preload: Option<String>,
    /// The working directory.
    pub working_dir: &'static str,
    /// The program by the name that it is started by, and by its real path.
    pub program: (&'static str, &'static str),
    /// Names that a program may open.
    pub names: Vec<String>,
}

/// A case made by hand: a program with these files around it, which starts in `/`.
pub fn by_hand(program: &Elf, tree: Tree) -> Case {
    let mut case = Case {
        seed: 0,
        tree,
        ldconfig: false,
        deleted: Vec::new(),
        added: Tree::default(),
        damage: None,
        library_path: None,
        preload: None,
        working_dir: "/",
        program: ("/app/bin/prog", "/app/bin/prog"),
        names: Vec::new(),
    };
    case.tree
        .add("/app/bin/prog", file(program.build(), "program"));
    case
}

/// Makes the dlopen case of a seed: the files of the case, and another program.
pub fn make_open(seed: u64, program: Vec<u8>, caller: Vec<u8>) -> Case {
    let mut case = make(seed);
    case.preload = None;
    let own = ["/etc/ld.so.preload", case.program.1];
    case.tree
        .0
        .retain(|(path, _)| !own.contains(&path.as_str()));
    case.program.0 = case.program.1;
    case.tree.add(case.program.1, file(program, "opens"));
    case.tree
        .add("/app/caller/libcaller.so", file(caller, "opens for others"));
    case
}

/// What is wrong with a cache that `ldconfig` wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// So many hundredths of its header and entries are left, and nothing behind them.
    Cut(usize),
    /// The first byte is another.
    Magic,
    /// It counts one entry more than fit.
    Count,
    /// It says that it is for the other byte order.
    Order,
}

/// The directories of which libraries are put into some.
const DIRECTORIES: &[&str] = &[
    "/opt/a",
    "/opt/b",
    "/opt/a/sub",
    "/app/lib",
    "/app/bin",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib",
    "/lib",
    "/opt/lib/x86_64-linux-gnu",
    "/srv/x86_64",
];

/// Directories below those, which the loader or `ldconfig` knows by their names.
const BELOW: &[&str] = &[
    "glibc-hwcaps/x86-64-v2",
    "glibc-hwcaps/x86-64-v3",
    "glibc-hwcaps/x86-64-v4",
    "glibc-hwcaps/z13",
    "tls",
    "x86_64",
    "tls/x86_64",
    "x86_64/x86_64",
    "tls/x86_64/x86_64",
];

/// The names that objects need.
const NAMES: &[&str] = &[
    "liba.so.1",
    "libb.so.1",
    "libc1.so.10",
    "libd.so",
    "libe.so.2",
    "libf-9.so",
];

/// Elements of search paths besides the directories.
const ELEMENTS: &[&str] = &[
    "$ORIGIN",
    "${ORIGIN}",
    "$ORIGIN/../a",
    "${ORIGIN}/../../opt/b",
    "$ORIGIN/sub",
    "$ORIGIN/../lib",
    "/opt/$LIB",
    "/opt/${LIB}",
    "/srv/$PLATFORM",
    "/srv/${PLATFORM}/",
    "/opt/$UNKNOWN",
    "$ORIGINAL/a",
    "${ORIGIN",
    "/opt/a/",
    "/opt/b///",
    "",
    ".",
    "opt/a",
    "a",
    "../opt/b",
    "/",
    "/opt/missing",
    "/opt/link",
    "/opt/link/sub",
    "/opt/loop",
    "/opt/dangling",
    "/app/bin/prog",
];

/// Makes the case of a seed.
pub fn make(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let random = &mut random;
    let mut case = Case {
        seed,
        tree: Tree::default(),
        ldconfig: random.chance(65),
        deleted: Vec::new(),
        added: Tree::default(),
        damage: None,
        library_path: random.chance(50).then(|| search_path(random, ":;")),
        preload: None,
        working_dir: random.weighted(&[(4, "/"), (2, "/opt"), (1, "/opt/a")]),
        program: ("/app/bin/prog", "/app/bin/prog"),
        names: Vec::new(),
    };
    links(random, &mut case);
    configuration(random, &mut case);
    for name in NAMES {
        for _ in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3), (1, 4)]) {
            copy(random, &mut case, name);
        }
    }
    if random.chance(80) {
        fallbacks(random, &mut case);
    }
    program(random, &mut case);
    preloads(random, &mut case);
    after(random, &mut case);
    for _ in 0..=random.below(3) {
        case.names.push(needed_name(random));
    }
    case
}

/// Links between directories, some of them the way of a merged `/usr`, and the loader itself.
fn links(random: &mut Random, case: &mut Case) {
    let mut link = |path: &str, target: &str| {
        case.tree.add(path, Content::Symlink(target.to_owned()));
    };
    if random.chance(30) {
        link("/lib", random.pick(&["usr/lib", "/usr/lib"]));
    }
    if random.chance(40) {
        link(
            "/opt/link",
            random.pick(&["a", "/opt/b", "../app/lib", "other"]),
        );
        link("/opt/other", random.pick(&["b", "/usr/local/lib"]));
    }
    if random.chance(20) {
        link("/opt/loop", "loop");
    }
    if random.chance(20) {
        link("/opt/dangling", "nowhere");
    }
}

fn configuration(random: &mut Random, case: &mut Case) {
    let mut text = String::new();
    if random.chance(80) {
        text.push_str(random.pick(&[
            "include /etc/ld.so.conf.d/*.conf\n",
            "include ld.so.conf.d/*.conf # all\n",
            "\tinclude\tld.so.conf.d/b*.conf ld.so.conf.d/?-a.conf\n",
        ]));
    }
    for _ in 0..random.below(3) {
        text.push_str(&configured(random));
    }
    if random.chance(90) {
        case.tree
            .add("/etc/ld.so.conf", file(text, "configuration"));
    }
    let more = random.pick(DIRECTORIES);
    case.tree
        .add("/etc/more/more.conf", file(more, "configuration"));
    for name in ["0-a.conf", "b.conf", "c.conf.bak", ".d.conf"] {
        if random.chance(40) {
            let lines: String = (0..=random.below(3)).map(|_| configured(random)).collect();
            let path = format!("/etc/ld.so.conf.d/{name}");
            case.tree.add(&path, file(lines, "configuration"));
        }
    }
}

/// A line of `ld.so.conf`.
fn configured(random: &mut Random) -> String {
    let directory = random.pick(DIRECTORIES);
    match random.below(14) {
        0 => "# a comment\n".to_owned(),
        1 => "hwcap 0 nosegneg\n".to_owned(),
        2 => format!("  {directory}//  # behind\n"),
        3 => "/opt/link\n".to_owned(),
        4 => "/opt/missing\n\n".to_owned(),
        5 => format!("{directory}/glibc-hwcaps/x86-64-v3\n"),
        6 => format!("{directory}/tls\n"),
        7 => format!("{directory}=libc6\n"),
        8 => "opt/b\n".to_owned(),
        9 => "include /etc/more/*.conf\n".to_owned(),
        _ => format!("{directory}\n"),
    }
}

/// Puts one copy of a library into a directory, under its own name or behind links.
fn copy(random: &mut Random, case: &mut Case, name: &str) {
    let mut directory = random.pick(DIRECTORIES).to_owned();
    if random.chance(18) {
        directory = format!("{directory}/{}", random.pick(BELOW));
    }
    let soname = match random.below(20) {
        0 | 1 => None,
        2 => Some("libz.so.9".to_owned()),
        3 => Some(random.pick(NAMES).to_owned()),
        4 if random.chance(30) => Some("liba.so.01".to_owned()),
        _ => Some(name.to_owned()),
    };
    let content = content(random, soname.as_deref());
    let own = format!("{directory}/{name}");
    let long = format!("{own}.{}.{}", random.below(12), random.below(3));
    let mut link = |path: &str, target: String| {
        case.tree.add(path, Content::Symlink(target));
    };
    match random.below(16) {
        // A file with a longer name, and a link by the soname or none.
        0 | 1 => drop(case.tree.add(&long, content)),
        2 | 3 => {
            link(&own, base(&long).to_owned());
            case.tree.add(&long, content);
        }
        4 => {
            link(&own, long.clone());
            case.tree.add(&long, content);
        }
        // A chain over another directory.
        5 => {
            let hop = format!("{}/{name}", random.pick(DIRECTORIES));
            link(&own, hop.clone());
            case.tree.add(&hop, content);
        }
        6 => {
            link(&own, "nowhere.so".to_owned());
        }
        7 => link(&own, base(&own).to_owned()),
        8 => drop(case.tree.add(&own, Content::Directory)),
        // The link for the link editor.
        9 => {
            let stem = own.split(".so").next().unwrap_or_default().to_owned();
            case.tree.add(&own, content);
            case.tree.add(
                &format!("{stem}.so"),
                Content::Symlink(base(&own).to_owned()),
            );
        }
        10 => {
            case.tree.add(&own, content);
            let other = format!("{}/{}", random.pick(DIRECTORIES), random.pick(NAMES));
            case.tree.add(&other, Content::Hardlink(own));
        }
        _ => drop(case.tree.add(&own, content)),
    }
}

/// Puts a good copy of each name where every search ends, so that many programs start.
fn fallbacks(random: &mut Random, case: &mut Case) {
    for name in NAMES.iter().chain(&["libz.so.9", "libmissing.so.1"]) {
        let (elf, words) = library(random, Some(name));
        let directory = random.pick(&["/usr/lib", "/usr/lib/x86_64-linux-gnu"]);
        let content = file(elf.build(), words);
        case.tree.add(&format!("{directory}/{name}"), content);
    }
}

/// A library, or something that only looks like one.
fn content(random: &mut Random, soname: Option<&str>) -> Content {
    let (elf, words) = library(random, soname);
    let elf = match random.below(110) {
        0 => return file("", "empty"),
        1 => return file("INPUT(liba.so.1)\n", "short text"),
        2 => return file("GROUP ( /opt/a/liba.so.1 )".repeat(9), "a linker script"),
        3 => return file(b"\x7fELF\x02\x01\x01".as_slice(), "cut in the header"),
        4 => (elf.class(Class::Elf32).machine(Machine::I386), "for i386"),
        5 => (elf.class(Class::Elf32), "for x32"),
        6 => (elf.machine(Machine::Aarch64), "for aarch64"),
        7 => (
            elf.endian(Endian::Big).machine(Machine::Ppc64),
            "big-endian",
        ),
        8 => (elf.kind(Kind::Exec), "an executable at a fixed address"),
        9 => (elf.flags_1(df_1::PIE), "a program"),
        10 => (elf.statically_linked(), "without a dynamic section"),
        11 => return truncated(elf, &words),
        12 => (elf.patched(), "patched"),
        13 => (elf.late_headers(), "late headers"),
        14 => (elf.class(Class::Elf32).machine(Machine::Arm), "for arm"),
        _ => (elf, ""),
    };
    let (elf, what) = elf;
    file(elf.build(), format!("{words} {what}"))
}

/// A library whose dynamic section lies where the file has ended.
fn truncated(elf: Elf, words: &str) -> Content {
    let mut bytes = elf.padding(0x4000).build();
    bytes.truncate(0x2000);
    file(bytes, format!("{words} truncated"))
}

/// A good library.
fn library(random: &mut Random, soname: Option<&str>) -> (Elf, String) {
    let elf = match soname {
        Some(soname) => Elf::library(soname),
        None => Elf::new(),
    };
    let mut object = Object {
        elf,
        words: format!("soname {}", soname.unwrap_or("none")),
    };
    if random.chance(40) {
        object.define(random.pick(&["V_1", "V_2"]));
    }
    let needs = random.weighted(&[(4, 0), (3, 1), (2, 2), (1, 3)]);
    object.needs(random, needs);
    object.paths(random, 45);
    if random.chance(5) {
        object.elf = object.elf.flags_1(df_1::NODEFLIB);
        object.words.push_str(" nodeflib");
    }
    (object.elf, object.words)
}

/// An object under way, with words about it.
struct Object {
    elf: Elf,
    words: String,
}

impl Object {
    fn define(&mut self, version: &str) {
        self.elf = self.elf.clone().verdef(version);
        let _ = write!(self.words, " defines {version}");
    }

    fn needs(&mut self, random: &mut Random, count: usize) {
        for _ in 0..count {
            let name = needed_name(random);
            self.elf = self.elf.clone().needed(&name);
            let _ = write!(self.words, " needs {name:?}");
            if !name.contains(['/', '$']) && random.chance(15) {
                let version = random.pick(&["V_1", "V_2", "V_9"]);
                let elf = self.elf.clone();
                let weak = random.chance(20);
                self.elf = if weak {
                    elf.verneed_weak(&name, version)
                } else {
                    elf.verneed(&name, version)
                };
                let _ = write!(self.words, "@{version}{}", if weak { "?" } else { "" });
            }
        }
    }

    fn paths(&mut self, random: &mut Random, percent: usize) {
        if !random.chance(percent) {
            return;
        }
        let which = random.weighted(&[(4, (true, false)), (4, (false, true)), (1, (true, true))]);
        if which.0 {
            let path = search_path(random, ":");
            let _ = write!(self.words, " rpath {path:?}");
            self.elf = self.elf.clone().rpath(path);
        }
        if which.1 {
            let path = search_path(random, ":");
            let _ = write!(self.words, " runpath {path:?}");
            self.elf = self.elf.clone().runpath(path);
        }
    }
}

fn needed_name(random: &mut Random) -> String {
    let name = random.pick(NAMES);
    match random.below(100) {
        0 => "libmissing.so.1".to_owned(),
        1 => format!("{}/{name}", random.pick(DIRECTORIES)),
        2 => format!("./{name}"),
        3 => format!("a/{name}"),
        4 => format!("$ORIGIN/{name}"),
        5 => format!("${{ORIGIN}}/../a/{name}"),
        6 => format!("/opt/$LIB/{name}"),
        7 => format!("$NOTHING{name}"),
        8 => "libz.so.9".to_owned(),
        11 => "ld-linux-x86-64.so.2".to_owned(),
        12 => "liba.so.01".to_owned(),
        9 => format!("/opt/link/{name}"),
        10 => format!("/opt/a/../b//{name}"),
        _ => name.to_owned(),
    }
}

/// A search path of some elements.
fn search_path(random: &mut Random, separators: &str) -> String {
    let mut path = String::new();
    for nth in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3), (1, 5)]) {
        if nth > 0 {
            let at = random.below(separators.len() * 3).min(separators.len() - 1);
            path.push(char::from(separators.as_bytes()[separators.len() - 1 - at]));
        }
        let plain = random.chance(60);
        path.push_str(random.pick(if plain { DIRECTORIES } else { ELEMENTS }));
    }
    path
}

fn program(random: &mut Random, case: &mut Case) {
    let mut object = Object {
        elf: Elf::executable(),
        words: "program".to_owned(),
    };
    let needs = random.below(4) + 1;
    object.needs(random, needs);
    object.paths(random, 60);
    if random.chance(4) {
        object.elf = object.elf.flags_1(df_1::PIE | df_1::NODEFLIB);
        object.words.push_str(" nodeflib");
    }
    let content = file(object.elf.build(), object.words);
    case.tree.add("/app/bin/prog", content);
    if random.chance(20) {
        case.tree.add(
            "/usr/bin/prog",
            Content::Symlink("/app/bin/prog".to_owned()),
        );
        case.program.0 = "/usr/bin/prog";
    }
}

fn preloads(random: &mut Random, case: &mut Case) {
    if random.chance(12) {
        let count = random.below(2) + 1;
        let separator = random.pick(&[" ", ":", " :"]);
        let names: Vec<String> = (0..count).map(|_| needed_name(random)).collect();
        case.preload = Some(names.join(separator));
    }
    if random.chance(10) {
        let separator = random.pick(&[" ", "\n", ":", "\t# not this libx.so\n"]);
        let names: Vec<String> = (0..=random.below(2)).map(|_| needed_name(random)).collect();
        let end = random.pick(&["", "\n", " # end"]);
        let text = names.join(separator) + end;
        let words = format!("{text:?}");
        case.tree.add("/etc/ld.so.preload", file(text, words));
    }
}

/// What happens after `ldconfig` ran: its cache grows stale.
fn after(random: &mut Random, case: &mut Case) {
    if case.ldconfig && random.chance(8) {
        let part = random.below(100);
        let kinds = [
            (6, Damage::Cut(part)),
            (1, Damage::Magic),
            (1, Damage::Count),
            (1, Damage::Order),
        ];
        case.damage = Some(random.weighted(&kinds));
    }
    if !case.ldconfig || random.chance(50) {
        return;
    }
    for _ in 0..=random.below(2) {
        let at = random.below(case.tree.0.len());
        let path = &case.tree.0[at].0;
        if path.contains(".so") && !path.starts_with("/etc/") {
            case.deleted.push(path.clone());
        }
    }
    let mut late = case.clone();
    late.tree = Tree::default();
    let name = random.pick(NAMES);
    copy(random, &mut late, name);
    case.added = late.tree;
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A file with words about it.
pub fn file(bytes: impl AsRef<[u8]>, words: impl Into<String>) -> Content {
    let bytes = bytes.as_ref().to_vec();
    let words = words.into();
    let words = if words == "configuration" {
        format!("{:?}", String::from_utf8_lossy(&bytes))
    } else {
        words
    };
    Content::File(bytes, words)
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            to,
            "seed {}: {} in {}",
            self.seed, self.program.0, self.working_dir
        )?;
        if let Some(path) = &self.library_path {
            writeln!(to, "  LD_LIBRARY_PATH={path}")?;
        }
        if let Some(names) = &self.preload {
            writeln!(to, "  LD_PRELOAD={names}")?;
        }
        write!(to, "{}", self.tree)?;
        if self.ldconfig {
            writeln!(to, "  ldconfig ran; deleted then: {:?}", self.deleted)?;
            write!(to, "{}", self.added)?;
            if let Some(damage) = self.damage {
                writeln!(to, "  damage: {damage:?}")?;
            }
        }
        Ok(())
    }
}
