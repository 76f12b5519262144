//! Do the facts of an ELF object match it, for any layout and damage?

mod damage;
mod facts;
mod reach;
mod real;

use std::sync::LazyLock;

use image_linkage::elf::NameMatcher;
use image_linkage::elf::{ElfFacts, ElfStream};

/// A short version of the names that the layer stage searches for.
static INTEREST: LazyLock<NameMatcher> =
    LazyLock::new(|| NameMatcher::new(["libcupti.so", "libnvperf_host.so"], ["cupti", "NVPW"]));

fn facts(bytes: &[u8]) -> ElfFacts {
    ElfFacts::of_bytes(bytes, &INTEREST)
}

/// The facts of an object that arrives in chunks, with a limit for its kept start.
fn streamed(bytes: &[u8], chunk: usize, head_limit: usize) -> ElfFacts {
    let mut stream = ElfStream::new(&INTEREST, head_limit);
    bytes.chunks(chunk).for_each(|chunk| stream.push(chunk));
    stream.finish()
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| bytes.escape_ascii().to_string())
}
