//! Will CUPTI load in this container image, for whom, and if not, why.
//!
//! The flow is one way, and the modules stand in its order: an image is opened ([`image`]), each layer is
//! read once as a stream into an index of facts ([`layer`], [`elf`]), the indexes are applied to one file
//! system ([`rootfs`]), the dynamic loader's search is followed on it ([`loader`]), what that says of CUPTI
//! is gathered ([`facts`]), judged by the rules ([`rule`]), held against what a phase needs ([`profile`],
//! [`plan`]) and written down ([`report`]). What would make an image serve a phase ([`remedy`]) is written as a
//! Dockerfile ([`dockerfile`]). Only the image sources and [`cli`] touch the host.

pub mod dockerfile;
pub mod facts;
pub mod gate;
pub mod image;
pub mod layer;
pub mod loader;
pub mod plan;
pub mod profile;
pub mod remedy;
pub mod report;
pub mod rootfs;
pub mod rule;
pub mod slim;

pub mod audit;
pub mod cli;
pub mod config;
mod data_files;
pub mod elf;
pub mod escape;
pub mod knowledge;
pub mod limits;
pub mod path;
pub mod progress;
pub mod run;
pub mod size;
pub mod yaml;
