//! The tables of knowledge. A user's file of the same name adds rows.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::{GeneralAdvice, InstallSource};
use super::api::CuptiApi;
use super::build_steps::BuildStepTable;
use super::catalog::{DataFile, DataKind, FileIds};
use super::data_files::built_in_files;
use super::dead_weight::{DeadWeightKind, DeadWeightTable};
use super::function_table::{FunctionSpan, FunctionTable};
use super::gpu::GpuTable;
use super::gpu_code::GpuCodeTable;
use super::host::DriverCapability;
use super::host::HostCondition;
use super::index_tables::{EndedFunctions, FrameworkRelease, ReleaseBuild, ResultCode};
use super::library::LibraryProfile;
use super::library_release::version_numbers;
use super::minimum_driver::{MinimumDriver, ToolkitVersion};
use super::mistake::{FileMistake, TextMistake};
use super::packages::{CuptiPackages, PackageFile};
use super::release_fault::ReleaseFault;
use super::release_table::{ReleaseFile, ReleaseTable};
use super::shared_folders::SharedFolders;
use super::table_reader::TableReader;
use super::vertex::VertexAccelerator;
use super::weight_group::{WeightGroup, WeightTable};
use super::wheel_table::{ListedWheel, WheelTable};
use container_start::LauncherTable;
use image_linkage::escape;

/// The names of the tables in `profiles/cupti`.
pub const TABLE_FILES: [&str; 23] = [
    "apis.yaml",
    "build-steps.yaml",
    "dead-weight.yaml",
    "builds.csv",
    "bundles.yaml",
    "driver-libraries.yaml",
    "drivers.csv",
    "ended-functions.csv",
    "file-names.yaml",
    "framework-releases.csv",
    "frameworks.yaml",
    "functions.csv",
    "gpus.yaml",
    "host.yaml",
    "packages.yaml",
    "release-faults.yaml",
    "releases.csv",
    "result-codes.csv",
    "shared-folders.yaml",
    "sources.yaml",
    "toolkits.csv",
    "weight.yaml",
    "wheels.csv",
];

/// The names of the tables next to the folders.
pub const TOP_FILES: [&str; 4] = ["advice.yaml", "gpu-code.yaml", "launchers.yaml", "vertex-machines.yaml"];

const BUILDS: [&str; 5] = ["version", "arch", "soname", "glibc", "targets"];
const DRIVERS: [&str; 3] = ["cuda", "driver", "minor_compatibility"];
const ENDED: [&str; 2] = ["cuda", "functions"];
const FRAMEWORK_RELEASES: [&str; 5] = ["package", "version", "requires", "names", "search"];
const FUNCTIONS: [&str; 3] = ["first", "last", "functions"];
const RELEASES: [&str; 6] = ["sha256", "versions", "bundle", "arch", "file", "bytes"];
const RESULTS: [&str; 3] = ["number", "name", "first"];
const TOOLKITS: [&str; 2] = ["cuda", "cupti"];
const WHEELS: [&str; 4] = ["package", "version", "arch", "sha256"];

