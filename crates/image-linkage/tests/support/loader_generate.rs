//! Cases for the loader, made from a seed.

use super::loader_case::{CALLER, CacheFormat, Case, Damage, Opens, PROGRAM, Paths, Processor};
use super::loader_objects::{content, library, needed_name, program, search_path};
use super::loader_tree::{Entry, Tree};
use testkit::random::Random;

/// The directories that may get libraries.
pub const DIRECTORIES: &[&str] = &[
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
    "/srv/haswell",
];

/// Subdirectories with names known to the loader or `ldconfig`.
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
    "haswell",
    "tls/haswell",
    "avx512_1",
    "haswell/avx512_1/x86_64",
    "i686",
];

/// The names that objects need.
pub const NAMES: &[&str] = &[
    "liba.so.1",
    "libb.so.1",
    "libc1.so.10",
    "libd.so",
    "libe.so.2",
    "libf-9.so",
];

/// The search paths of programs and libraries that call dlopen. Each combination is compiled once.
const OPENERS: &[(&str, &str)] = &[
    ("", ""),
    ("rpath", "$ORIGIN/../lib:/opt/a"),
    ("rpath", "/opt/b/:/srv/$PLATFORM:/usr/local/lib"),
    ("rpath", "/opt/missing:."),
    ("rpath", "/opt/a/sub:/opt/$UNKNOWN:/opt/link"),
    ("runpath", "$ORIGIN/../lib:/opt/b"),
    ("runpath", "/opt/${LIB}:/opt/a/sub:/usr/local/lib"),
    ("runpath", "/usr/lib"),
    ("runpath", "/app/lib:/opt/a"),
    ("nodeflib rpath", "/opt/a:/usr/lib/x86_64-linux-gnu"),
    ("nodeflib runpath", "/opt/b:/usr/lib/x86_64-linux-gnu"),
];

/// Generates the case of a seed.
pub fn make(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let random = &mut random;
    let working_dir = random.weighted(&[(4, ""), (2, "/opt"), (1, "/opt/a")]);
    let formats = [
        (8, None),
        (11, Some(CacheFormat::New)),
        (3, Some(CacheFormat::Compat)),
        (2, Some(CacheFormat::Old)),
    ];
    let mut case = Case {
        seed,
        processor: *random.one_of(&Processor::ALL),
        ldconfig: random.weighted(&formats),
        library_path: random.chance(50).then(|| search_path(random, ":;")),
        working_dir: working_dir.to_owned(),
        ..Case::default()
    };
    links(random, &mut case.files);
    configuration(random, &mut case.files);
    for name in NAMES {
        for _ in 0..random.weighted(&[(1, 0), (4, 1), (4, 2), (2, 3), (1, 4)]) {
            copy(random, &mut case.files, name);
        }
    }
    if random.chance(80) {
        fallbacks(random, &mut case.files);
    }
    let elf = Box::new(program(random));
    case.files.add(PROGRAM, Entry::Elf(elf));
    if random.chance(20) {
        let name = "/usr/bin/prog";
        case.files.add(name, Entry::Link(PROGRAM.to_owned()));
        case.started_as = Some(name.to_owned());
    }
    preloads(random, &mut case);
    if !matches!(case.ldconfig, None | Some(CacheFormat::New)) {
        case.files.0.retain(|path, _| !is_of_hardware(path));
    }
    after(random, &mut case);
    case
}

/// Whether `ldconfig` takes a path for a hardware subdirectory. With such a library, glibc 2.36 writes past the entries
/// of the old format and crashes or leaves garbage.
fn is_of_hardware(path: &str) -> bool {
    let names = ["tls", "x86_64", "haswell", "avx512_1", "i686"];
    path.split('/').any(|part| names.contains(&part))
}

/// Generates the dlopen case of a seed: the same files, and a program that calls dlopen.
pub fn make_open(seed: u64) -> Case {
    let mut case = make(seed);
    // Far from the seed of the plain case.
    let mut random = Random::new(seed + 0x1000_0000);
    let random = &mut random;
    case.preload = None;
    case.started_as = None;
    for own in ["/etc/ld.so.preload", PROGRAM, CALLER] {
        case.files.0.shift_remove(own);
    }
    // glibc moves a filtee that the same dlopen(3) has loaded before. Only the order then differs from ours.
    for entry in case.files.0.values_mut() {
        if let Entry::Elf(elf) = entry {
            elf.auxiliary.clear();
            elf.filter.clear();
        }
    }
    case.opens = Some(Opens {
        program: opener(random),
        through: random.chance(67).then(|| opener(random)),
        names: (0..=random.below(3)).map(|_| opened_name(random)).collect(),
    });
    case
}

fn opened_name(random: &mut Random) -> String {
    if random.chance(6) {
        return format!("./{}", random.pick(NAMES));
    }
    needed_name(random)
}

fn opener(random: &mut Random) -> Paths {
    let (kind, path) = *random.one_of(OPENERS);
    let path = Some(path.to_owned());
    Paths {
        nodeflib: kind.contains("nodeflib"),
        rpath: path.clone().filter(|_| kind.ends_with("rpath")),
        runpath: path.filter(|_| kind.ends_with("runpath")),
    }
}

