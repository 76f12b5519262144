//! What musl asks of a file, and of what it has mapped (musl ldso/dynlink.c, `map_library`, `do_relocs`).

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

/// `sizeof(Elf64_Ehdr)`: of a shorter file musl reads no header.
const HEADER: u64 = 64;
/// What is said of a file that is no object.
pub(super) const NO_OBJECT: &str = "Exec format error";
/// What musl asks of a file before it maps it. It looks neither at the magic number nor at the class nor at the
/// processor; an object of another class or byte order fails because its header reads as nonsense.
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
    // musl never asks for the size of the file; the process dies at the first page that is missing.
    let fatal = truncation(elf, ObjectRole::Library);
    fatal.map_or(TriedFile::Found, TriedFile::Refused)
}

/// The maps in `order` that are for another processor. musl finds out when it meets the first relocation.
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
