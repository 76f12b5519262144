//! Reads the header of an installed package, as rpm stores it in its database (rpm's `docs/manual/format.md`, "Header
//! Structure", without the magic number in front).

use crate::layer::is_library_name;

/// The tags of a header (`include/rpm/rpmtag.h`).
const NAME: usize = 1000;
const VERSION: usize = 1001;
const RELEASE: usize = 1002;
const EPOCH: usize = 1003;
const FILE_STATES: usize = 1029;
const FILE_FLAGS: usize = 1037;
const DIRECTORY_INDEXES: usize = 1116;
const BASE_NAMES: usize = 1117;
const DIRECTORY_NAMES: usize = 1118;

/// The flag of files that belong to a package without being in it (`RPMFILE_GHOST`).
const GHOST: u32 = 1 << 6;
/// The file states of installed files: normal, and on a shared file system (`rpmfileState`).
const INSTALLED: [u8; 2] = [0, 3];

/// The header of a package.
pub(super) struct PackageHeader<'h> {
    /// Entries of 16 bytes: tag, type, offset in the store, number of values.
    index: &'h [u8],
    store: &'h [u8],
}

impl<'h> PackageHeader<'h> {
    /// `None` if the lengths do not fit.
    pub(super) fn read(blob: &'h [u8]) -> Option<Self> {
        let (entries, store) = (number(blob, 0)?, number(blob, 4)?);
        let (index, rest) = blob.get(8..)?.split_at_checked(entries.checked_mul(16)?)?;
        let store = rest.get(..store)?;
        Some(Self { index, store })
    }

    pub(super) fn name(&self) -> Option<&'h [u8]> {
        self.strings(NAME)?.next()
    }

    /// Epoch, version and release as rpm's `%{EVR}`: `2:12.4.127-1`.
    pub(super) fn version(&self) -> Option<Vec<u8>> {
        let (version, release) = (self.strings(VERSION)?.next()?, self.strings(RELEASE)?.next()?);
        let epoch = self.numbers(EPOCH).and_then(|mut epochs| epochs.next());
        let prefix = epoch.map(|epoch| format!("{epoch}:")).unwrap_or_default();
        Some([prefix.as_bytes(), version, b"-", release].concat())
    }

    /// The absolute paths of the libraries that the package installed and that no other package replaced; `None` for a path
    /// without folder.
    pub(super) fn libraries(&self) -> impl Iterator<Item = Option<Vec<u8>>> {
        let folders: Vec<&[u8]> = self.strings(DIRECTORY_NAMES).into_iter().flatten().collect();
        let names = self.strings(BASE_NAMES).into_iter().flatten();
        let indexes = self.numbers(DIRECTORY_INDEXES).into_iter().flatten();
        let states = self.entry(FILE_STATES).map_or(&[][..], |(values, _)| values);
        let mut flags = self.numbers(FILE_FLAGS).into_iter().flatten();
        let files = names.zip(indexes).enumerate();
        files.filter_map(move |(number, (name, folder))| {
            let is_installed = states.get(number).is_none_or(|state| INSTALLED.contains(state));
            let is_ghost = flags.next().is_some_and(|flags| flags & GHOST != 0);
            let folder = usize::try_from(folder).ok().and_then(|folder| folders.get(folder));
            (is_installed && !is_ghost && is_library_name(name)).then(|| Some([folder?, name].concat()))
        })
    }

    /// The bytes from the first value of a tag on, and the number of values. A change at installation, such as a
    /// relocation, appends an entry, so the last one counts.
    fn entry(&self, tag: usize) -> Option<(&'h [u8], usize)> {
        let mut entries = self.index.chunks_exact(16);
        let entry = entries.rfind(|entry| number(entry, 0) == Some(tag))?;
        Some((self.store.get(number(entry, 8)?..)?, number(entry, 12)?))
    }

    fn strings(&self, tag: usize) -> Option<impl Iterator<Item = &'h [u8]> + use<'h>> {
        let (values, count) = self.entry(tag)?;
        Some(values.split(|&byte| byte == 0).take(count))
    }

    fn numbers(&self, tag: usize) -> Option<impl Iterator<Item = u32> + use<'h>> {
        let (values, count) = self.entry(tag)?;
        let numbers = values.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes));
        Some(numbers.take(count))
    }
}

fn number(bytes: &[u8], offset: usize) -> Option<usize> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    usize::try_from(u32::from_be_bytes(*bytes)).ok()
}
