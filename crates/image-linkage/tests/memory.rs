//! How much memory does a huge layer need? Each question runs in its own process.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the test runs itself again, and fails by panicking"
)]

#[path = "support/tar.rs"]
mod raw;

use std::io::{self, Cursor, Read};
use std::process::Command;

use flate2::read::GzEncoder;
use image_linkage::layer::{self, ExpectedBlob, FileInterest, IndexOptions, LayerEntry, LayerIndex, WantedFiles};
use image_linkage::rootfs;
use raw::{BLOCK, Header};
use testkit::elf::Elf;

/// The variable that names the test to measure in a child process.
const MEASURED: &str = "CUPTI_AUDIT_MEASURED";

/// Runs `work` in a child process. Returns its peak memory in MiB.
fn peak_mib(test: &str, work: fn()) -> u64 {
    if std::env::var_os(MEASURED).is_some_and(|measured| measured == test) {
        work();
        println!("\npeak {} KiB", high_water_mark());
        std::process::exit(0);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MEASURED, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let peak = said
        .lines()
        .find_map(|line| line.strip_prefix("peak ")?.strip_suffix(" KiB"));
    let peak = peak.unwrap().parse::<u64>().unwrap() >> 10;
    println!("{test}: {peak} MiB");
    peak
}

/// `VmHWM` in KiB (`proc_pid_status(5)`).
fn high_water_mark() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

fn index(tar: impl Read + Send) -> LayerIndex {
    let blob = GzEncoder::new(tar, flate2::Compression::fast());
    let options = IndexOptions {
        interest: FileInterest::from(WantedFiles {
            names: ["libcupti.so".to_owned(), "libnvperf_".to_owned()].into(),
            symbol_prefixes: ["cupti".to_owned()].into(),
            ..WantedFiles::default()
        }),
        ..IndexOptions::default()
    };
    layer::index_layer("L", blob, &ExpectedBlob::default(), &options).unwrap()
}

/// The gap between the first tables and the dynamic section of a large library.
const GAP: u64 = 1 << 30;

/// A library like the real `libtorch_cuda.so`: symbols at the start, the dynamic section a gigabyte later, and behind
/// it the string table, moved by patchelf.
fn library() -> (impl Read + Send, u64) {
    let mut bytes = Elf::library("libtorch_cuda.so")
        .needed("libcupti.so.12")
        .rpath("$ORIGIN")
        .import_at("cuptiSubscribe", "libcupti.so.12", "libcupti.so.12")
        .export("x".repeat(11 << 20))
        .string("libnvperf_host.so")
        .patched()
        .build();
    let headers = 64..64 + 56 * usize::from(bytes[56]);
    let field = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let section = bytes[headers.clone()].chunks(56).find(|header| header[0] == 2).unwrap();
    let [dynamic, address, size] = [8, 16, 32].map(|at| field(section, at));
    let add_gap = |bytes: &mut [u8], at: usize| {
        let moved = field(bytes, at) + GAP;
        bytes[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    };
    // Everything from the dynamic section on moves in file and memory, and its segment grows by the gap.
    for header in bytes[headers].chunks_mut(56).filter(|header| header[0] != 0x51) {
        let (start, held) = (field(header, 8), field(header, 32));
        if start >= dynamic {
            add_gap(header, 8);
            add_gap(header, 16);
        } else if start + held > dynamic {
            add_gap(header, 32);
            add_gap(header, 40);
        }
    }
    let places = [
        3,
        4,
        5,
        6,
        7,
        12,
        13,
        23,
        25,
        26,
        0x6fff_fef5,
        0x6fff_fff0,
        0x6fff_fffc,
        0x6fff_fffe,
    ];
    let entries = usize::try_from(dynamic).unwrap()..usize::try_from(dynamic + size).unwrap();
    for entry in bytes[entries].chunks_mut(16) {
        if places.contains(&field(entry, 0)) && field(entry, 8) >= address {
            add_gap(entry, 8);
        }
    }
    let behind = bytes.split_off(usize::try_from(dynamic).unwrap());
    let size = bytes.len() as u64 + GAP + behind.len() as u64;
    let stream = Cursor::new(bytes).chain(Text(0).take(GAP)).chain(Cursor::new(behind));
    (stream, size)
}

/// Endless compressible text.
struct Text(usize);

impl Read for Text {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        const LINE: &[u8] = b"the quick brown fox jumps over the lazy dog 0123456789 times \0 ";
        let from = &LINE[self.0..];
        let whole = (buf.len() / LINE.len() * LINE.len()).min(64 << 10);
        let n = if self.0 == 0 && whole > 0 {
            buf[..whole]
                .chunks_mut(LINE.len())
                .for_each(|to| to.copy_from_slice(LINE));
            whole
        } else {
            let n = from.len().min(buf.len());
            buf[..n].copy_from_slice(&from[..n]);
            n
        };
        self.0 = (self.0 + n) % LINE.len();
        Ok(n)
    }
}

fn large_library() {
    let (stream, size) = library();
    let name = b"usr/lib/libtorch_cuda.so";
    let header = Header::new(name, b'0', usize::try_from(size).unwrap()).bytes();
    let padding = size.next_multiple_of(BLOCK as u64) - size;
    let tar = Cursor::new(header)
        .chain(stream)
        .chain(io::repeat(0).take(padding + 2 * BLOCK as u64));
    let layer = index(tar);
    let Some(LayerEntry::File(facts)) = layer.entries.values().next() else {
        panic!("no file");
    };
    let elf = facts.elf.as_ref().unwrap();
    assert_eq!((facts.bytes, &elf.problems), (size, &vec![]));
    assert_eq!(elf.soname.as_deref(), Some(&b"libtorch_cuda.so"[..]));
    assert_eq!(elf.rpath.as_deref(), Some(&b"$ORIGIN"[..]));
    assert_eq!(*elf.needed, [Box::from(&b"libcupti.so.12"[..])]);
    let names = |symbol: &image_linkage::elf::DynamicSymbol| (symbol.name.clone(), symbol.version.clone());
    let symbol = (
        Box::from(&b"cuptiSubscribe"[..]),
        Some(Box::from(&b"libcupti.so.12"[..])),
    );
    assert_eq!(elf.symbols.iter().map(names).collect::<Vec<_>>(), [symbol]);
    assert_eq!(*elf.mentions, [Box::from(&b"libnvperf_host.so"[..])]);
    assert_eq!(elf.verneed.len(), 1);
}

#[test]
fn a_library_of_a_gigabyte_takes_less_than_128_mib() {
    let peak = peak_mib("a_library_of_a_gigabyte_takes_less_than_128_mib", large_library);
    assert!(peak < 128, "{peak} MiB");
}

const FILES: usize = 300_000;

/// The headers of empty files, a hundred per directory, with names as long as in a Python package.
struct Files {
    template: [u8; BLOCK],
    sum: u32,
    next: usize,
}

impl Files {
    fn header(&mut self) -> [u8; BLOCK] {
        let name = format!(
            "usr/lib/python3.12/site-packages/package{:04}/module_of_it_{:02}.py",
            self.next / 100,
            self.next % 100
        );
        self.next += 1;
        let mut block = self.template;
        block[..name.len()].copy_from_slice(name.as_bytes());
        let sum = self.sum + name.bytes().map(u32::from).sum::<u32>();
        block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        block
    }
}

impl Read for Files {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let blocks = (buf.len() / BLOCK).min(FILES - self.next);
        for to in buf.chunks_mut(BLOCK).take(blocks) {
            to.copy_from_slice(&self.header());
        }
        Ok(blocks * BLOCK)
    }
}

fn many_files() {
    let template = Header::new(b"", b'0', 0).bytes();
    let sum = template.iter().enumerate().map(|(at, &byte)| match at {
        148..156 => u32::from(b' '),
        _ => u32::from(byte),
    });
    let files = Files {
        template,
        sum: sum.sum(),
        next: 0,
    };
    let tar = io::BufReader::with_capacity(64 << 10, files);
    let layer = index(tar.chain(io::repeat(0).take(2 * BLOCK as u64)));
    assert_eq!((layer.entries.len(), layer.problems.len()), (FILES, 0));
    println!("\nindex: {} KiB", high_water_mark());
    let (rootfs, problems) = rootfs::merge_layers([&layer]);
    assert_eq!((rootfs.len(), problems.len()), (FILES + FILES / 100 + 4, 0));
}

#[test]
fn b04_and_b05_many_small_files_take_less_than_80_mib() {
    let peak = peak_mib("b04_and_b05_many_small_files_take_less_than_80_mib", many_files);
    assert!(peak < 80, "{peak} MiB");
}
