//! Sparse files: are the facts of an ELF object with holes correct? (row T-07)

use image_linkage::layer::{LayerEntry, ProblemKind};
use testkit::elf::Elf;

use crate::index;
use crate::raw::{Header, Tar, record};

/// An object with a hole: its bytes and its two data regions.
fn object() -> (Vec<u8>, [(usize, usize); 2]) {
    let elf = Elf::library("libholes.so.1").needed("libc.so.6");
    let bytes = elf.padding(200_000).build();
    let start = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let hole = bytes
        .windows(100_000)
        .position(|window| window.iter().all(|&byte| byte == 0));
    let hole = hole.unwrap();
    assert!(start > hole + 100_000, "the dynamic section lies behind the hole");
    let tail = hole + 100_000;
    let regions = [(0, hole), (tail, bytes.len() - tail)];
    (bytes, regions)
}

fn data(bytes: &[u8], regions: &[(usize, usize)]) -> Vec<u8> {
    regions
        .iter()
        .flat_map(|&(at, length)| &bytes[at..at + length])
        .copied()
        .collect()
}

/// Checks that the archive has the object with its facts, and a member behind it.
fn check(tar: Tar) {
    let (bytes, _) = object();
    let found = index(&tar.file("z", b"").end()).unwrap();
    let whole = index(&Tar::new().file("lib", &bytes).file("z", b"").end()).unwrap();
    assert_eq!(found.entries, whole.entries);
    let Some(LayerEntry::File(facts)) = found.entries.values().next() else {
        panic!("no file");
    };
    let soname = facts.elf.as_ref().unwrap().soname.as_deref();
    assert_eq!(soname, Some(&b"libholes.so.1"[..]));
}

fn octal(value: usize) -> Vec<u8> {
    format!("{value:011o}\0").into_bytes()
}

#[test]
fn t07_an_object_in_an_old_gnu_sparse_file_is_read() {
    let (bytes, regions) = object();
    let content = data(&bytes, &regions);
    let mut header = Header::new(b"lib", b'S', content.len())
        .gnu()
        .set(483, &octal(bytes.len()));
    for (nth, (at, length)) in regions.iter().enumerate() {
        let pair = [octal(*at), octal(*length)].concat();
        header = header.set(386 + 24 * nth, &pair);
    }
    let tar = Tar::new().raw(&header, &content);
    // Go reads it, but engines do not handle the type.
    let problems = index(&tar.clone().end()).unwrap().problems;
    let refused = problems
        .iter()
        .map(|problem| (problem.kind, problem.what.contains("0x53")));
    assert_eq!(refused.collect::<Vec<_>>(), [(ProblemKind::Refused, true)]);
    check(tar);
}

#[test]
fn t07_a_gnu_map_goes_on_in_extension_blocks() {
    let (bytes, _) = object();
    // One region per 1,000 bytes: more than the four of the header and the 21 of a block.
    let regions: Vec<(usize, usize)> = (0..bytes.len())
        .step_by(1000)
        .map(|at| (at, (bytes.len() - at).min(1000)))
        .collect();
    let pair = |&(at, length): &(usize, usize)| [octal(at), octal(length)].concat();
    let mut header = Header::new(b"lib", b'S', bytes.len())
        .gnu()
        .set(483, &octal(bytes.len()))
        .set(482, b"\x01");
    for (nth, region) in regions[..4].iter().enumerate() {
        header = header.set(386 + 24 * nth, &pair(region));
    }
    let mut blocks = Vec::new();
    let chunks: Vec<_> = regions[4..].chunks(21).collect();
    for (nth, chunk) in chunks.iter().enumerate() {
        let mut block: Vec<u8> = chunk.iter().flat_map(pair).collect();
        block.resize(512, 0);
        block[504] = u8::from(nth + 1 < chunks.len());
        blocks.extend(block);
    }
    check(Tar::new().raw(&header, &[blocks, bytes].concat()));
}

#[test]
fn t07_an_object_in_a_pax_sparse_file_of_any_version_is_read() {
    let (bytes, regions) = object();
    let content = data(&bytes, &regions);
    let size = bytes.len().to_string();
    let numbers: Vec<String> = regions
        .iter()
        .flat_map(|(at, length)| [at.to_string(), length.to_string()])
        .collect();

    let mut records = [
        record(b"GNU.sparse.size", size.as_bytes()),
        record(b"GNU.sparse.numblocks", b"2"),
    ]
    .concat();
    for pair in numbers.chunks(2) {
        records.extend(record(b"GNU.sparse.offset", pair[0].as_bytes()));
        records.extend(record(b"GNU.sparse.numbytes", pair[1].as_bytes()));
    }
    let zero = Tar::new().member("PaxHeaders/x", b'x', &records);
    check(zero.file("lib", &content));

    let one = Tar::new().pax(&[
        ("GNU.sparse.size", &size),
        ("GNU.sparse.numblocks", "2"),
        ("GNU.sparse.name", "lib"),
        ("GNU.sparse.map", &numbers.join(",")),
    ]);
    check(one.file("GNUSparseFile.1/lib", &content));

    let mut map = format!("2\n{}\n", numbers.join("\n")).into_bytes();
    map.resize(512, 0);
    let stored = [map, content].concat();
    let records = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "lib"),
        ("GNU.sparse.realsize", &size),
    ];
    check(Tar::new().pax(&records).file("GNUSparseFile.1/lib", &stored));
    // For files of 8 GiB and more, the size of the content including the map is also in a record.
    let stored_size = stored.len().to_string();
    let with_size = [&records[..], &[("size", &stored_size)]].concat();
    check(Tar::new().pax(&with_size).file("GNUSparseFile.1/lib", &stored));
}
