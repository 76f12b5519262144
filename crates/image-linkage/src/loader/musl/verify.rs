//! musl's checks of files and mapped objects (musl ldso/dynlink.c, `map_library`, `do_relocs`).

use elf::abi::{ET_DYN, ET_EXEC};

use crate::elf::ElfFacts;
use crate::escape;
use crate::layer::FileFacts;
use crate::loader::dynamic_loader::DynamicLoader;
use crate::loader::link_map::LinkMaps;
use crate::loader::machine;
use crate::loader::object_check::{ObjectRole, truncation};
use crate::loader::resolution::{RequestOutcome, UnresolvedRequest};
use crate::loader::trace::{LoadRefusal, TriedFile};

/// `sizeof(Elf64_Ehdr)`; musl rejects shorter files.
const HEADER: u64 = 64;
/// musl's text for a file that is not an object.
pub(super) const NO_OBJECT: &str = "Exec format error";
/// musl's checks before mapping. It checks neither magic number, class nor machine; an object of another class or byte
/// order fails because its header makes no sense.
pub(super) fn verify_object(facts: &FileFacts, linker: &DynamicLoader) -> TriedFile {
    let no_object = || TriedFile::Refused(LoadRefusal::Verify(NO_OBJECT.to_owned()));
    let Some(elf) = facts.elf.as_ref().filter(|_| facts.bytes >= HEADER) else {
        return no_object();
    };
    let [_, _, _, _, _, data, ..] = elf.ident;
    let is_loadable = matches!(elf.kind, ET_EXEC | ET_DYN) && elf.dynamic;
    if elf.class() != linker.arch.class || data != linker.arch.data || !is_loadable {
        return no_object();
    }
    // musl never checks the file size. The process dies at the first missing page.
    let fatal = truncation(elf, ObjectRole::Library);
    fatal.map_or(TriedFile::Found, TriedFile::Refused)
}

/// The objects in `order` for another machine. musl notices at the first relocation.
pub(super) fn check_machines(maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest> {
    let machine = maps.setup.linker.arch.machine;
    let is_foreign = |elf: &ElfFacts| elf.machine != machine;
    let listed = order.iter().filter_map(|&number| maps.get(number));
    listed
        .filter(|map| is_foreign(map.elf()))
        .map(|map| UnresolvedRequest {
            name: map.names.first().unwrap_or(&map.path).clone(),
            requested_by: map.requester,
            outcome: RequestOutcome::Refused,
            message: format!(
                "Error relocating {}: unsupported relocation type: it is for {}",
                escape::escape_bytes(&map.path),
                machine::machine_name(map.elf().machine)
            ),
            missing_version: None,
            trace: Vec::new(),
        })
        .collect()
}
