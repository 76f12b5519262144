//! The symbols that a consumer imports and that nothing in its process exports: what `ld.so` calls an undefined
//! symbol when it binds them (glibc elf/dl-lookup.c, `do_lookup_x`).

use super::consumer_outcome::ConsumerOutcome;
use super::resolved_objects::elf_at;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, SymbolRole};
use image_linkage::loader::{LoadedObject, RequestOutcome, SearchStage};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The symbols that `object` imports and that no object of its process exports, in the order of their names. Of a
/// performance library that is not in the process at all nothing is said: that it is missing is said already.
pub(super) fn find_missing_symbols(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    object: &RootPath,
    gets: &ConsumerOutcome,
    objects: &[LoadedObject],
) -> Vec<ByteString> {
    let Some(consumer) = elf_at(rootfs, object).filter(|_| gets.outcome == RequestOutcome::Loaded) else {
        return Vec::new();
    };
    // ld.so binds in the scope of the whole process, not in the library that was asked for alone.
    let process: Vec<&ElfFacts> = objects
        .iter()
        .filter_map(|object| elf_at(rootfs, &object.real_path))
        .collect();
    // An empty prefix would make every import one of the library's.
    let own = Some(library.symbols.as_bytes()).filter(|own| !own.is_empty());
    let companions = library.companion_symbols.iter().map(String::as_bytes);
    let companions = companions.filter(|family| process.iter().any(|elf| exports_of(elf, family)));
    let mut missing: Vec<ByteString> = own
        .into_iter()
        .chain(companions)
        .flat_map(|family| {
            let imports = consumer
                .symbols
                .iter()
                .filter(|symbol| symbol.role == SymbolRole::Import && symbol.name.starts_with(family));
            imports.filter(|symbol| !process.iter().any(|elf| defines(elf, symbol)))
        })
        .map(|symbol| symbol.name.clone())
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

/// The preloaded object that what `object` imports of the library is bound to, whatever answers to its `DT_NEEDED`
/// entry: ld.so(8), "Additional, user-specified, ELF shared objects to be loaded before all others".
pub(super) fn find_preloaded_library<'o>(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    object: &RootPath,
    objects: &'o [LoadedObject],
) -> Option<&'o LoadedObject> {
    let family = Some(library.symbols.as_bytes()).filter(|own| !own.is_empty())?;
    let imports = elf_at(rootfs, object)?.symbols.iter();
    let imports: Vec<&DynamicSymbol> = imports
        .filter(|symbol| symbol.role == SymbolRole::Import && symbol.name.starts_with(family))
        .collect();
    let answers = |elf: &ElfFacts| imports.iter().any(|import| defines(elf, import));
    let mut preloaded = objects.iter().filter(|object| object.how == SearchStage::Preload);
    preloaded.find(|object| elf_at(rootfs, &object.real_path).is_some_and(answers))
}

fn exports_of(elf: &ElfFacts, family: &[u8]) -> bool {
    let mut exports = elf.symbols.iter();
    exports.any(|symbol| symbol.role == SymbolRole::Export && symbol.name.starts_with(family))
}

/// Whether an object defines what is imported, at the version that is asked for: without versions it has any.
fn defines(elf: &ElfFacts, import: &DynamicSymbol) -> bool {
    elf.symbols.iter().any(|symbol| {
        symbol.role == SymbolRole::Export
            && symbol.name == import.name
            && (import.version.is_none() || elf.verdef.is_empty() || symbol.version == import.version)
    })
}
