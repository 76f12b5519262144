//! Libraries with one thing changed that loaders look at, by name.

/// A library for a 64-bit little-endian processor that is changed.
#[derive(Clone)]
pub struct Subject {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

/// A changed library: what was changed, and the bytes.
pub struct Mutant {
    pub name: String,
    pub bytes: Vec<u8>,
}

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const PAGE: u64 = 4096;
/// What numbers are changed to, besides those near by.
const ODD: [u64; 6] = [0, 1, 8, PAGE, 1 << 40, u64::MAX - 7];

/// A number in a header: its place and width.
#[derive(Clone, Copy)]
struct Field {
    at: usize,
    bytes: usize,
}

impl Subject {
    fn get(&self, field: Field) -> u64 {
        let mut word = [0; 8];
        word[..field.bytes].copy_from_slice(&self.bytes[field.at..field.at + field.bytes]);
        u64::from_le_bytes(word)
    }

    fn set(&mut self, field: Field, value: u64) {
        let word = value.to_le_bytes();
        self.bytes[field.at..field.at + field.bytes].copy_from_slice(&word[..field.bytes]);
    }

    fn with(&self, what: &str, change: impl FnOnce(&mut Self)) -> Mutant {
        let mut changed = self.clone();
        change(&mut changed);
        Mutant {
            name: format!("{}: {what}", self.name),
            bytes: changed.bytes,
        }
    }

    /// The field with each of these values that it has not.
    fn each(&self, what: &str, field: Field, values: &[u64]) -> Vec<Mutant> {
        let mask = u64::MAX >> (64 - 8 * field.bytes);
        let mut values: Vec<u64> = values.iter().map(|value| value & mask).collect();
        values.sort_unstable();
        values.dedup();
        values.retain(|value| *value != self.get(field));
        let one = |value: &u64| self.with(&format!("{what} = {value:#x}"), |it| it.set(field, *value));
        values.iter().map(one).collect()
    }

    fn segments(&self) -> Vec<Segment> {
        let start = usize::try_from(self.get(Field { at: 32, bytes: 8 })).unwrap();
        let count = usize::try_from(self.get(Field { at: 56, bytes: 2 })).unwrap();
        (0..count).map(|nth| Segment { at: start + 56 * nth }).collect()
    }

    fn of_kind(&self, kind: u64) -> Vec<Segment> {
        let all = self.segments().into_iter();
        all.filter(|segment| self.get(segment.kind()) == kind).collect()
    }

    /// The place in the file of an address.
    fn place(&self, address: u64) -> Option<usize> {
        let loads = self.of_kind(LOAD).into_iter();
        let mut found = loads.filter_map(|load| {
            let into = address.checked_sub(self.get(load.address()))?;
            (into < self.get(load.file_bytes())).then(|| self.get(load.offset()) + into)
        });
        usize::try_from(found.next()?).ok()
    }

    /// The entries of the dynamic section up to its end, which is the last.
    fn dynamic(&self) -> Vec<(u64, Field, Field)> {
        let start = self.get(self.of_kind(DYNAMIC)[0].offset());
        let mut at = usize::try_from(start).unwrap();
        let mut entries = Vec::new();
        loop {
            let (tag, value) = (Field { at, bytes: 8 }, Field { at: at + 8, bytes: 8 });
            entries.push((self.get(tag), tag, value));
            if self.get(tag) == 0 {
                return entries;
            }
            at += 16;
        }
    }

    fn table(&self, tag: u64) -> Option<usize> {
        let entries = self.dynamic();
        let (_, _, value) = entries.iter().find(|(found, _, _)| *found == tag)?;
        self.place(self.get(*value))
    }
}

/// A program header.
#[derive(Clone, Copy)]
struct Segment {
    at: usize,
}

impl Segment {
    fn field(self, into: usize, bytes: usize) -> Field {
        Field {
            at: self.at + into,
            bytes,
        }
    }

    fn kind(self) -> Field {
        self.field(0, 4)
    }

    fn flags(self) -> Field {
        self.field(4, 4)
    }

    fn offset(self) -> Field {
        self.field(8, 8)
    }

    fn address(self) -> Field {
        self.field(16, 8)
    }

    fn file_bytes(self) -> Field {
        self.field(32, 8)
    }

    fn memory_bytes(self) -> Field {
        self.field(40, 8)
    }

