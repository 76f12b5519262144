//! The arguments of `cache`: what is to be done with the indexes of layers that were kept.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use image_store::KEPT_BYTES;

#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    pub action: CacheAction,
}

/// The actions on the cache.
#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Say where the cache is and how much it holds
    Info(CacheFolderArgs),
    /// Remove the indexes that were not used for longest, and what killed runs have left
    Prune {
        /// The mebibytes that may be left; every run that keeps something keeps to 1024
        #[arg(long, value_name = "MIB", default_value_t = KEPT_BYTES >> 20, value_parser = parse_mebibytes)]
        max_mib: u64,
        #[command(flatten)]
        folder: CacheFolderArgs,
    },
    /// Remove all indexes
    Clear(CacheFolderArgs),
}

/// Where the indexes of layers are kept.
#[derive(Debug, Clone, Args)]
pub struct CacheFolderArgs {
    /// The folder of the cache [default: $`XDG_CACHE_HOME`/cupti-audit, or ~/.cache/cupti-audit]
    #[arg(long, value_name = "DIR", env = "CUPTI_AUDIT_CACHE_DIR", hide_short_help = true)]
    pub cache_dir: Option<PathBuf>,
}

fn parse_mebibytes(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of MiB, such as 2048".to_owned())
}
