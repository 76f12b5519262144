//! Numbers in the class and byte order of an object.

use super::{Class, Elf, Endian};

/// A growing byte buffer with a class and a byte order.
pub struct Writer {
    bytes: Vec<u8>,
    class: Class,
    endian: Endian,
}

impl Writer {
    /// An empty buffer for `elf`.
    pub fn new(elf: &Elf) -> Self {
        Self {
            bytes: Vec::new(),
            class: elf.class,
            endian: elf.endian,
        }
    }

    /// Appends bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends two bytes.
    pub fn half(&mut self, value: u16) -> &mut Self {
        let (le, be) = (value.to_le_bytes(), value.to_be_bytes());
        self.either(&le, &be)
    }

    /// Appends four bytes.
    pub fn word(&mut self, value: u32) -> &mut Self {
        let (le, be) = (value.to_le_bytes(), value.to_be_bytes());
        self.either(&le, &be)
    }

    /// Appends an address, an offset or a size: four bytes or eight, by class.
    pub fn address(&mut self, value: u64) -> &mut Self {
        match self.class {
            Class::Elf32 => self.word(word(value)),
            Class::Elf64 => {
                let (le, be) = (value.to_le_bytes(), value.to_be_bytes());
                self.either(&le, &be)
            }
        }
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn either(&mut self, little: &[u8], big: &[u8]) -> &mut Self {
        match self.endian {
            Endian::Little => self.raw(little),
            Endian::Big => self.raw(big),
        }
    }
}

/// A number as 32 bits.
pub fn word(value: impl TryInto<u32>) -> u32 {
    let Ok(value) = value.try_into() else {
        panic!("an object that a test makes is smaller than 4 GiB");
    };
    value
}

/// A number as 16 bits.
pub fn half(value: usize) -> u16 {
    u16::try_from(value).expect("an object that a test makes has fewer than 65536 symbols and versions")
}

/// A size as a file offset or address.
pub fn wide(value: usize) -> u64 {
    u64::try_from(value).expect("sizes have at most 64 bits")
}
