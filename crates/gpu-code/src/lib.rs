//! The GPU code in an ELF object: the GPUs that it is for, and the object without the code that a GPU does not load.
//!
//! nvcc puts the code of a program for all its GPUs into containers ("fat binaries") in the section `.nv_fatbin`. Each
//! container has entries: machine code for one architecture (a cubin), or PTX, which the driver compiles.
//!
//! * [`DeviceCodeScanner`] reads the headers of the containers from a stream.
//! * [`plan_pruning`] decides which entries stay, and how the object shrinks. It reads headers only.
//! * [`PrunePlan::write`] writes the new object.
//! * [`verify_pruned`] compares the new object with the original, and repeats the decision.
//!
//! NVIDIA does not document the format. These public descriptions agree with each other and with real objects:
//! <https://github.com/n-eiling/cuda-fatbin-decompression>, <https://github.com/jiegec/fatbinary>.

mod architecture;
mod choice;
mod code_kind;
mod container;
mod device_code;
mod elf_object;
mod object_file;
mod plan;
mod read_at;
mod scanner;
mod verify;
mod wrappers;

pub use architecture::GpuArchitecture;
pub use choice::{KeptPtx, PruneTarget};
pub use code_kind::{ArchitectureSuffix, CodeForm, CodeKind};
pub use device_code::{CodeAmount, CodeSet, DeviceCode, GpuCoverage};
pub use object_file::Obstacle;
pub use plan::{PrunePlan, PruneWay, plan_pruning};
pub use read_at::ReadAt;
pub use scanner::DeviceCodeScanner;
pub use verify::verify_pruned;
