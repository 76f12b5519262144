//! Notes: the required x86-64 level, and the optional dlopen dependencies.

use super::write::{Writer, word};
use super::{Class, Elf};

/// A level of the x86-64 psABI. Each includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsaLevel {
    /// x86-64-v1, the baseline.
    V1,
    /// x86-64-v2.
    V2,
    /// x86-64-v3.
    V3,
    /// x86-64-v4.
    V4,
    /// A level that no processor supports yet.
    Beyond,
}

impl IsaLevel {
    /// The bits that the GNU linker writes: those of the level and of all lower levels.
    fn bits(self) -> u32 {
        match self {
            Self::V1 => 0b1,
            Self::V2 => 0b11,
            Self::V3 => 0b111,
            Self::V4 => 0b1111,
            Self::Beyond => 0b1_1111,
        }
    }
}

/// A note, independent of byte order.
#[derive(Debug, Clone)]
pub struct Note {
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    IsaNeeded(IsaLevel),
    Dlopen(Vec<u8>),
}

const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const GNU_PROPERTY_X86_ISA_1_NEEDED: u32 = 0xc000_8002;
/// The type of the dlopen note (UAPI group, "ELF dlopen metadata").
const NT_FDO_DLOPEN_METADATA: u32 = 0x407c_0c0a;

impl Note {
    pub(super) fn isa_needed(level: IsaLevel) -> Self {
        let content = Content::IsaNeeded(level);
        Self { content }
    }

    pub(super) fn dlopen(json: &[u8]) -> Self {
        let content = Content::Dlopen(json.to_vec());
        Self { content }
    }

    /// The alignment of the note: by class for properties, four bytes for others.
    pub(super) fn align(&self, elf: &Elf) -> u64 {
        match (&self.content, elf.class) {
            (Content::IsaNeeded(_), Class::Elf64) => 8,
            _ => 4,
        }
    }

    /// Whether the note also needs a `PT_GNU_PROPERTY`.
    pub(super) fn is_property(&self) -> bool {
        matches!(self.content, Content::IsaNeeded(_))
    }

    /// The bytes of the note, including the padding after the descriptor.
    pub(super) fn bytes(&self, elf: &Elf) -> Vec<u8> {
        let (owner, kind, descriptor): (&[u8], _, _) = match &self.content {
            Content::IsaNeeded(level) => {
                let mut property = Writer::new(elf);
                property.word(GNU_PROPERTY_X86_ISA_1_NEEDED).word(4);
                property.word(level.bits());
                let mut property = property.into_bytes();
                property.resize(if self.align(elf) == 8 { 16 } else { 12 }, 0);
                (b"GNU\0", NT_GNU_PROPERTY_TYPE_0, property)
            }
            Content::Dlopen(json) => {
                let descriptor = [json, b"\0".as_slice()].concat();
                (b"FDO\0", NT_FDO_DLOPEN_METADATA, descriptor)
            }
        };
        let mut note = Writer::new(elf);
        note.word(4).word(word(descriptor.len())).word(kind);
        note.raw(owner).raw(&descriptor);
        let mut note = note.into_bytes();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }
}