/// The tables, and the libraries to audit for.
#[derive(Debug, Clone, Default)]
pub struct KnowledgeTables {
    /// The APIs of CUPTI, in report order.
    pub apis: Vec<CuptiApi>,
    /// The libcupti of each wheel.
    pub builds: Vec<ReleaseBuild>,
    /// The kinds of file that may be dead weight.
    pub dead_weight: DeadWeightTable,
    /// The minimum drivers by toolkit, oldest first.
    pub drivers: Vec<MinimumDriver>,
    /// The libraries that the container runtime injects from the host.
    pub driver_libraries: Vec<DriverCapability>,
    /// The functions that the headers of a CUDA release call unsupported.
    pub ended_functions: Vec<EndedFunctions>,
    /// The releases of frameworks, and the CUPTI that they ask for.
    pub framework_releases: Vec<FrameworkRelease>,
    /// The functions that each release exports.
    pub functions: FunctionTable,
    /// The GPUs, and the releases that support them.
    pub gpus: GpuTable,
    /// The objects from which GPU code may be removed.
    pub gpu_code: GpuCodeTable,
    /// The conditions on the host.
    pub host: Vec<HostCondition>,
    /// The programs that start other programs.
    pub launchers: LauncherTable,
    /// The sources of CUPTI.
    pub sources: Vec<InstallSource>,
    /// The advice that does not depend on the tool.
    pub advice: GeneralAdvice,
    /// The packages of distributions.
    pub packages: CuptiPackages,
    /// The effects of the steps of a Dockerfile.
    pub build_steps: BuildStepTable,
    /// Known faults of releases.
    pub release_faults: Vec<ReleaseFault>,
    /// The files of known releases.
    pub releases: ReleaseTable,
    /// Every `CUptiResult`.
    pub result_codes: Vec<ResultCode>,
    /// The CUPTI version in each toolkit.
    pub toolkits: Vec<ToolkitVersion>,
    /// The common folders.
    pub shared_folders: SharedFolders,
    /// The machines of Vertex AI.
    pub vertex_machines: Vec<VertexAccelerator>,
    /// The groups of an image's bytes.
    pub weight: WeightTable,
    /// The wheels in the Python package index.
    pub wheels: WheelTable,
    /// The folders of tools that bundle a copy.
    pub bundles: Vec<BundleFolder>,
    /// The frameworks with a profiler.
    pub frameworks: Vec<ProfiledFramework>,
    /// The libraries: built-in ones, then the user's.
    pub libraries: Vec<LibraryProfile>,
}

/// A folder whose copy of a library belongs to a tool (`profiles/cupti/bundles.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFolder {
    /// The folder, as a part of a path.
    pub folder: String,
    /// The tool's display name.
    pub owner: String,
    /// Whether the copy is private to the tool.
    pub private: bool,
}

/// A framework with a profiler (`profiles/cupti/frameworks.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledFramework {
    /// The framework's Python distributions, in normalized form.
    pub distributions: Vec<String>,
    /// The program that requests CUPTI for it (`profiles/consumers`).
    pub consumer: String,
    /// The distribution that displays its profiles.
    pub viewer: String,
    /// The viewer's plugins for that, the one to install first.
    pub plugins: Vec<String>,
    /// The variable that lets a daemon start profiles.
    #[serde(default)]
    pub daemon: Option<String>,
}

impl KnowledgeTables {
    /// The library with this id.
    pub fn library(&self, id: &str) -> Option<&LibraryProfile> {
        self.libraries.iter().find(|library| library.id == id)
    }

    /// The APIs of a library; empty if they are unknown.
    pub fn apis_of(&self, library: &LibraryProfile) -> &[CuptiApi] {
        if library.has_apis { &self.apis } else { &[] }
    }

    /// The API with this id.
    pub fn find_api(&self, id: &str) -> Option<&CuptiApi> {
        self.apis.iter().find(|api| api.id == id)
    }

    /// The driver rows of a toolkit (`12.4.1`), else of the toolkits with a CUPTI version (`12.4.127`), else of all
    /// updates of a release (`12.4`). Versions of other components identify only the release.
    pub fn drivers_for(&self, version: &str) -> impl Iterator<Item = &MinimumDriver> {
        let having = self.toolkits.iter().filter(|toolkit| toolkit.cupti == version);
        let toolkits: BTreeSet<&str> = having.map(|toolkit| toolkit.cuda.as_str()).chain([version]).collect();
        let exact: Vec<&MinimumDriver> = self.rows_of(|row| toolkits.contains(row.cuda.as_str()));
        if !exact.is_empty() {
            return exact.into_iter();
        }
        // Compared part by part, because 12.1 is not a prefix of 12.10.
        let minor = major_and_minor(version);
        self.rows_of(|row| minor.is_some() && major_and_minor(&row.cuda) == minor)
            .into_iter()
    }

