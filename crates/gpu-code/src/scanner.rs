//! Reads the headers of all containers from a stream of an object's bytes.
//!
//! Section headers are at the end of an object, so a stream finds containers by their first bytes. These are aligned,
//! and a version follows.

use memchr::memmem;

use crate::code_kind::CodeKind;
use crate::container::{ALIGNMENT, CONTAINER_HEADER, ContainerHeader, ENTRY_HEADER, EntryHeader, MAGIC};
use crate::device_code::DeviceCode;

/// Reads the containers of one object from a stream.
#[derive(Debug, Default)]
pub struct DeviceCodeScanner {
    /// The bytes that have passed.
    position: u64,
    /// The bytes to pass over before the next header.
    skip: u64,
    /// The bytes of an incomplete header.
    header: Vec<u8>,
    /// The rest of the current container, and its entries so far.
    container: Option<(u64, Vec<(CodeKind, u64)>)>,
    code: DeviceCode,
    /// The last bytes outside the code, in which a section name may have begun.
    tail: Vec<u8>,
}

/// The name of a section with containers that a program only links at run time (`nvcc -rdc`). In a stream they look like
/// the others.
const LINKED_SECTION: &[u8] = b"\0__nv_relfatbin\0";

/// The most entries of one container that are counted. Real containers have up to 40.
const MOST_ENTRIES: usize = 4096;

impl DeviceCodeScanner {
    /// Reads the next bytes of the object.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
            let used = match (skipped, self.header.is_empty() && self.container.is_none()) {
                (0, true) => self.find_container(bytes),
                (0, false) => self.take_header(bytes),
                (skipped, _) => {
                    self.skip -= skipped as u64;
                    skipped
                }
            };
            self.position += used as u64;
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// The code that was found; `None` if there is none.
    pub fn finish(mut self) -> Option<DeviceCode> {
        if let Some((_, entries)) = self.container.take() {
            self.code.is_partial = true;
            self.code.add(entries);
        }
        (!self.code.sets.is_empty()).then_some(self.code)
    }

    /// Passes over bytes until the start of a header.
    fn find_container(&mut self, bytes: &[u8]) -> usize {
        let used = self.find_magic(bytes);
        let passed = bytes.get(..used).unwrap_or_default();
        let edge = passed.get(..passed.len().min(LINKED_SECTION.len())).unwrap_or_default();
        self.tail.extend_from_slice(edge);
        let parts = [self.tail.as_slice(), passed];
        self.code.is_partial |= parts.iter().any(|part| memmem::find(part, LINKED_SECTION).is_some());
        if passed.len() > edge.len() {
            self.tail.clear();
            let last = passed.len().saturating_sub(LINKED_SECTION.len());
            self.tail.extend_from_slice(passed.get(last..).unwrap_or_default());
        }
        let surplus = self.tail.len().saturating_sub(LINKED_SECTION.len());
        self.tail.drain(..surplus);
        used
    }

    /// The number of bytes before a header, and the start of the header in them.
    fn find_magic(&mut self, bytes: &[u8]) -> usize {
        for found in memmem::find_iter(bytes, &MAGIC) {
            if (self.position + found as u64).is_multiple_of(ALIGNMENT) {
                self.header.extend_from_slice(&MAGIC);
                return found + MAGIC.len();
            }
        }
        // The pieces of a stream may end within the four bytes.
        let ends = (1..MAGIC.len())
            .rev()
            .filter(|n| bytes.ends_with(MAGIC.get(..*n).unwrap_or_default()));
        for begun in ends.filter(|n| bytes.len() >= *n) {
            if (self.position + (bytes.len() - begun) as u64).is_multiple_of(ALIGNMENT) {
                self.header.extend(MAGIC.iter().take(begun));
                break;
            }
        }
        bytes.len()
    }

