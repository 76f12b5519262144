//! Shared objects with GPU code: containers in `.nv_fatbin`, and pointers to them in `.nvFatBinSegment`.
#![expect(
    clippy::indexing_slicing,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a builder for tests has sizes that fit"
)]

/// One entry of a container.
#[derive(Debug, Clone, Copy)]
pub struct GpuEntry {
    /// 1 is PTX, 2 a cubin.
    pub kind: u16,
    /// The architecture, such as 90.
    pub arch: u32,
    /// Bit 20 is the suffix `a`, bit 21 is `f`.
    pub flags: u64,
    /// The bytes of code; a multiple of eight.
    pub bytes: usize,
}

/// Machine code for an architecture.
pub fn cubin(arch: u32, bytes: usize) -> GpuEntry {
    GpuEntry {
        kind: 2,
        arch,
        flags: 0,
        bytes,
    }
}

/// PTX for an architecture.
pub fn ptx(arch: u32, bytes: usize) -> GpuEntry {
    GpuEntry {
        kind: 1,
        ..cubin(arch, bytes)
    }
}

/// A container with entries. Each has its own bytes, so that no two are equal.
pub fn container(entries: &[GpuEntry]) -> Vec<u8> {
    let mut content = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let mut header = [0; 64];
        header[..2].copy_from_slice(&entry.kind.to_le_bytes());
        header[2..8].copy_from_slice(&[1, 1, 64, 0, 0, 0]);
        header[8..16].copy_from_slice(&(entry.bytes as u64).to_le_bytes());
        header[28..32].copy_from_slice(&entry.arch.to_le_bytes());
        header[40..48].copy_from_slice(&(entry.flags | 0x11).to_le_bytes());
        content.extend(header);
        let begin = content.len();
        let fill = (1..=251_u8).cycle().skip(number * 7 + entry.arch as usize);
        content.extend(fill.take(entry.bytes));
        if entry.kind == 2 {
            content[begin..begin + 4].copy_from_slice(b"\x7fELF");
        }
    }
    let mut container = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    container.extend((content.len() as u64).to_le_bytes());
    container.extend(content);
    container
}

/// A shared object with GPU code, for x86-64.
#[derive(Debug, Clone)]
pub struct GpuObject {
    /// Its soname.
    pub soname: String,
    /// Its containers, each with the version of its record: 1, or 2 if the code may be linked at run time.
    pub containers: Vec<(Vec<u8>, u32)>,
    /// Text in `.rodata`.
    pub text: String,
}

const PAGE: usize = 0x1000;
/// The difference between address and offset of the writable segment.
const SHIFT: usize = 0x20_0000;

impl GpuObject {
    /// An object with containers of version 1.
    pub fn new(soname: &str, containers: &[Vec<u8>]) -> Self {
        Self {
            soname: soname.to_owned(),
            containers: containers.iter().map(|container| (container.clone(), 1)).collect(),
            text: String::new(),
        }
    }

