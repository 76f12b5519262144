//! Shared by all generated images: the lowest layers, the compiler and the program that starts processes.

use std::path::PathBuf;
use std::sync::LazyLock;

use super::base::Base;
use super::objects::Compiler;
use super::spec::ImageSpec;
use crate::support;

/// Everything that is made once for all images.
pub struct World {
    plain: Base,
    python: Base,
    /// The compiler.
    pub compiler: Compiler,
    /// The program that starts processes in a root.
    pub runner: PathBuf,
    /// A program that opens its argument; it is in no layer.
    pub probe: Vec<u8>,
}

/// The world. If a part is missing, prints that and is `None`.
pub static WORLD: LazyLock<Option<World>> = LazyLock::new(|| {
    if !support::is_root() || !support::have("patchelf", "patchelf") || !super::may_mount() {
        return None;
    }
    let compiler = Compiler::new()?;
    Some(World {
        plain: Base::new(false)?,
        python: Base::new(true)?,
        runner: super::runner::tool(&compiler),
        probe: compiler.probe(),
        compiler,
    })
});

impl World {
    /// The lowest layer of an image.
    pub fn base(&self, spec: &ImageSpec) -> &Base {
        if spec.python { &self.python } else { &self.plain }
    }
}