    /// Adds bytes to the header, and reads it when it is complete.
    fn take_header(&mut self, bytes: &[u8]) -> usize {
        let size = if self.container.is_some() {
            ENTRY_HEADER
        } else {
            CONTAINER_HEADER
        };
        let used = (size - self.header.len()).min(bytes.len());
        self.header.extend(bytes.iter().take(used));
        if self.header.len() == size {
            let header = std::mem::take(&mut self.header);
            self.read_header(&header);
        }
        used
    }

    fn read_header(&mut self, header: &[u8]) {
        match &mut self.container {
            None => {
                let found = header.first_chunk().and_then(ContainerHeader::read);
                self.container = found.map(|found| (found.content, Vec::new()));
            }
            Some((left, entries)) => {
                if let Some(entry) = header.first_chunk().and_then(|header| EntryHeader::read(header, *left)) {
                    *left -= entry.bytes;
                    self.skip = entry.bytes - ENTRY_HEADER as u64;
                    if entries.len() < MOST_ENTRIES {
                        entries.push((entry.kind, entry.bytes));
                    } else {
                        self.code.is_partial = true;
                    }
                } else {
                    // Unknown code. The next container is behind this one.
                    self.code.is_partial = true;
                    self.skip = left.saturating_sub(ENTRY_HEADER as u64);
                    *left = 0;
                }
            }
        }
        if let Some((left, entries)) = self.container.take_if(|(left, _)| *left < ENTRY_HEADER as u64) {
            self.code.is_partial |= left > 0;
            self.code.add(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceCodeScanner;
    use testkit::gpu_object::{container, cubin, ptx};

    #[test]
    fn pieces_of_any_size_show_the_same_code() {
        let mut object = b"\x7fELF and text\x50\xed\x55\xba".to_vec();
        object.resize(40, 0);
        object.extend(container(&[cubin(80, 8), cubin(90, 8), ptx(90, 8)]));
        object.extend(container(&[cubin(80, 8), ptx(90, 8), cubin(90, 8)]));
        object.extend([0; 24]);
        object.extend(container(&[ptx(70, 8)]));
        object.extend(b"text");
        for size in 1..80 {
            let mut scanner = DeviceCodeScanner::default();
            object.chunks(size).for_each(|piece| scanner.push(piece));
            let code = scanner.finish().unwrap();
            let sets: Vec<String> = code
                .sets
                .iter()
                .map(|set| {
                    let names = set
                        .amounts
                        .iter()
                        .map(|it| format!("{} {} {}", it.kind, it.entries, it.bytes));
                    format!("{}: {}", set.containers, names.collect::<Vec<_>>().join(", "))
                })
                .collect();
            assert_eq!(
                sets,
                ["2: sm_80 2 144, sm_90 2 144, compute_90 2 144", "1: compute_70 1 72"],
                "pieces of {size}"
            );
            assert!(!code.is_partial);
        }
    }

    #[test]
    fn code_that_is_linked_at_run_time_cannot_be_told_apart() {
        let mut object = container(&[cubin(80, 8)]);
        object.extend(b"padding\0.nv_fatbin\0__nv_relfatbin\0.text\0");
        for size in 1..60 {
            let mut scanner = DeviceCodeScanner::default();
            object.chunks(size).for_each(|piece| scanner.push(piece));
            assert!(scanner.finish().unwrap().is_partial, "pieces of {size}");
        }
    }

    #[test]
    fn a_damaged_container_is_partial_and_not_code() {
        let mut damaged = container(&[cubin(80, 8)]);
        damaged[18] = 9;
        let scan = |bytes: &[u8]| {
            let mut scanner = DeviceCodeScanner::default();
            scanner.push(bytes);
            scanner.finish()
        };
        assert_eq!(scan(&damaged), None);
        damaged.extend(container(&[cubin(90, 8)]));
        let code = scan(&damaged).unwrap();
        assert_eq!((code.sets.len(), code.is_partial), (1, true));
        let cut = container(&[cubin(80, 8), cubin(90, 8)]);
        let code = scan(&cut[..cut.len() - 40]).unwrap();
        assert!(code.is_partial);
    }
}
