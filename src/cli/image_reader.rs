//! Reads images for a command with the options of the command line and the config.

use std::fmt::Display;

use crate::cli::config::ProjectConfig;
use crate::cli::config::load::load_for_images;
use crate::cli::option_values::PlatformArg;
use crate::cli::progress::{BarVisibility, ProgressBars};
use crate::cli::shared_args::{CacheArgs, LimitArgs, OnePlatformArgs, PlatformArgs, ReadArgs};
use crate::cli::terminal::{CommandError, report_warning};
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::image_reading::{self, ReadOptions, RunningContainer};
use crate::knowledge::Knowledge;
use crate::knowledge::file_interest::library_options;
use image_linkage::layer::IndexOptions;
use image_linkage::loader::CpuLevel;
use image_source::registry::{RegistryOptions, RetryPolicy};
use image_source::{ImageError, KnownLayers, Platform};
use image_store::LayerCache;

/// Reads images for a command.
pub(super) struct ImageReader {
    registry: RegistryOptions,
    conditions: GatherOptions,
    knowledge: Knowledge,
    pub(super) bars: ProgressBars,
    cache: Option<LayerCache>,
    /// Compiled once for the cache and for all images.
    index: IndexOptions,
}

impl ImageReader {
    pub(super) fn new(args: &ReadArgs, knowledge: &Knowledge, bars: BarVisibility) -> Self {
        let index = index_options(&args.limits, knowledge);
        Self {
            registry: registry_options(args),
            conditions: GatherOptions {
                environment: args.start.environment.clone(),
                cpu: args.start.cpu.unwrap_or(CpuLevel::V3),
                limits: index.limits.clone(),
                start: args.start.overrides(),
            },
            knowledge: knowledge.clone(),
            bars: ProgressBars::new(bars),
            cache: open_cache(&args.cache, &index),
            index,
        }
    }

    pub(super) fn options<'a>(&'a self, platform: Option<&'a Platform>) -> ReadOptions<'a> {
        ReadOptions {
            platform,
            registry: self.registry.clone(),
            knowledge: &self.knowledge,
            conditions: self.conditions(),
            index: self.index.clone(),
            progress: &self.bars,
            cache: self.cache.as_ref().map(|cache| cache as &dyn KnownLayers),
        }
    }

    /// The start conditions of an image's processes.
    pub(super) fn conditions(&self) -> GatherOptions {
        self.conditions.clone()
    }

    /// The facts of an image for one platform, or for the default platform.
    pub(super) fn read(&self, image: &str, platform: Option<&Platform>) -> Result<ImageFacts, ImageError> {
        // Clear the bars, so that they do not mix with the report.
        let facts = image_reading::read_image(image, &self.options(platform));
        self.bars.clear();
        facts.map_err(|error| naming(image, error))
    }

    /// The facts of this process's own container.
    pub(super) fn read_running(&self, container: &RunningContainer) -> Result<ImageFacts, ImageError> {
        let facts = image_reading::read_running(container, &self.options(None));
        self.bars.clear();
        facts
    }

    /// The platforms to read an image for; `None` is the default platform.
    pub(super) fn platforms(&self, image: &str, asked: &PlatformArgs) -> Result<Vec<Option<Platform>>, ImageError> {
        match &asked.platform {
            Some(PlatformArg::All) => {
                let options = self.options(None);
                let request = options.open_request();
                let all = image_source::list_platforms(image, &options.registry, &request)
                    .map_err(|error| naming(image, error))?;
                let wishes = all.into_iter().map(Some).collect::<Vec<_>>();
                // A source without an index has one image and no platform list.
                Ok(if wishes.is_empty() { vec![None] } else { wishes })
            }
            Some(PlatformArg::One(platform)) => Ok(vec![Some(platform.clone())]),
            None => Ok(vec![None]),
        }
    }
}

/// Adds the image name to a registry or engine error, because users do not expect Docker Hub for `app`.
fn naming(image: &str, error: ImageError) -> ImageError {
    match error {
        ImageError::Remote(text) if !text.contains(image) => ImageError::Remote(format!("{image}: {text}")),
        other => other,
    }
}

fn registry_options(args: &ReadArgs) -> RegistryOptions {
    let mut patience = RetryPolicy::default();
    for limit in &args.limits.limits {
        patience.set(&limit.name, limit.value);
    }
    RegistryOptions {
        insecure: args.registry.insecure_registries.clone(),
        ca_cert: args.registry.ca_cert.clone(),
        token_servers: args.registry.token_servers.clone(),
        patience,
        user_agent: concat!("cupti-audit/", env!("CARGO_PKG_VERSION")).to_owned(),
        // The defaults use the user's `docker login` credentials.
        ..RegistryOptions::default()
    }
}

/// The index options, with the limits of the command line.
fn index_options(args: &LimitArgs, knowledge: &Knowledge) -> IndexOptions {
    let mut index = library_options(knowledge);
    for limit in &args.limits {
        index.limits.set(&limit.name, limit.value);
    }
    index
}

/// The cache for indexes made with `index`; `None` if it is disabled or has no folder. A warning explains why it cannot
/// be used.
fn open_cache(args: &CacheArgs, index: &IndexOptions) -> Option<LayerCache> {
    let folder = args.folder()?;
    let opened = LayerCache::open(&folder, &index.fingerprint());
    let unusable = |error: &dyn Display| {
        let folder = folder.display();
        report_warning(&format!(
            "the cache in {folder} cannot be used, and every layer is read (--no-cache says that this is meant): {error}"
        ));
    };
    opened.inspect_err(|error| unusable(error)).ok()
}

impl Drop for ImageReader {
    fn drop(&mut self) {
        // At the end, because the report is complete even if the cache failed.
        if let Some(failure) = self.cache.as_ref().and_then(LayerCache::failure) {
            report_warning(failure);
        }
    }
}

/// The state of a command that reads images for one platform.
pub(super) struct PreparedCommand {
    pub(super) knowledge: Knowledge,
    pub(super) platform: Option<Platform>,
    /// The config, or an empty one.
    pub(super) config: ProjectConfig,
    pub(super) reader: ImageReader,
}

impl PreparedCommand {
    /// Loads the user's files, and fills `args` from the config.
    pub(super) fn new(
        args: &mut ReadArgs,
        platform: &OnePlatformArgs,
        bars: BarVisibility,
    ) -> Result<Self, CommandError> {
        let (config, knowledge) = load_for_images(args)?;
        Ok(Self {
            reader: ImageReader::new(args, &knowledge, bars),
            knowledge,
            platform: platform.or_config(&config),
            config,
        })
    }

    /// The facts of an image.
    pub(super) fn read(&self, image: &str) -> Result<ImageFacts, ImageError> {
        self.reader.read(image, self.platform.as_ref())
    }
}