/// Links between directories, some like a merged `/usr`.
fn links(random: &mut Random, files: &mut Tree) {
    let mut link = |path: &str, target: &str| files.add(path, Entry::Link(target.to_owned()));
    if random.chance(30) {
        link("/lib", random.pick(&["usr/lib", "/usr/lib"]));
    }
    if random.chance(20) {
        link("/lib64", random.pick(&["usr/lib64", "/usr/lib64"]));
    }
    if random.chance(40) {
        link("/opt/link", random.pick(&["a", "/opt/b", "../app/lib", "other"]));
        link("/opt/other", random.pick(&["b", "/usr/local/lib"]));
    }
    if random.chance(20) {
        link("/opt/loop", "loop");
    }
    if random.chance(20) {
        link("/opt/dangling", "nowhere");
    }
}

fn configuration(random: &mut Random, files: &mut Tree) {
    let mut text = String::new();
    if random.chance(80) {
        text.push_str(random.pick(&[
            "include /etc/ld.so.conf.d/*.conf\n",
            "include ld.so.conf.d/*.conf # all\n",
            "\tinclude\tld.so.conf.d/b*.conf ld.so.conf.d/?-a.conf\n",
            "include /etc/*.d/[!0]*.conf ld.so.conf.d/[0-9]-[a]*\n",
        ]));
    }
    for _ in 0..random.below(3) {
        text.push_str(&configured(random));
    }
    if random.chance(90) {
        files.add("/etc/ld.so.conf", Entry::Text(text));
    }
    let more = random.pick(DIRECTORIES).to_owned();
    files.add("/etc/more/more.conf", Entry::Text(more));
    if random.chance(5) {
        // The folder stands first: the include behind it takes the real `ldconfig` every file that it may open.
        let text = format!("{}\ninclude /etc/more/loop.conf\n", random.pick(DIRECTORIES));
        files.add("/etc/more/loop.conf", Entry::Text(text));
        let text = "include ../more/loop.conf\n".to_owned();
        files.add("/etc/ld.so.conf.d/b-loop.conf", Entry::Text(text));
    }
    for name in ["0-a.conf", "b.conf", "c.conf.bak", ".d.conf"] {
        if random.chance(40) {
            let lines: String = (0..=random.below(3)).map(|_| configured(random)).collect();
            files.add(&format!("/etc/ld.so.conf.d/{name}"), Entry::Text(lines));
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
        9 => "include /etc/more/more*.conf\n".to_owned(),
        _ => format!("{directory}\n"),
    }
}

/// Adds a copy of a library to a directory, as a file or behind links.
fn copy(random: &mut Random, files: &mut Tree, name: &str) {
    let mut directory = random.pick(DIRECTORIES).to_owned();
    if random.chance(22) {
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
    let link = |target: &str| Entry::Link(target.to_owned());
    match random.below(17) {
        // A file with a longer name, with or without a soname link.
        0 | 1 => files.add(&long, content),
        2 | 3 => {
            files.add(&own, link(base(&long)));
            files.add(&long, content);
        }
        4 => {
            files.add(&own, link(&long));
            files.add(&long, content);
        }
        // A chain through other directories.
        5 => chain(random, files, own, content),
        6 => files.add(&own, link("nowhere.so")),
        7 => files.add(&own, link(base(&own))),
        8 => files.add(&own, Entry::Dir),
        // The link for the linker.
        9 => {
            let stem = own.split(".so").next().unwrap_or_default();
            files.add(&own, content);
            files.add(&format!("{stem}.so"), link(base(&own)));
        }
        10 => {
            files.add(&own, content);
            let other = format!("{}/{}", random.pick(DIRECTORIES), random.pick(NAMES));
            files.add(&other, Entry::Hardlink(own));
        }
        _ => files.add(&own, content),
    }
}

fn chain(random: &mut Random, files: &mut Tree, own: String, content: Entry) {
    let name = base(&own).to_owned();
    let mut from = own;
    for hop in 0..=random.below(3) {
        let next = format!("{}/hop{hop}-{name}", random.pick(DIRECTORIES));
        let target = if random.chance(30) {
            format!("../../../..{next}")
        } else {
            next.clone()
        };
        files.add(&from, Entry::Link(target));
        from = next;
    }
    files.add(&from, content);
}

/// Adds a good copy of each name where every search ends, so that many programs start.
fn fallbacks(random: &mut Random, files: &mut Tree) {
    for name in NAMES.iter().chain(&["libz.so.9", "libmissing.so.1"]) {
        let elf = library(random, Some(name));
        let directory = random.pick(&["/usr/lib", "/usr/lib/x86_64-linux-gnu"]);
        files.add(&format!("{directory}/{name}"), Entry::Elf(Box::new(elf)));
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
        let text = names.join(separator) + random.pick(&["", "\n", " # end"]);
        case.files.add("/etc/ld.so.preload", Entry::Text(text));
    }
}

/// Changes after `ldconfig`, which make its cache stale.
fn after(random: &mut Random, case: &mut Case) {
    if case.ldconfig == Some(CacheFormat::New) && random.chance(10) {
        let part = random.below(100);
        let kinds = [
            (6, Damage::Cut(part)),
            (1, Damage::Magic),
            (1, Damage::Count),
            (1, Damage::Order),
        ];
        case.damage = Some(random.weighted(&kinds));
    }
    if case.ldconfig.is_none() || random.chance(50) {
        return;
    }
    for _ in 0..=random.below(2) {
        let at = random.below(case.files.0.len());
        let (path, _) = case.files.0.get_index(at).unwrap();
        if path.contains(".so") && !path.starts_with("/etc/") {
            case.deleted.push(path.clone());
        }
    }
    let name = random.pick(NAMES);
    copy(random, &mut case.added, name);
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
