//! Are the facts of an ELF object those of the object, whatever its shape and however it is damaged?

mod damage;
mod facts;
mod reach;
mod real;

use std::sync::LazyLock;

use image_linkage::elf::NameMatcher;
use image_linkage::elf::{ElfFacts, ElfStream};

/// What the layer stage looks for, in short.
static INTEREST: LazyLock<NameMatcher> =
    LazyLock::new(|| NameMatcher::new(["libcupti.so", "libnvperf_host.so"], ["cupti", "NVPW"]));

fn facts(bytes: &[u8]) -> ElfFacts {
    ElfFacts::of_bytes(bytes, &INTEREST)
}

/// The facts of an object that comes in chunks, with a bound on the start that is held.
fn streamed(bytes: &[u8], chunk: usize, head_limit: usize) -> ElfFacts {
    let mut stream = ElfStream::new(&INTEREST, head_limit);
    bytes.chunks(chunk).for_each(|chunk| stream.push(chunk));
    stream.finish()
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| bytes.escape_ascii().to_string())
}
