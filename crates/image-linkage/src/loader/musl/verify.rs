//! musl's checks of files and mapped objects (musl ldso/dynlink.c, `map_library`, `do_relocs`).

use elf::abi::{ET_DYN, ET_EXEC};

use crate::elf::ElfFacts;
use crate::escape;
use crate::layer::FileFacts;
use crate::loader::dynamic_loader::DynamicLoader;
use crate::loader::link_map::LinkMaps;
use crate::loader::machine::{self, Arch};
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
    match facts.elf.as_ref() {
        Some(elf) if facts.bytes >= HEADER && is_loadable(elf, linker.arch) => {
            // musl never checks the file size. The process dies at the first missing page.
            let fatal = truncation(elf, ObjectRole::Library);
            fatal.map_or(TriedFile::Found, TriedFile::Refused)
        }
        _ => TriedFile::Refused(LoadRefusal::Verify(NO_OBJECT.to_owned())),
    }
}

fn is_loadable(elf: &ElfFacts, arch: &Arch) -> bool {
    let [_, _, _, _, _, data, ..] = elf.ident;
    elf.class() == arch.class && data == arch.data && matches!(elf.kind, ET_EXEC | ET_DYN) && elf.dynamic
}

/// The objects in `order` for another machine. musl notices at the first relocation.
pub(super) fn check_machines(maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest> {
    let machine = maps.setup.linker.arch.machine;
    let listed = order.iter().filter_map(|&number| maps.get(number));
    listed
        .filter(|map| map.elf().machine != machine)
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