    fn align(self) -> Field {
        self.field(48, 8)
    }
}

/// All mutants of a library.
pub fn mutants(subject: &Subject) -> Vec<Mutant> {
    let parts = [header, segments, order, dynamic, versions, hashes, cuts];
    parts.iter().flat_map(|part| part(subject)).collect()
}

/// The header: what kind of file it says to be, and where its program headers are.
fn header(subject: &Subject) -> Vec<Mutant> {
    let fields: [(&str, usize, usize, &[u64]); 16] = [
        ("EI_MAG3", 3, 1, &[0, 0x45]),
        ("EI_CLASS", 4, 1, &[0, 1, 3]),
        ("EI_DATA", 5, 1, &[0, 2, 3]),
        ("EI_VERSION", 6, 1, &[0, 2]),
        ("EI_OSABI", 7, 1, &[1, 2, 3, 9, 97, 255]),
        ("EI_ABIVERSION", 8, 1, &[1, 4, 255]),
        ("EI_PAD", 9, 1, &[1]),
        ("e_type", 16, 2, &[0, 1, 2, 4, 0xfe00]),
        ("e_machine", 18, 2, &[0, 3, 40, 183, 0xffff]),
        ("e_version", 20, 4, &[0, 2, u64::MAX]),
        ("e_entry", 24, 8, &ODD),
        ("e_phoff", 32, 8, &ODD),
        ("e_flags", 48, 4, &[1, u64::MAX]),
        ("e_ehsize", 52, 2, &[0, 52]),
        ("e_phentsize", 54, 2, &[0, 32, 55, 57, 64, 0xffff]),
        ("e_phnum", 56, 2, &[0, 1, 2, 3, 64, 0xffff]),
    ];
    let each = |(what, at, bytes, values): &(&str, usize, usize, &[u64])| {
        let field = Field { at: *at, bytes: *bytes };
        subject.each(what, field, values)
    };
    fields.iter().flat_map(each).collect()
}

/// Every field of every program header.
fn segments(subject: &Subject) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (nth, segment) in subject.segments().into_iter().enumerate() {
        let kind = subject.get(segment.kind());
        let what = |field: &str| format!("segment {nth} (type {kind:#x}) {field}");
        let near = |field: Field, sizes: &[u64]| -> Vec<u64> {
            let value = subject.get(field);
            let moved = sizes
                .iter()
                .flat_map(|by| [value.wrapping_add(*by), value.wrapping_sub(*by)]);
            moved.chain(ODD).collect()
        };
        found.extend(subject.each(&what("p_type"), segment.kind(), &[0, 4, 1, 7]));
        found.extend(subject.each(&what("p_flags"), segment.flags(), &[0, 4, 5, 6, 7, 1]));
        for (name, field) in [
            ("p_offset", segment.offset()),
            ("p_vaddr", segment.address()),
            ("p_filesz", segment.file_bytes()),
            ("p_memsz", segment.memory_bytes()),
        ] {
            found.extend(subject.each(&what(name), field, &near(field, &[1, 16, PAGE, 0x10_0000])));
        }
        let aligns = [0, 1, 3, 16, 0x800, 0x1001, 0x1800, 0x4000, 0x20_0000, 1 << 40, 1 << 62];
        found.extend(subject.each(&what("p_align"), segment.align(), &aligns));
    }
    found
}

/// Loaded segments that change places, stand twice, or move together.
fn order(subject: &Subject) -> Vec<Mutant> {
    let loads = subject.of_kind(LOAD);
    let mut found = Vec::new();
    for (nth, one) in loads.iter().enumerate() {
        for (other_nth, other) in loads.iter().enumerate().skip(nth + 1) {
            found.push(
                subject.with(&format!("load {nth} and {other_nth} change places"), |it| {
                    for byte in 0..56 {
                        it.bytes.swap(one.at + byte, other.at + byte);
                    }
                }),
            );
            found.push(subject.with(&format!("load {other_nth} is load {nth} again"), |it| {
                it.bytes.copy_within(one.at..one.at + 56, other.at);
            }));
        }
        for by in [PAGE, 16 * PAGE, 1 << 30] {
            found.push(subject.with(&format!("load {nth} lies {by:#x} further on"), |it| {
                it.set(one.address(), it.get(one.address()) + by);
            }));
        }
    }
    found
}