    /// The driver branch for minor-version compatibility of a CUDA version. It depends only on the major version, so
    /// the table need not have the release.
    pub fn driver_branch_of(&self, version: &str) -> Option<&str> {
        let major = version.split('.').next();
        let of_major = self.drivers.iter().find(|row| row.cuda.split('.').next() == major);
        of_major.and_then(|row| row.minor_compatibility.as_deref())
    }

    /// Whether this CUDA release exists, as far as known; 12.7, for example, is a gap between known releases.
    pub fn was_released(&self, cuda: (u32, u32)) -> bool {
        let (drivers, toolkits) = (self.drivers.iter(), self.toolkits.iter());
        let known = drivers
            .map(|row| &row.cuda)
            .chain(toolkits.map(|toolkit| &toolkit.cuda));
        let known: BTreeSet<(u32, u32)> = known
            .filter_map(|version| match version_numbers(version).as_slice() {
                [major, minor, ..] => Some((*major, *minor)),
                _ => None,
            })
            .collect();
        // Releases older or newer than the tables may exist.
        let is_within = known.first() < Some(&cuda) && Some(&cuda) < known.last();
        !is_within || known.contains(&cuda)
    }

    fn rows_of(&self, is_meant: impl Fn(&MinimumDriver) -> bool) -> Vec<&MinimumDriver> {
        self.drivers.iter().filter(|row| is_meant(row)).collect()
    }
}

/// Major and minor of a version, as written: `12.4` in `12.4.127`.
fn major_and_minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.split('.');
    Some((parts.next()?, parts.next()?))
}

/// Reads the tables from their files, built-in ones before the user's. Libraries are read elsewhere.
pub(super) fn read_tables(files: &[DataFile], known: &FileIds) -> (KnowledgeTables, Vec<FileMistake>) {
    let mut reader = TableReader::new(files);
    // First, because a thread compiles its patterns meanwhile.
    let dead_weight = DeadWeightTable::new(reader.rows("dead-weight", |kind: &DeadWeightKind| Some(kind.id.clone())));
    let mut drivers = reader.csv("drivers", (DRIVERS, 1), MinimumDriver::read);
    // Reports use the first row of a version, the toolkit without updates.
    drivers.sort_by_key(|row| version_numbers(&row.cuda));
    let mut tables = KnowledgeTables {
        apis: reader.rows("apis", |api: &CuptiApi| Some(api.id.clone())),
        builds: reader.csv("builds", (BUILDS, 2), ReleaseBuild::read),
        dead_weight,
        drivers,
        // Without a key, because a user's row may add libraries to a built-in capability.
        driver_libraries: reader.rows("driver-libraries", |_| None),
        ended_functions: reader.csv("ended-functions", (ENDED, 1), EndedFunctions::read),
        framework_releases: reader.csv("framework-releases", (FRAMEWORK_RELEASES, 2), FrameworkRelease::read),
        functions: FunctionTable {
            spans: reader.csv("functions", (FUNCTIONS, 2), FunctionSpan::read),
        },
        gpus: GpuTable::default(),
        gpu_code: GpuCodeTable::default(),
        host: reader.rows("host", |host: &HostCondition| Some(host.id.clone())),
        launchers: LauncherTable::default(),
        // Without a key, because an installation method has a row per CUDA version or system.
        sources: reader.rows("sources", |_| None),
        advice: GeneralAdvice::default(),
        packages: CuptiPackages::default(),
        build_steps: BuildStepTable::default(),
        release_faults: reader.rows("release-faults", |fault: &ReleaseFault| Some(fault.id.clone())),
        releases: ReleaseTable::default(),
        result_codes: reader.csv("result-codes", (RESULTS, 1), ResultCode::read),
        shared_folders: SharedFolders::default(),
        vertex_machines: reader.rows("vertex-machines", |row: &VertexAccelerator| {
            Some(row.accelerator.clone())
        }),
        toolkits: reader.csv("toolkits", (TOOLKITS, 1), ToolkitVersion::read),
        weight: WeightTable::default(),
        wheels: WheelTable {
            wheels: reader
                .csv("wheels", (WHEELS, 3), ListedWheel::read)
                .into_iter()
                .collect(),
        },
        bundles: reader.rows("bundles", |bundle: &BundleFolder| Some(bundle.folder.clone())),
        frameworks: Vec::new(),
        libraries: Vec::new(),
    };
    for api in &mut tables.apis {
        api.since = tables.functions.first_cuda_with(api);
    }
    read_documents(&mut reader, &mut tables, known);
    let releases = reader.csv("releases", (RELEASES, 1), ReleaseFile::read);
    tables.releases.by_hash.extend(releases);
    if reader.named("dead-weight").count() > 1
        && let Err(error) = tables.dead_weight.check()
    {
        reader.mistaken_patterns(&error);
    }
    // Empty tables disable reference checks. Otherwise each reference to an unreadable row would be reported as a
    // mistake.
    for table in &reader.unread {
        match *table {
            "apis" => tables.apis.clear(),
            "dead-weight" => tables.dead_weight = DeadWeightTable::default(),
            "host" => tables.host.clear(),
            _ => {}
        }
    }
    (tables, reader.mistakes)
}

