//! The names of CUPTI's libraries up to the number of a soname.

/// The stem of libcupti's own names.
pub(crate) const CUPTI: &str = "libcupti.so";

/// The name that the loader is asked for: libcupti goes by its soname, the libraries beside it by their bare names.
pub(crate) fn loaded_name<'n>(stem: &'n str, soname: &'n str) -> &'n str {
    if stem == CUPTI { soname } else { stem }
}
