//! The headers of containers and of their entries (see the crate's documentation for sources).

use crate::architecture::GpuArchitecture;
use crate::code_kind::{ArchitectureSuffix, CodeForm, CodeKind};
use crate::object_file::{Checked, ObjectFile, Obstacle, PIECE, require, u16_at, u32_at, u64_at};
use crate::read_at::ReadAt;

/// The bytes of a container's header.
pub(crate) const CONTAINER_HEADER: usize = 16;
/// The bytes of an entry's header without its options.
pub(crate) const ENTRY_HEADER: usize = 64;
/// The first bytes of a container, 0xBA55ED50.
pub(crate) const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
/// The alignment of containers and entries in bytes.
pub(crate) const ALIGNMENT: u64 = 8;

// Bits of an entry's flags.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const EXACT: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

/// The most entries of one object. The largest known library has 8,000.
const MOST_ENTRIES: usize = 1 << 20;

/// A container's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerHeader {
    /// The bytes of all entries.
    pub content: u64,
}

impl ContainerHeader {
    /// Reads the header; `None` if these bytes are none, or one of an unknown version.
    pub(crate) fn read(header: &[u8; CONTAINER_HEADER]) -> Option<Self> {
        let is_known = header.starts_with(&MAGIC) && u16_at(header, 4) == 1 && u16_at(header, 6) == 16;
        let content = u64_at(header, 8);
        (is_known && content.is_multiple_of(ALIGNMENT)).then_some(Self { content })
    }

    pub(crate) fn bytes(self) -> [u8; CONTAINER_HEADER] {
        let mut header = [0; CONTAINER_HEADER];
        let (start, content) = header.split_at_mut(8);
        start.copy_from_slice(&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
        content.copy_from_slice(&self.content.to_le_bytes());
        header
    }
}

/// An entry's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// The bytes of the header with its options.
    pub header: u64,
    /// The bytes of header and code with padding.
    pub bytes: u64,
    /// Whether the code is stored uncompressed.
    pub is_plain: bool,
    pub kind: CodeKind,
}

impl EntryHeader {
    /// Reads the header; `left` is the rest of the container.
    pub(crate) fn read(header: &[u8; ENTRY_HEADER], left: u64) -> Option<Self> {
        let (own, payload) = (u64::from(u32_at(header, 4)), u64_at(header, 8));
        let bytes = own.checked_add(payload)?;
        let is_sound = u16_at(header, 2) == 0x101
            && (64..=4096).contains(&own)
            && own.is_multiple_of(ALIGNMENT)
            && payload.is_multiple_of(ALIGNMENT)
            && bytes <= left
            && u64::from(u32_at(header, 16)) <= payload;
        let flags = u64_at(header, 40);
        let form = match u16_at(header, 0) {
            1 => CodeForm::Ptx,
            2 => CodeForm::Cubin,
            kind => CodeForm::Other(kind),
        };
        let suffix = match (flags & EXACT != 0, flags & FAMILY != 0) {
            (false, false) => ArchitectureSuffix::None,
            (true, false) => ArchitectureSuffix::Exact,
            (false, true) => ArchitectureSuffix::Family,
            (true, true) => return None,
        };
        let architecture = GpuArchitecture::new(u32_at(header, 28))?;
        is_sound.then_some(Self {
            header: own,
            bytes,
            is_plain: flags & (LZ4 | ZSTD) == 0,
            kind: CodeKind {
                architecture,
                suffix,
                form,
            },
        })
    }
}

/// An entry of a container in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeEntry {
    /// The file offset of its header.
    pub offset: u64,
    /// The bytes of header and code.
    pub bytes: u64,
    pub kind: CodeKind,
}

/// A container in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeContainer {
    /// The file offset of its header.
    pub offset: u64,
    /// All its bytes.
    pub bytes: u64,
    pub entries: Vec<CodeEntry>,
}

/// Reads the headers of one container, which ends at `end` at the latest.
pub(crate) fn read_container<R: ReadAt + ?Sized>(
    file: &ObjectFile<'_, R>,
    offset: u64,
    end: u64,
) -> Checked<CodeContainer> {
    let header =
        ContainerHeader::read(&file.array(offset)?).ok_or(Obstacle::Unexpected("a container of an unknown version"))?;
    let mut at = offset + CONTAINER_HEADER as u64;
    require(
        header.content <= end.saturating_sub(at),
        "a container ends behind its section",
    )?;
    let end = at + header.content;
    let mut entries = Vec::new();
    while at < end {
        require(end - at >= ENTRY_HEADER as u64, "an entry ends behind its container")?;
        let entry = EntryHeader::read(&file.array(at)?, end - at)
            .ok_or(Obstacle::Unexpected("an entry of an unknown version"))?;
        if entry.kind.form == CodeForm::Cubin && entry.is_plain {
            let start: [u8; 4] = file.array(at + entry.header)?;
            require(start == *b"\x7fELF", "machine code that is no ELF object")?;
        }
        require(entries.len() < MOST_ENTRIES, "too many entries")?;
        entries.push(CodeEntry {
            offset: at,
            bytes: entry.bytes,
            kind: entry.kind,
        });
        at += entry.bytes;
    }
    Ok(CodeContainer {
        offset,
        bytes: end - offset,
        entries,
    })
}

/// The bytes of the zeros at `at`, in steps of the alignment.
fn leading_zeros<R: ReadAt + ?Sized>(file: &ObjectFile<'_, R>, at: u64, end: u64) -> Checked<u64> {
    let start: [u8; 8] = file.array(at)?;
    if start != [0; 8] {
        return Ok(0);
    }
    let piece = file.vec(at, PIECE.min(end - at))?;
    let zeros = piece.iter().position(|byte| *byte != 0).unwrap_or(piece.len()) as u64;
    Ok(zeros / ALIGNMENT * ALIGNMENT)
}

/// Reads the headers of all containers in a range of the file. Zeros between them are skipped.
pub(crate) fn read_containers<R: ReadAt + ?Sized>(
    file: &ObjectFile<'_, R>,
    offset: u64,
    bytes: u64,
) -> Checked<Vec<CodeContainer>> {
    let end = offset + bytes;
    let (mut at, mut entries, mut containers) = (offset, 0, Vec::new());
    while end - at >= CONTAINER_HEADER as u64 {
        let zeros = leading_zeros(file, at, end)?;
        if zeros > 0 {
            at += zeros;
            continue;
        }
        let container = read_container(file, at, end)?;
        entries += container.entries.len().max(1);
        require(entries < MOST_ENTRIES, "too many entries")?;
        at += container.bytes;
        containers.push(container);
    }
    let rest = file.vec(at, end - at)?;
    require(rest.iter().all(|byte| *byte == 0), "bytes behind the last container")?;
    if containers.is_empty() {
        Err(Obstacle::NoCode)
    } else {
        Ok(containers)
    }
}
