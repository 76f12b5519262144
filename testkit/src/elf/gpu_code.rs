//! Containers of GPU code ("fat binaries"), as nvcc writes them, with eight bytes of code per entry.
//!
//! `crates/gpu-code` explains the format.

/// The bytes of an entry: its header and its code.
const ENTRY: usize = 72;
/// The alignment of containers.
const ALIGNMENT: usize = 8;

/// Code for one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuEntry {
    /// 1 for PTX, 2 for machine code.
    kind: u16,
    architecture: u32,
    flags: u64,
    /// 0x101; readers do not know others.
    version: u16,
}

impl GpuEntry {
    /// The entry of a name such as `sm_80`, `sm_90a`, `sm_100f` or `compute_90`, or one of an unknown version for
    /// `unknown`; `None` for another name.
    pub fn named(name: &str) -> Option<Self> {
        if name == "unknown" {
            let known = Self::named("sm_80")?;
            return Some(Self {
                version: 0x102,
                ..known
            });
        }
        let (kind, number) = match (name.strip_prefix("sm_"), name.strip_prefix("compute_")) {
            (Some(number), _) => (2, number),
            (None, number) => (1, number?),
        };
        let (number, flags) = match (number.strip_suffix('a'), number.strip_suffix('f')) {
            (Some(number), _) => (number, 0x10_0000),
            (None, Some(number)) => (number, 0x20_0000),
            (None, None) => (number, 0),
        };
        Some(Self {
            kind,
            architecture: number.parse().ok()?,
            flags,
            version: 0x101,
        })
    }

    fn bytes(self) -> Vec<u8> {
        let mut bytes = [self.kind, self.version].map(u16::to_le_bytes).concat();
        // A header of 64 bytes, and code of eight.
        bytes.extend([64, 0, 0, 0, 8]);
        bytes.resize(28, 0);
        bytes.extend(self.architecture.to_le_bytes());
        bytes.resize(40, 0);
        bytes.extend(self.flags.to_le_bytes());
        bytes.resize(ENTRY, 0);
        bytes
    }
}

/// Appends containers at the next aligned offset.
pub(super) fn append_containers(file: &mut Vec<u8>, containers: &[Vec<GpuEntry>]) {
    for entries in containers {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend([0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
        file.extend(((entries.len() * ENTRY) as u64).to_le_bytes());
        file.extend(entries.iter().flat_map(|entry| entry.bytes()));
    }
}
