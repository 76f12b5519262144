//! Compares the output with zlib-rs for members read in various pieces, complete, truncated and damaged.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails says where"
)]

use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use isal_inflate::MemberReader;

/// A pseudo-random generator with the same sequence everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Text with near and far repetitions, noise, and runs.
fn plain(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..chance.below(30) {
        let length = 1 + chance.below(9_000);
        match chance.below(3) {
            0 => bytes.extend((0..length).map(|_| u8::try_from(chance.below(256)).unwrap())),
            1 => bytes.resize(bytes.len() + length, u8::try_from(chance.below(256)).unwrap()),
            _ => {
                let start = chance.below(bytes.len() + 1);
                let end = (start + length).min(bytes.len());
                bytes.extend_from_within(start..end);
            }
        }
    }
    bytes
}

fn member(plain: &[u8], level: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(u32::try_from(level).unwrap()));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Reads the input in pieces of changing size.
fn read_in_pieces(mut reader: impl Read, chance: &mut Chance) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let bound = [7, 700, 70_000][chance.below(3)];
        let mut piece = vec![0; 1 + chance.below(bound)];
        match reader.read(&mut piece)? {
            0 => return Ok(out),
            n => out.extend_from_slice(&piece[..n]),
        }
    }
}

#[test]
fn a_member_reads_as_with_zlib_rs() {
    let mut chance = Chance(1);
    for _ in 0..600 {
        let text = plain(&mut chance);
        let level = chance.below(10);
        let stored = [member(&text, level), b"rest".to_vec()].concat();
        let capacity = 1 + chance.below(5_000);
        let mut reader = MemberReader::new(BufReader::with_capacity(capacity, stored.as_slice()));
        assert_eq!(read_in_pieces(&mut reader, &mut chance).unwrap(), text);
        let mut rest = String::new();
        reader.into_inner().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest", "what follows the member is left");
    }
}

#[test]
fn a_header_reads_as_with_zlib_rs() {
    let body = &member(b"text", 6)[10..];
    let name = |length: usize| {
        [
            &[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 255],
            vec![b'n'; length].as_slice(),
            &[0],
        ]
        .concat()
    };
    let flags = |flags: u8| vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
    let extra = [flags(4), vec![2, 0, 1, 2]].concat();
    let headers = [
        name(0),
        name(60_000),
        name(70_000),
        name(2_000_000),
        flags(0),
        flags(1),
        flags(32),
        flags(128),
        extra,
    ];
    let readable: Vec<bool> = headers
        .iter()
        .map(|header| {
            let stored = [header.as_slice(), body].concat();
            let text = read_to_end(MemberReader::new(BufReader::with_capacity(7, stored.as_slice())));
            assert_eq!(text.is_ok(), read_to_end(GzDecoder::new(stored.as_slice())).is_ok());
            text.is_ok_and(|text| text == b"text")
        })
        .collect();
    assert_eq!(readable, [true, true, false, false, true, true, false, false, true]);
}

fn read_to_end(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    reader.read_to_end(&mut out).map(|_| out)
}

#[test]
fn damage_is_an_error_wherever_zlib_rs_reports_one() {
    let (mut chance, mut refused) = (Chance(2), 0);
    for _ in 0..3_000 {
        let text = plain(&mut chance);
        let mut stored = member(&text, 1 + chance.below(9));
        if chance.below(4) == 0 {
            stored.truncate(chance.below(stored.len()));
        }
        for _ in 0..chance.below(3) {
            // Half of the damage is in the header, which has ten bytes.
            let within = [stored.len(), 10][chance.below(2)];
            let at = chance.below(within.max(1));
            if let Some(byte) = stored.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        let capacity = 1 + chance.below(3_000);
        let ours = read_in_pieces(
            MemberReader::new(BufReader::with_capacity(capacity, stored.as_slice())),
            &mut chance,
        );
        let mut expected = Vec::new();
        let theirs = GzDecoder::new(stored.as_slice()).read_to_end(&mut expected);
        refused += usize::from(theirs.is_err());
        match (ours, theirs) {
            (Ok(ours), Ok(_)) => assert_eq!(ours, expected),
            (Err(_), Err(_)) => {}
            (ours, theirs) => panic!("{:?} {theirs:?} {:x?}", ours.map(|_| ()), stored.first_chunk::<10>()),
        }
    }
    assert!(refused > 1_000, "{refused} of 3,000 are refused");
}
