//! Tar headers: which member do they describe, and where does the next one start? (rows T-02 to T-06, T-10)

use image_linkage::layer::ProblemKind;

use crate::raw::{Header, Tar, record};
use crate::{index, read, refuse};

/// A whole tar that must remain file content.
fn inner() -> Vec<u8> {
    Tar::new().file("smuggled", b"x").cut()
}

#[test]
fn t02_a_pax_size_wins_over_the_header() {
    let inner = inner();
    for in_header in [0, 5, inner.len() + 512] {
        let header = Header::new(b"outer", b'0', in_header);
        let tar = Tar::new()
            .pax(&[("size", &inner.len().to_string())])
            .raw(&header, &inner)
            .file("next", b"");
        assert_eq!(read(&tar.end()), ["/next 0", "/outer 1024"], "{in_header}");
    }
}

#[test]
fn t03_an_inner_tar_is_content_and_without_the_record_it_is_not() {
    let inner = inner();
    let header = Header::new(b"outer", b'0', 0);
    let size = inner.len().to_string();
    let with = Tar::new().pax(&[("size", &size)]).raw(&header, &inner);
    assert_eq!(read(&with.end()), ["/outer 1024"]);
    let without = Tar::new().raw(&header, &inner);
    assert_eq!(read(&without.end()), ["/outer 0", "/smuggled 1"]);
}

#[test]
fn a_pax_size_of_all_the_bits_there_are_is_an_error() {
    for size in [u64::MAX, u64::MAX - 511, 1 << 63] {
        let tar = Tar::new().pax(&[("size", &size.to_string())]).file("a", b"");
        refuse(&tar.end(), "a size that is not a number");
    }
    let largest = Tar::new().pax(&[("size", &i64::MAX.to_string())]);
    refuse(&largest.file("a", b"").end(), "the tar ends at byte");
}

#[test]
fn t04_extension_headers_add_up_and_serve_the_next_entry_only() {
    let long = "d/".repeat(60) + "name";
    let tar = Tar::new()
        .pax(&[("size", "3"), ("comment", "for the file, not for the long name")])
        .long(b'L', long.as_bytes())
        .raw(&Header::new(b"short", b'0', 0).gnu(), b"abc")
        .file("after", b"de");
    let found = ["/after 2".to_owned(), format!("/{long} 3")];
    assert_eq!(read(&tar.end()), found);
}

#[test]
fn t04_a_gnu_long_name_wins_over_a_pax_record() {
    let tar = Tar::new().pax(&[("path", "one")]).long(b'L', b"two").file("three", b"");
    assert_eq!(read(&tar.end()), ["/two 0"]);
    let links = Tar::new()
        .pax(&[("linkpath", "one")])
        .long(b'K', b"two")
        .raw(&Header::new(b"l", b'2', 0).link(b"three"), b"");
    assert_eq!(read(&links.end()), ["/l -> two"]);
    let apart = Tar::new()
        .pax(&[("path", "one")])
        .long(b'K', b"two")
        .raw(&Header::new(b"l", b'2', 0).link(b"three"), b"");
    assert_eq!(read(&apart.end()), ["/one -> two"]);
}

#[test]
fn long_names_and_targets_of_both_formats_are_read() {
    let long = "n".repeat(300);
    let gnu = Tar::new()
        .long(b'K', long.as_bytes())
        .long(b'L', b"link")
        .raw(&Header::new(b"l", b'2', 0).gnu().link(b"cut"), b"");
    assert_eq!(read(&gnu.end()), [format!("/link -> {long}")]);
    let pax = Tar::new()
        .pax(&[("path", "link"), ("linkpath", &long)])
        .raw(&Header::new(b"l", b'2', 0).link(b"cut"), b"");
    assert_eq!(read(&pax.end()), [format!("/link -> {long}")]);
    let prefix = Header::new(b"name", b'0', 0).set(345, b"the/prefix");
    let ustar = Tar::new().raw(&prefix, b"");
    assert_eq!(read(&ustar.end()), ["/the/prefix/name 0"]);
    let odd_version = Tar::new().raw(&prefix.clone().set(263, b"\0\0"), b"");
    assert_eq!(read(&odd_version.end()), ["/the/prefix/name 0"]);
    // Jörg Schilling's star has times in the last bytes of the prefix.
    let [time, prefix] = [b"00000000000\0", &*b"p".repeat(131)].map(|field| prefix.clone().set(345, field));
    let star = prefix.set(476, b"00000000000\0").set(508, b"tar\0");
    assert_eq!(
        read(&Tar::new().raw(&star, b"").end()),
        [format!("/{}/name 0", "p".repeat(131))]
    );
    assert_eq!(read(&Tar::new().raw(&time, b"").end()), ["/00000000000/name 0"]);
}