/// Every entry of the dynamic section: gone, and with other values.
fn dynamic(subject: &Subject) -> Vec<Mutant> {
    let mut found = Vec::new();
    let entries = subject.dynamic();
    for (nth, (tag, tag_field, value)) in entries.iter().enumerate() {
        let what = |words: &str| format!("dynamic {nth} (tag {tag:#x}) {words}");
        // A tag that no loader knows.
        found.push(subject.with(&what("is gone"), |it| it.set(*tag_field, 0x6000_0100)));
        if *tag == 0 {
            continue;
        }
        let now = subject.get(*value);
        let values: Vec<u64> = [1, 8, 24, PAGE, 0x10_0000]
            .iter()
            .flat_map(|by| [now.wrapping_add(*by), now.wrapping_sub(*by)])
            .chain(ODD)
            .collect();
        found.extend(subject.each(&what("value"), *value, &values));
    }
    // The function of DT_INIT, whose address is its place in all of these libraries.
    if let Some((_, _, value)) = entries.iter().find(|(tag, _, _)| *tag == 12) {
        let at = usize::try_from(subject.get(*value)).unwrap();
        for count in [4, 16] {
            found.push(subject.with(&format!("{count} zeros begin DT_INIT"), |it| {
                it.bytes[at..at + count].fill(0);
            }));
        }
        found.push(subject.with("DT_INIT is in the header", |it| it.set(*value, 0x10)));
        found.push(subject.with("DT_INIT is in a program header", |it| it.set(*value, 0x58)));
    }
    let of_tag = |wanted| entries.iter().find(move |(tag, _, _)| *tag == wanted);
    if let (Some((_, list, value)), Some((_, size, _))) = (of_tag(25), of_tag(27)) {
        found.push(subject.with("DT_PREINIT_ARRAY without a size", |it| it.set(*list, 32)));
        for by in [0, 1, 0x10_0000, 1 << 40] {
            found.push(subject.with(&format!("DT_PREINIT_ARRAY, {by:#x} further on"), |it| {
                it.set(*list, 32);
                it.set(*size, 33);
                it.set(*value, subject.get(*value).wrapping_add(by));
            }));
        }
    }
    let (_, first, _) = entries[0];
    found.push(subject.with("the dynamic section is empty", |it| it.set(first, 0)));
    let flags = entries
        .iter()
        .find(|(tag, _, _)| *tag == 0x6fff_fffb || *tag == 0x6fff_fff9);
    if let Some((_, tag, value)) = flags {
        for flag in [0x40, 0x800_0000, 0x1, 0x8] {
            found.push(subject.with(&format!("DT_FLAGS_1 = {flag:#x}"), |it| {
                it.set(*tag, 0x6fff_fffb);
                it.set(*value, flag);
            }));
        }
    }
    found
}

/// The fields of the first needed and of the defined versions.
fn versions(subject: &Subject) -> Vec<Mutant> {
    let mut found = Vec::new();
    let mut each = |table: &str, at: usize, fields: &[(&str, usize, usize)]| {
        for (name, into, bytes) in fields {
            let field = Field {
                at: at + into,
                bytes: *bytes,
            };
            let now = subject.get(field);
            let values = [
                0,
                1,
                2,
                4,
                16,
                0x1000,
                0xff_0000,
                0x7fff_fff0,
                0xffff_fff0,
                now + 1,
                now + 4,
            ];
            found.extend(subject.each(&format!("{table} {name}"), field, &values));
        }
    };
    if let Some(at) = subject.table(0x6fff_fffe) {
        let fields = [
            ("vn_version", 0, 2),
            ("vn_cnt", 2, 2),
            ("vn_file", 4, 4),
            ("vn_aux", 8, 4),
            ("vn_next", 12, 4),
        ];
        each("verneed", at, &fields);
        let aux = at + usize::try_from(subject.get(Field { at: at + 8, bytes: 4 })).unwrap();
        let fields = [
            ("vna_hash", 0, 4),
            ("vna_flags", 4, 2),
            ("vna_other", 6, 2),
            ("vna_name", 8, 4),
            ("vna_next", 12, 4),
        ];
        each("vernaux", aux, &fields);
    }
    if let Some(at) = subject.table(0x6fff_fffc) {
        let fields = [
            ("vd_version", 0, 2),
            ("vd_flags", 2, 2),
            ("vd_ndx", 4, 2),
            ("vd_cnt", 6, 2),
            ("vd_hash", 8, 4),
            ("vd_aux", 12, 4),
            ("vd_next", 16, 4),
        ];
        each("verdef", at, &fields);
    }
    found
}

/// The numbers that a hash table begins with.
fn hashes(subject: &Subject) -> Vec<Mutant> {
    let mut found = Vec::new();
    let tables: [(u64, &[&str]); 2] = [
        (0x6fff_fef5, &["nbuckets", "symoffset", "bloom_size", "bloom_shift"]),
        (4, &["nbucket", "nchain"]),
    ];
    for (tag, names) in tables {
        let Some(at) = subject.table(tag) else { continue };
        for (nth, name) in names.iter().enumerate() {
            let field = Field {
                at: at + 4 * nth,
                bytes: 4,
            };
            found.extend(subject.each(
                &format!("hash {tag:#x} {name}"),
                field,
                &[0, 1, 2, 3, 64, 0x1_0000, 0x7fff_ffff],
            ));
        }
    }
    found
}

/// Files that end early, or whose end is zeros.
fn cuts(subject: &Subject) -> Vec<Mutant> {
    let mut found = Vec::new();
    let whole = subject.bytes.len();
    let mut ends: Vec<usize> = vec![
        0, 1, 3, 4, 15, 16, 52, 63, 64, 65, 100, 120, 500, 832, 833, 4095, 4096, 4097,
    ];
    ends.extend((1..16).map(|part| whole * part / 16));
    ends.extend([1, 100, 4096].iter().filter_map(|less| whole.checked_sub(*less)));
    ends.sort_unstable();
    ends.dedup();
    for end in ends.into_iter().filter(|end| *end < whole) {
        found.push(subject.with(&format!("cut at byte {end}"), |it| it.bytes.truncate(end)));
    }
    found
}
