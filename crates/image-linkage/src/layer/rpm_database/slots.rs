//! Reads rpm's own database of SUSE's systems, `Packages.db` (`lib/backend/ndb/rpmpkg.c` of rpm has the layout).

/// The unit of offsets, in bytes.
const BLOCK: usize = 16;
/// The number of slots that the header takes.
const HEADER_SLOTS: usize = 2;
/// The bytes of slots to a page.
const PAGE: usize = 4096;

/// Passes each package to `visit`; `None` if the file or a package is damaged.
pub(super) fn visit_packages(file: &[u8], visit: &mut dyn FnMut(&[u8]) -> Option<()>) -> Option<()> {
    let slots = file.get(..number(file, 12)?.checked_mul(PAGE)?)?;
    for slot in slots.chunks_exact(BLOCK).skip(HEADER_SLOTS) {
        let (package, block) = (number(slot, 4)?, number(slot, 8)?);
        if !slot.starts_with(b"Slot") {
            return None;
        }
        // An erased package leaves its slot.
        if package == 0 || block == 0 {
            continue;
        }
        let blob = file.get(block.checked_mul(BLOCK)?..)?;
        if !blob.starts_with(b"BlbS") || number(blob, 4)? != package {
            return None;
        }
        let end = BLOCK.checked_add(number(blob, 12)?)?;
        visit(blob.get(BLOCK..end)?)?;
    }
    Some(())
}

/// The number at an offset, always in little-endian order.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}