/// The built-in releases, without the other tables.
pub(crate) fn built_in_releases() -> ReleaseTable {
    let files: Vec<DataFile> = built_in_files().filter(|file| file.id == "releases").collect();
    let rows = TableReader::new(&files).csv("releases", (RELEASES, 1), ReleaseFile::read);
    ReleaseTable {
        by_hash: rows.into_iter().collect(),
        ..ReleaseTable::default()
    }
}

/// The results of CUPTI in these files, without the other tables.
pub(super) fn result_codes(files: &[DataFile]) -> Vec<ResultCode> {
    TableReader::new(files).csv("result-codes", (RESULTS, 1), ResultCode::read)
}

/// Reads the tables that are not lists of rows, or that refer to files of other kinds.
fn read_documents(reader: &mut TableReader<'_>, tables: &mut KnowledgeTables, known: &FileIds) {
    reader.documents("advice", |text, advice: GeneralAdvice| {
        let (phases, tools) = (known.of(DataKind::Phase), known.of(DataKind::Profiler));
        advice.check(text, &phases, &tools)?;
        tables.advice.add(advice);
        Ok(())
    });
    reader.documents("gpus", |text, gpus: GpuTable| {
        tables.gpus.add(text, gpus, &tables.builds)
    });
    reader.documents("gpu-code", |text, code: GpuCodeTable| tables.gpu_code.add(text, code));
    reader.documents("launchers", |_, launchers: LauncherTable| {
        tables.launchers.add(launchers);
        Ok(())
    });
    reader.documents("packages", |_, packages: PackageFile| {
        tables.packages.add(packages);
        Ok(())
    });
    reader.documents("build-steps", |_, steps: BuildStepTable| {
        tables.build_steps.add(steps);
        Ok(())
    });
    reader.documents("shared-folders", |_, folders: SharedFolders| {
        let added = tables.shared_folders.add(folders);
        added.map_err(TextMistake::of_whole)
    });
    reader.documents("weight", |text, groups: Vec<WeightGroup>| {
        tables.weight.add(text, groups, &tables.dead_weight)
    });
    let by_name = &mut tables.releases.cuda_by_name;
    reader.documents("file-names", |text, names: BTreeMap<String, String>| {
        for (name, cuda) in names {
            let before = by_name.insert(name.clone(), cuda.clone());
            if let Some(before) = before.filter(|before| *before != cuda) {
                let shown = escape::escape_bytes(name.as_bytes());
                let what = format!("there is a row \"{shown}\" already, of CUDA {before}");
                return Err(text.mistake(&[&name], what));
            }
        }
        Ok(())
    });
    reader.documents("frameworks", |text, rows: Vec<ProfiledFramework>| {
        let consumers = known.of(DataKind::Consumer);
        for (number, row) in rows.iter().enumerate() {
            let (path, consumer) = ([&*number.to_string(), "consumer"], std::slice::from_ref(&row.consumer));
            text.check_names(&path, consumer, "consumer", &consumers)?;
        }
        tables.frameworks.extend(rows);
        Ok(())
    });
}
