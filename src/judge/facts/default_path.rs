//! The folders of programs where an image does not say them.

/// What engines set where the image sets no `PATH` (Docker Engine, `system.DefaultPathEnv`).
pub(super) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
