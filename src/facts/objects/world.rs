//! The worlds in which an image is assessed, and a container with a value for each.

/// The environment in which the loader runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum World {
    /// The image as it is: its own cache, nothing injected.
    AsIs,
    /// Under the NVIDIA container runtime: driver libraries present, cache rebuilt.
    Nvidia,
}

impl World {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as-is",
            Self::Nvidia => "nvidia",
        }
    }
}

/// A value for each world.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByWorld<T> {
    /// The image as it is.
    pub as_is: T,
    /// Under the NVIDIA container runtime.
    pub nvidia: T,
}

impl<T> ByWorld<T> {
    /// The value of one world.
    pub fn get(&self, world: World) -> &T {
        match world {
            World::AsIs => &self.as_is,
            World::Nvidia => &self.nvidia,
        }
    }

    /// Computes a new value from the value of each world.
    pub fn map<'v, U>(&'v self, compute: impl Fn(&'v T) -> U) -> ByWorld<U> {
        ByWorld {
            as_is: compute(&self.as_is),
            nvidia: compute(&self.nvidia),
        }
    }
}