// Docker 20.10, Podman 4.3 and umoci 0.4.7 agree with this and the next four tests.
#[test]
fn a_prefix_written_by_early_go_is_honoured_in_gnu_format() {
    let gnu = Header::new(b"name", b'0', 0).gnu();
    for (field, name) in [
        (&b"the/prefix"[..], "/the/prefix/name 0"),
        (b"00000000000\0", "/name 0"),
        (b"\0the/prefix", "/name 0"),
        ("thé".as_bytes(), "/name 0"),
        (&[0xff; 24], "/name 0"),
    ] {
        let tar = Tar::new().raw(&gnu.clone().set(345, field), b"");
        assert_eq!(read(&tar.end()), [name]);
    }
}

#[test]
fn a_long_name_ends_at_its_first_nul() {
    for (text, found) in [
        (&b"one\0two"[..], ["/one -> one"]),
        (b"\0two", ["/x -> y"]),
        (b"", ["/x -> y"]),
    ] {
        let tar = Tar::new()
            .long(b'L', text)
            .long(b'K', text)
            .raw(&Header::new(b"x", b'2', 0).gnu().link(b"y"), b"");
        assert_eq!(read(&tar.end()), found);
    }
}

#[test]
fn the_last_of_several_extension_headers_counts() {
    let names = Tar::new()
        .long(b'L', b"one")
        .long(b'K', b"to")
        .long(b'L', b"two")
        .long(b'K', b"there")
        .raw(&Header::new(b"x", b'2', 0).gnu(), b"");
    assert_eq!(read(&names.end()), ["/two -> there"]);
    let records = Tar::new()
        .pax(&[("path", "one"), ("size", "5")])
        .pax(&[("linkpath", "there")])
        .raw(&Header::new(b"x", b'2', 0).link(b"here"), b"");
    assert_eq!(read(&records.end()), ["/x -> there"]);
}

#[test]
fn an_empty_record_leaves_the_field_of_the_header() {
    let link = Header::new(b"x", b'2', 0).link(b"here");
    for records in [
        &[("path", ""), ("linkpath", "")][..],
        &[("path", "one"), ("path", "")],
        &[("size", "")],
    ] {
        assert_eq!(read(&Tar::new().pax(records).raw(&link, b"").end()), ["/x -> here"]);
    }
    // Then there is only one name.
    let long = Tar::new().pax(&[("path", "")]).long(b'L', b"two").file("x", b"");
    assert_eq!(read(&long.end()), ["/two 0"]);
}

#[test]
fn extension_headers_without_a_member_are_ignored() {
    for tar in [
        Tar::new().file("a", b"").pax(&[("path", "b")]),
        Tar::new().file("a", b"").long(b'L', b"b").long(b'K', b"c"),
    ] {
        for zeros in [0, 512, 1024, 10240] {
            let tar = [tar.clone().cut(), vec![0; zeros]].concat();
            assert_eq!(read(&tar), ["/a 0"], "{zeros} bytes of zeros");
        }
        refuse(&[tar.clone().cut(), vec![0; 7]].concat(), "in the middle of a header");
        let tar = tar.cut();
        refuse(&tar[..tar.len() - 512], "in the middle of a header");
    }
}

#[test]
fn t05_a_malformed_pax_record_is_an_error_with_its_place() {
    for records in [
        &b"seven path=b\n"[..],
        b"path=b\n",
        b"99 path=b\n",
        b"9 path=b",
        b"7 pathb\n",
        b"0 path=b\n",
        b"9 path=b\n\0\0\0",
        b"12 size=abc\n",
        b"10 size=-1\n",
        b"\xff\xff\xff",
        b"10 path=a\0\n",
        b"14 linkpath=\0\n",
        b"11 uname=\0b\n",
        b"11 gname=\0b\n",
        b"6 \0=b\n",
    ] {
        for kind in [b'x', b'g'] {
            let header = Header::new(b"PaxHeaders/x", kind, records.len());
            let tar = Tar::new().file("first", b"").raw(&header, records).file("a", b"");
            refuse(&tar.end(), "at byte 512 of the uncompressed layer");
        }
    }
}