    /// The bytes of the object.
    pub fn build(&self) -> Vec<u8> {
        let mut file = vec![0; 64 + 5 * 56];
        // The first segment: names, relocations.
        let strings = file.len();
        file.push(0);
        file.extend(self.soname.as_bytes());
        file.extend([0; 9]);
        let strings_end = file.len();
        align(&mut file, 8);
        let symbols = file.len();
        file.extend([0; 24]);
        let relocations = file.len();
        file.resize(relocations + 24 * self.containers.len(), 0);
        let text = file.len();
        file.extend(self.text.as_bytes());
        file.push(0);
        let first_end = file.len();
        align(&mut file, PAGE);
        let code = file.len();
        let starts: Vec<usize> = self
            .containers
            .iter()
            .map(|(container, _)| {
                let start = file.len();
                file.extend(container);
                start
            })
            .collect();
        let code_end = file.len();
        align(&mut file, PAGE);
        let records = file.len();
        for (number, ((_, version), start)) in self.containers.iter().zip(&starts).enumerate() {
            let record = file.len();
            file.extend(0x4662_43b1_u32.to_le_bytes());
            file.extend(version.to_le_bytes());
            file.extend([0; 16]);
            let row = [(record + 8 + SHIFT) as u64, 8, *start as u64];
            put(&mut file, relocations + 24 * number, &row);
        }
        let records_end = file.len();
        let rows: [(u64, usize); 8] = [
            (14, 1),
            (5, strings),
            (10, strings_end - strings),
            (6, symbols),
            (11, 24),
            (7, relocations),
            (8, 24 * self.containers.len()),
            (9, 24),
        ];
        let dynamic = file.len();
        for (tag, value) in rows.into_iter().chain([(0, 0)]) {
            file.extend(tag.to_le_bytes());
            file.extend((value as u64).to_le_bytes());
        }
        let dynamic_end = file.len();
        let sections = [
            ("", 0, 0, 0..0),
            (".dynstr", 3, 2, strings..strings_end),
            (".dynsym", 11, 2, symbols..symbols + 24),
            (".rela.dyn", 4, 2, relocations..text),
            (".rodata", 1, 2, text..first_end),
            (".nv_fatbin", 1, 2, code..code_end),
            (".nvFatBinSegment", 1, 3, records..records_end),
            (".dynamic", 6, 3, dynamic..dynamic_end),
        ];
        let segments = [
            (1, 4, 0..first_end, PAGE),
            (1, 4, code..code_end, PAGE),
            (1, 6, records..dynamic_end, PAGE),
            (2, 6, dynamic..dynamic_end, 8),
            (0x6474_e551, 6, 0..0, 16),
        ];
        write_tables(&mut file, &sections, &segments, records);
        file
    }
}

type SectionRow<'a> = (&'a str, u32, u64, std::ops::Range<usize>);
type SegmentRow = (u32, u32, std::ops::Range<usize>, usize);

/// Writes the section names, the section headers, the program headers and the file header.
fn write_tables(file: &mut Vec<u8>, sections: &[SectionRow<'_>], segments: &[SegmentRow], writable: usize) {
    let address = |offset: usize| if offset >= writable { offset + SHIFT } else { offset };
    let names = file.len();
    let mut starts = Vec::new();
    for (name, ..) in sections {
        starts.push(file.len() - names);
        file.extend(name.as_bytes());
        file.push(0);
    }
    let own = file.len() - names;
    file.extend(b".shstrtab\0");
    let names_end = file.len();
    align(file, 8);
    let table = file.len();
    let last = (".shstrtab", 3, 0, names..names_end);
    for ((_, kind, flags, range), name) in sections.iter().chain([&last]).zip(starts.into_iter().chain([own])) {
        file.extend(u32::try_from(name).unwrap().to_le_bytes());
        file.extend(kind.to_le_bytes());
        let at = if *flags > 0 { address(range.start) } else { 0 };
        let rest = [*flags, at as u64, range.start as u64, range.len() as u64, 0, 8, 0];
        for number in rest {
            file.extend(number.to_le_bytes());
        }
    }
    for (number, (kind, flags, range, align)) in segments.iter().enumerate() {
        let at = if range.is_empty() { 0 } else { address(range.start) } as u64;
        let bytes = range.len() as u64;
        let kinds = u64::from(*kind) | u64::from(*flags) << 32;
        let row = [kinds, range.start as u64, at, at, bytes, bytes, *align as u64];
        put(file, 64 + 56 * number, &row);
    }
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    put(file, 16, &[3 | 62 << 16 | 1 << 32, 0, 64, table as u64]);
    let count = u16::try_from(sections.len()).unwrap();
    for (at, number) in [(52, 64), (54, 56), (56, 5), (58, 64), (60, count + 1), (62, count)] {
        file[at..at + 2].copy_from_slice(&number.to_le_bytes());
    }
}

fn align(file: &mut Vec<u8>, to: usize) {
    file.resize(file.len().next_multiple_of(to), 0);
}

/// Writes numbers of eight bytes at an offset.
fn put(file: &mut [u8], at: usize, numbers: &[u64]) {
    for (place, number) in (at..).step_by(8).zip(numbers) {
        file[place..place + 8].copy_from_slice(&number.to_le_bytes());
    }
}
