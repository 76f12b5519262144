//! The cache of layers' indexes: where it lies, and what a user does with it.
#![expect(clippy::disallowed_methods, reason = "the command line reads the environment")]

use std::env;
use std::fmt::Display;
use std::path::PathBuf;

use crate::cli::cache::{CacheAction, CacheArgs, CacheFolderArgs};
use crate::cli::shared_args::ImageArgs;
use crate::judge::outcome::RunExit;
use image_linkage::escape;
use image_linkage::layer::IndexOptions;
use image_store::{CacheContent, KEPT_BYTES, LayerCache, list_cache, prune_cache};

use super::command_error::CommandError;
use super::terminal::{report_warning, write_result};

/// The cache for indexes made with `index`; none where the user wants none or has no folder for it. Why one
/// cannot be used is said as a warning.
pub(super) fn open_cache(options: &ImageArgs, index: &IndexOptions) -> Option<LayerCache> {
    let folder = cache_folder(&options.cache).filter(|_| !options.no_cache)?;
    let opened = LayerCache::open(&folder, &index.fingerprint());
    let unusable = |error: &dyn Display| {
        let folder = folder.display();
        report_warning(&format!(
            "the cache in {folder} cannot be used, and every layer is read (--no-cache says that this is meant): {error}"
        ));
    };
    opened.inspect_err(|error| unusable(error)).ok()
}

/// Lists the cache, or removes what lies in it.
pub fn run_cache(args: CacheArgs) -> Result<RunExit, CommandError> {
    let (max_mib, folder) = match args.action {
        CacheAction::Info(folder) => (None, folder),
        CacheAction::Prune { max_mib, folder } => (Some(max_mib), folder),
        CacheAction::Clear(folder) => (Some(0), folder),
    };
    let Some(folder) = cache_folder(&folder) else {
        return Err(
            "there is no folder for the cache: neither XDG_CACHE_HOME nor HOME is set; name one with --cache-dir"
                .into(),
        );
    };
    let remove = |bytes: u64| {
        let (removed, errors) = prune_cache(&folder, bytes);
        let left = list_cache(&folder);
        let text = format!(
            "removed {}, left {} in {}\n",
            content(removed),
            content(left),
            escape::escape_path(&folder)
        );
        (text, errors)
    };
    let (text, errors) = max_mib.map_or_else(
        || {
            let (found, most) = (content(list_cache(&folder)), KEPT_BYTES >> 20);
            let text = format!("{}: {found}, of at most {most} MiB\n", escape::escape_path(&folder));
            (text, Vec::new())
        },
        |mib| remove(mib.saturating_mul(1 << 20)),
    );
    let exit = write_result(&text, RunExit::Clean);
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

fn content(of: CacheContent) -> String {
    let kib = of.bytes.div_ceil(1 << 10);
    format!("{} files of {kib} KiB", of.files)
}

/// The folder that is named, or the user's by the XDG Base Directory Specification.
fn cache_folder(named: &CacheFolderArgs) -> Option<PathBuf> {
    // Relative paths in the variable are to be ignored, by the specification.
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let users = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    named.cache_dir.clone().or_else(|| Some(users()?.join("cupti-audit")))
}