#[test]
fn t05_unusual_owners_and_times_are_accepted() {
    let records = [
        ("mtime", "-1.5"),
        ("atime", "+12."),
        ("ctime", ""),
        ("uid", "-2"),
        ("gid", ""),
        ("uname", ""),
        ("SCHILY.xattr.security.capability", "a=b\n\0"),
        ("LIBARCHIVE.creationtime", "yesterday"),
    ];
    let bytes: Vec<u8> = records
        .iter()
        .flat_map(|(key, value)| record(key.as_bytes(), value.as_bytes()))
        .chain(record(b"gname", b"\xff\xfe"))
        .chain(record(b"SCHILY.xattr.user.\xff", b"v"))
        .collect();
    let header = Header::new(b"PaxHeaders/x", b'x', bytes.len());
    let tar = Tar::new().raw(&header, &bytes).file("a", b"x");
    assert_eq!(read(&tar.end()), ["/a 1"]);
}

#[test]
fn t05_records_with_malformed_owners_or_times_are_refused() {
    // Docker 20.10, Podman 4.3 and umoci 0.4.7 reject each of them: "archive/tar: invalid tar header".
    let odd = "? /a: a header field is not a number; no engine accepts it";
    for record in [
        ("mtime", "yesterday"),
        ("mtime", ".5"),
        ("mtime", "5.5x"),
        ("mtime", "99999999999999999999"),
        ("atime", "1e9"),
        ("ctime", "x"),
        ("uid", "nobody"),
        ("gid", "nobody"),
    ] {
        let tar = Tar::new().pax(&[record]).file("a", b"x").file("b", b"").end();
        assert_eq!(read(&tar), ["/a 1", "/b 0", odd], "{record:?}");
        let kinds = index(&tar).unwrap().problems.into_iter().map(|problem| problem.kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [ProblemKind::Refused]);
    }
    let global = record(b"mtime", b"yesterday");
    let tar = Tar::new().member("pax_global_header", b'g', &global).file("a", b"x");
    assert_eq!(read(&tar.end()), ["/a 1"]);
}

#[test]
fn t05_unusual_header_fields_are_accepted() {
    let plain = Header::new(b"a", b'0', 1);
    let negative = &[0xff; 12][..];
    for (what, header) in [
        ("a time before 1970", plain.clone().set(136, negative)),
        ("a group of -2", plain.clone().set(116, &negative[..8])),
        (
            "a size in base 256",
            plain.clone().set(124, b"\x80\0\0\0\0\0\0\0\0\0\0\x01"),
        ),
        ("a size behind a NUL", plain.clone().set(124, b"\x0000000000001")),
    ] {
        let tar = Tar::new().raw(&header, b"x").file("next", b"");
        assert_eq!(read(&tar.end()), ["/a 1", "/next 0"], "{what}");
    }
    // Docker 20.10, Podman 4.3 and umoci 0.4.7 reject these, too.
    let odd = "? /a: a header field is not a number; no engine accepts it";
    for header in [
        plain.clone().set(100, b"rw-r--r-"),
        plain.clone().set(108, b"nobody\0\0"),
        plain.clone().set(136, b"1234567.89\0\0"),
        plain.clone().set(329, b"????????????????"),
    ] {
        let tar = Tar::new().raw(&header, b"x").file("next", b"");
        assert_eq!(read(&tar.end()), ["/a 1", "/next 0", odd]);
    }
}

#[test]
fn an_ambiguous_size_is_an_error() {
    let plain = Header::new(b"a", b'0', 0);
    for size in [
        &b"\x80\0\0\x01\0\0\0\0\0\0\0\0"[..],
        &[0xff; 12],
        b"+0000000001\0",
        b"00000000009\0",
        b"-0000000001\0",
    ] {
        let tar = Tar::new().raw(&plain.clone().set(124, size), b"");
        refuse(&tar.end(), "the size is not a number");
    }
}

