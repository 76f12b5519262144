//! Reads the folder of fixtures and builds them.
#![expect(
    clippy::disallowed_methods,
    reason = "fixtures are read from the repository's own folder"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use super::make::{Context, add, add_layers};
use super::{Base, EntrySpec, Fixture, OtherPlatform};
use crate::layer::Layer;
use crate::oci::{Image, Layout};

/// All fixtures of a folder, with their shared bases and parts.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    fixtures: BTreeMap<String, Fixture>,
    bases: BTreeMap<String, Base>,
    parts: BTreeMap<String, EntrySpec>,
}

/// Why fixtures could not be read or built.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is not a valid fixture, base or part.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem, with line and column.
        reason: String,
    },
    /// A fixture could not be built.
    #[error("fixture {name}: {reason}")]
    Build {
        /// The fixture.
        name: String,
        /// The problem, and where.
        reason: String,
    },
}

/// The folder of the generated images.
pub fn generated() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/images")
}

impl Sources {
    /// Reads the fixtures of this repository.
    ///
    /// Errors: The first file that is unreadable or invalid.
    pub fn of_repository() -> Result<Self, SourceError> {
        Self::read(&generated().join("src"))
    }

    /// Reads `*.yaml`, `bases/*.yaml` and `parts/*.yaml` of a folder. The file stem is the name.
    ///
    /// Errors: The first file that is unreadable or invalid.
    pub fn read(folder: &Path) -> Result<Self, SourceError> {
        Ok(Self {
            fixtures: read_folder(folder)?,
            bases: read_folder(&folder.join("bases"))?,
            parts: read_folder(&folder.join("parts"))?,
        })
    }

    /// The fixtures by name.
    pub fn fixtures(&self) -> &BTreeMap<String, Fixture> {
        &self.fixtures
    }

    /// The bases by name.
    pub fn bases(&self) -> &BTreeMap<String, Base> {
        &self.bases
    }

    /// The names of the parts.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    /// Builds a fixture as an OCI layout.
    ///
    /// Errors: [`SourceError::Build`] with the layer, the path and the entry's problem.
    pub fn layout(&self, name: &str) -> Result<Layout, SourceError> {
        let failed = |reason| SourceError::Build {
            name: name.to_owned(),
            reason,
        };
        let fixture = self.fixtures.get(name);
        let fixture = fixture.ok_or_else(|| failed("unknown fixture".to_owned()))?;
        let images = self.images(fixture).map_err(failed)?;
        let mut layout = Layout::new();
        layout.add(&fixture.tag, &images);
        Ok(layout)
    }

    /// Builds the images of a fixture, starting with the first platform.
    ///
    /// Errors: The layer, the path and the entry's problem.
    pub fn images(&self, fixture: &Fixture) -> Result<Vec<Image>, String> {
        let first = OtherPlatform {
            platform: fixture.platform.clone(),
            env: fixture.env.clone(),
            config: fixture.config.clone(),
            base: fixture.base.clone(),
            layers: fixture.layers.clone(),
            expect: fixture.expect.clone(),
        };
        let all = std::iter::once(&first).chain(&fixture.also);
        all.map(|platform| self.image(platform)).collect()
    }

    /// Adds an entry to a layer of an amd64 image; `name` has no slash in front.
    ///
    /// Errors: The entry's problem.
    pub fn add_entry(&self, layer: Layer, name: &str, entry: &EntrySpec) -> Result<Layer, String> {
        add(layer, name.as_bytes(), entry, &mut Context::new(self, "linux/amd64"))
    }

    fn image(&self, spec: &OtherPlatform) -> Result<Image, String> {
        let bases = self.chain(spec.base.as_deref())?;
        let mut env = IndexMap::new();
        for base in &bases {
            env.extend(&base.env);
        }
        env.extend(&spec.env);
        let mut image = Image::new(&spec.platform);
        for (key, value) in env {
            image = image.env(key, value);
        }
        for (key, value) in &spec.config {
            image = image.config(key, value.clone());
        }
        let mut context = Context::new(self, &spec.platform);
        for base in bases {
            image = add_layers(image, &base.layers, &mut context)?;
        }
        add_layers(image, &spec.layers, &mut context)
    }

    /// A base and all bases below it, lowest first.
    fn chain<'a>(&'a self, name: Option<&'a str>) -> Result<Vec<&'a Base>, String> {
        let mut chain = Vec::new();
        let mut next = name;
        while let Some(name) = next {
            let base = self.bases.get(name);
            let base = base.ok_or_else(|| format!("unknown base {name}"))?;
            if chain.len() == self.bases.len() {
                return Err(format!("base {name} is its own ancestor"));
            }
            chain.push(base);
            next = base.base.as_deref();
        }
        chain.reverse();
        Ok(chain)
    }

    /// The part of this name.
    pub(super) fn part(&self, name: &str) -> Result<&EntrySpec, String> {
        match self.parts.get(name) {
            None => Err(format!("unknown part {name}")),
            Some(EntrySpec::Part(_)) => Err(format!("part {name} is only a name of another part")),
            Some(part) => Ok(part),
        }
    }
}

fn read_folder<T: DeserializeOwned>(folder: &Path) -> Result<BTreeMap<String, T>, SourceError> {
    let failed = |error| SourceError::Read {
        path: folder.to_owned(),
        error,
    };
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let (Some(stem), Some("yaml")) = (stem, path.extension().and_then(|end| end.to_str())) {
            found.insert(stem.to_owned(), read_file(&path)?);
        }
    }
    Ok(found)
}

fn read_file<T: DeserializeOwned>(path: &Path) -> Result<T, SourceError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| SourceError::Read {
        path: path.to_owned(),
        error,
    })?;
    serde_saphyr::from_str(&text).map_err(|error| SourceError::Invalid {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
