//! The tables of knowledge: built-in data that no file of a user changes.

use std::collections::BTreeSet;

use super::advice::{GeneralAdvice, InstallSource};
use super::api::CuptiApi;
use super::build_steps::BuildStepTable;
use super::catalog::DataFile;
use super::data_files::{built_in_files, csv_rows};
use super::dead_weight::DeadWeightTable;
use super::framework_wheels::FrameworkWheels;
use super::function_table::{FunctionSpan, FunctionTable};
use super::gpu::GpuTable;
use super::gpu_code::GpuCodeTable;
use super::host::DriverCapability;
use super::host::HostCondition;
use super::index_tables::{EndedFunctions, FrameworkRelease, ReleaseBuild, ResultCode};
use super::library::LibraryProfile;
use super::library_release::version_numbers;
use super::minimum_driver::{MinimumDriver, ToolkitVersion};
use super::packages::CuptiPackages;
use super::release_fault::ReleaseFault;
use super::release_table::{ReleaseFile, ReleaseTable};
use super::shared_folders::SharedFolders;
use super::vertex::VertexAccelerator;
use super::weight_group::WeightTable;
use super::wheel_table::{ListedWheel, WheelTable};
use super::yaml_text::built_in;
use container_start::LauncherTable;
use serde::de::DeserializeOwned;

const BUILDS: [&str; 5] = ["version", "arch", "soname", "glibc", "targets"];
const DRIVERS: [&str; 3] = ["cuda", "driver", "minor_compatibility"];
const ENDED: [&str; 2] = ["cuda", "functions"];
const FRAMEWORK_RELEASES: [&str; 5] = ["package", "version", "requires", "names", "search"];
const FUNCTIONS: [&str; 3] = ["first", "last", "functions"];
const RELEASES: [&str; 6] = ["sha256", "versions", "bundle", "arch", "file", "bytes"];
const RESULTS: [&str; 3] = ["number", "name", "first"];
const TOOLKITS: [&str; 2] = ["cuda", "cupti"];
const WHEELS: [&str; 4] = ["package", "version", "arch", "sha256"];

/// The tables.
#[derive(Debug, Clone)]
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
    /// CUPTI itself.
    pub library: LibraryProfile,
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
    /// What its wheels require from NVIDIA.
    #[serde(default)]
    pub wheels: Option<FrameworkWheels>,
}

impl KnowledgeTables {
    /// The last release of a framework up to a version; without one, the newest.
    pub fn framework_release(&self, package: &str, until: Option<&[u32]>) -> Option<&FrameworkRelease> {
        self.framework_releases
            .iter()
            .filter(|row| row.package == package)
            .map(|row| (version_numbers(&row.version), row))
            .filter(|(version, _)| until.is_none_or(|until| version.as_slice() <= until))
            .max_by(|(one, _), (other, _)| one.cmp(other))
            .map(|(_, row)| row)
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
        let known: BTreeSet<(u32, u32)> = drivers
            .map(|row| &row.cuda)
            .chain(toolkits.map(|toolkit| &toolkit.cuda))
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

/// Why no built-in table fails to be read.
const READ: &str = "a test reads the tables of the program";

/// The files of the tables.
struct TableFiles<'f>(&'f [DataFile]);

impl TableFiles<'_> {
    fn file(&self, id: &str) -> &DataFile {
        self.0.iter().find(|file| file.id == id).expect(READ)
    }

    fn yaml<T: DeserializeOwned>(&self, id: &str) -> T {
        built_in(self.file(id).json.expect(READ))
    }

    fn csv<const N: usize, T, C: FromIterator<T>>(
        &self,
        id: &str,
        columns: [&str; N],
        read: impl Fn([&str; N]) -> T,
    ) -> C {
        csv_rows(&self.file(id).text, columns).map(read).collect()
    }
}

impl KnowledgeTables {
    /// Reads the tables from their `files`.
    pub(super) fn read(files: &[DataFile]) -> Self {
        let files = TableFiles(files);
        // First, because a thread compiles its patterns meanwhile.
        let dead_weight = DeadWeightTable::new(files.yaml("dead-weight"));
        let mut drivers: Vec<MinimumDriver> = files.csv("drivers", DRIVERS, MinimumDriver::read);
        // Reports use the first row of a version, the toolkit without updates.
        drivers.sort_by_key(|row| version_numbers(&row.cuda));
        let builds: Vec<ReleaseBuild> = files.csv("builds", BUILDS, ReleaseBuild::read);
        let functions = FunctionTable {
            spans: files.csv("functions", FUNCTIONS, FunctionSpan::read),
        };
        let mut apis: Vec<CuptiApi> = files.yaml("apis");
        for api in &mut apis {
            api.since = functions.first_cuda_with(api);
        }
        let mut gpus: GpuTable = files.yaml("gpus");
        gpus.fill_first_releases(&builds);
        Self {
            apis,
            gpus,
            builds,
            functions,
            dead_weight,
            drivers,
            driver_libraries: files.yaml("driver-libraries"),
            ended_functions: files.csv("ended-functions", ENDED, EndedFunctions::read),
            framework_releases: files.csv("framework-releases", FRAMEWORK_RELEASES, FrameworkRelease::read),
            gpu_code: files.yaml("gpu-code"),
            host: files.yaml("host"),
            launchers: files.yaml("launchers"),
            sources: files.yaml("sources"),
            advice: files.yaml("advice"),
            packages: files.yaml("packages"),
            build_steps: files.yaml("build-steps"),
            release_faults: files.yaml("release-faults"),
            releases: ReleaseTable {
                by_hash: files.csv("releases", RELEASES, ReleaseFile::read),
                cuda_by_name: files.yaml("file-names"),
            },
            result_codes: files.csv("result-codes", RESULTS, ResultCode::read),
            shared_folders: files.yaml("shared-folders"),
            vertex_machines: files.yaml("vertex-machines"),
            toolkits: files.csv("toolkits", TOOLKITS, ToolkitVersion::read),
            weight: files.yaml("weight"),
            wheels: WheelTable {
                wheels: files.csv("wheels", WHEELS, ListedWheel::read),
            },
            bundles: files.yaml("bundles"),
            frameworks: files.yaml("frameworks"),
            library: files.yaml("cupti"),
        }
    }
}

/// The built-in releases, without the other tables.
pub(crate) fn built_in_releases() -> ReleaseTable {
    let files: Vec<DataFile> = built_in_files().filter(|file| file.id == "releases").collect();
    ReleaseTable {
        by_hash: TableFiles(&files).csv("releases", RELEASES, ReleaseFile::read),
        ..ReleaseTable::default()
    }
}

/// The results of CUPTI in these files, without the other tables.
pub(super) fn result_codes(files: &[DataFile]) -> Vec<ResultCode> {
    TableFiles(files).csv("result-codes", RESULTS, ResultCode::read)
}