#[test]
fn checksums_are_compared_signed_and_unsigned() {
    let unsigned = Header::new(b"\xc3\xa9", b'0', 0).bytes();
    let mut signed = unsigned;
    let sum: i64 = unsigned
        .iter()
        .enumerate()
        .map(|(at, &byte)| match at {
            148..156 => i64::from(b' '),
            _ => i64::from(byte.cast_signed()),
        })
        .sum();
    signed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let name = ["/é 0"];
    assert_eq!(read(&unsigned), name);
    assert_eq!(read(&signed), name);
    let mut wrong = unsigned;
    wrong[0] = b'b';
    refuse(&wrong, "the checksum is");
}

#[test]
fn t06_global_headers_change_nothing() {
    let records = [record(b"comment", b"a commit"), record(b"path", b"all")].concat();
    let tar = Tar::new()
        .member("pax_global_header", b'g', &records)
        .file("a", b"x")
        .member("pax_global_header", b'g', b"")
        .file("b", b"");
    assert_eq!(read(&tar.end()), ["/a 1", "/b 0"]);
    let between = Tar::new()
        .pax(&[("path", "elsewhere")])
        .member("pax_global_header", b'g', &records)
        .file("a", b"x");
    refuse(&between.end(), "a global header stands between");
}

#[test]
fn an_extension_header_has_a_magic_number() {
    let no_magic = Header::new(b"x", b'x', 0).set(257, &[0; 8]);
    let tar = Tar::new().raw(&no_magic, b"").file("a", b"");
    refuse(&tar.end(), "has no magic number");
}

#[test]
fn a_single_zero_block_is_not_the_end() {
    let lone = [
        Tar::new().file("a", b"").cut(),
        vec![0; 512],
        Tar::new().file("b", b"").end(),
    ];
    refuse(&lone.concat(), "a lone block of zeros");
    let after_the_end = [Tar::new().file("a", b"").end(), inner()].concat();
    assert_eq!(read(&after_the_end), ["/a 0"]);
    for zeros in [0, 512, 1024, 10240] {
        let tar = [Tar::new().file("a", b"").cut(), vec![0; zeros]].concat();
        assert_eq!(read(&tar), ["/a 0"], "{zeros} bytes of zeros");
    }
    for zeros in [7, 513] {
        let tar = [Tar::new().file("a", b"").cut(), vec![0; zeros]].concat();
        refuse(&tar, "in the middle of a header");
    }
}

#[test]
fn t10_names_with_a_dot_in_front_are_the_same_tree() {
    let plain = Tar::new().member("usr/", b'5', b"").file("usr/lib/libx.so", b"x");
    let dotted = Tar::new()
        .member(".", b'5', b"")
        .member("./", b'5', b"")
        .member("./usr/", b'5', b"")
        .file("./usr/./lib//libx.so", b"x");
    assert_eq!(read(&plain.end()), ["/usr/", "/usr/lib/libx.so 1"]);
    assert_eq!(read(&dotted.end()), ["/usr/", "/usr/lib/libx.so 1"]);
}

#[test]
fn the_oldest_format_writes_directories_as_files() {
    let old = |name: &[u8]| Header::new(name, 0, 0).set(257, &[0; 8]);
    let tar = Tar::new().raw(&old(b"d/"), b"").raw(&old(b"d/f"), b"").file("e/", b"");
    assert_eq!(read(&tar.end()), ["/d/", "/d/f 0", "/e 0"]);
}

#[test]
fn types_unknown_to_engines_are_reported() {
    let tar = Tar::new().member("v", b'V', b"abc").file("a", b"");
    assert_eq!(
        read(&tar.end()),
        ["/a 0", "/v 3", "? /v: no engine knows its type 0x56; treated as a file"]
    );
    // Docker 20.10, containerd 1.6, Podman 4.3 and umoci 0.4.7 reject this one, too.
    let contiguous = Tar::new().member("c", b'7', b"abc");
    assert_eq!(
        read(&contiguous.end()),
        ["/c 3", "? /c: no engine knows its type 0x37; treated as a file"]
    );
}

#[test]
fn an_empty_layer_is_empty() {
    assert_eq!(read(b""), [""; 0]);
    assert_eq!(read(&Tar::new().end()), [""; 0]);
    assert_eq!(index(&Tar::new().end()).unwrap().bytes, 1024);
}
