//! What `ldconfig` would do.
