//! `cache`: shows and clears the cache of layer indexes.

use crate::cli::shared_args::CacheFolderArgs;
use crate::cli::terminal::{CommandError, report_warning, write_result};
use crate::judge::outcome::RunExit;
use clap::{Args, Subcommand};
use image_linkage::escape;
use image_store::{CacheContent, KEPT_BYTES, is_cache, list_cache, prune_cache};

/// Show or shrink the layer cache
#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    action: CacheAction,
}

/// The actions on the cache.
#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Print where the cache is and how large it is
    Info(CacheFolderArgs),
    /// Remove the least recently used entries, and files of killed runs
    Prune {
        /// Size in MiB to shrink the cache to
        #[arg(long, value_name = "MIB", default_value_t = KEPT_BYTES >> 20, value_parser = parse_mebibytes)]
        max_mib: u64,
        #[command(flatten)]
        folder: CacheFolderArgs,
    },
    /// Remove all entries
    Clear(CacheFolderArgs),
}

fn parse_mebibytes(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of MiB, such as 2048".to_owned())
}

impl CacheArgs {
    /// Lists the cache or removes entries.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let (max_mib, folder) = match self.action {
            CacheAction::Info(folder) => (None, folder),
            CacheAction::Prune { max_mib, folder } => (Some(max_mib), folder),
            CacheAction::Clear(folder) => (Some(0), folder),
        };
        let folder = folder.folder().ok_or(
            "there is no folder for the cache: neither XDG_CACHE_HOME nor HOME is set; name one with --cache-dir",
        )?;
        let shown = escape::escape_path(&folder);
        let Some(max_mib) = max_mib else {
            let (found, most) = (content(list_cache(&folder)), KEPT_BYTES >> 20);
            let text = format!("{shown}: {found}, of at most {most} MiB\n");
            return Ok(write_result(&text, RunExit::Clean));
        };
        if !is_cache(&folder) {
            report_warning(&format!(
                "there is no cache of cupti-audit in {shown}: nothing was removed; `cupti-audit cache info` shows the default one"
            ));
            return Ok(RunExit::Clean);
        }
        let (removed, errors) = prune_cache(&folder, max_mib.saturating_mul(1 << 20));
        let (removed, left) = (content(removed), content(list_cache(&folder)));
        let exit = write_result(&format!("removed {removed}, left {left} in {shown}\n"), RunExit::Clean);
        match errors.first() {
            Some(error) => Err(format!(
                "{} files in {} cannot be removed: {error}",
                errors.len(),
                folder.display()
            )
            .into()),
            None => Ok(exit),
        }
    }
}

fn content(of: CacheContent) -> String {
    let kib = of.bytes.div_ceil(1 << 10);
    format!("{} files of {kib} KiB", of.files)
}
