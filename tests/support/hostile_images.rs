//! Images of a few kilobytes that require much work, and the resources that the program uses for one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use indexmap::IndexMap;
use testkit::layer::Compression;
use testkit::oci::Layout;
use testkit::spec::{EntrySpec, Fixture, LayerSpec, Sources};

static SOURCES: LazyLock<Sources> = LazyLock::new(|| Sources::of_repository().unwrap());

/// The image's entries beyond Debian and its libcupti, by absolute path.
pub type Entries = IndexMap<String, EntrySpec>;

/// The resources and the output of a run.
pub struct MeasuredRun {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The CPU time, which is independent of other processes.
    pub took: Duration,
    pub peak_mib: u64,
    #[allow(dead_code, reason = "not every test reads it")]
    pub stdout: String,
    pub stderr: String,
}

/// Writes a layout into `folder`: Debian with libcupti, these files and another change.
pub fn write_image(folder: &Path, entries: Entries, change: impl FnOnce(&mut Fixture)) -> String {
    let mut fixture: Fixture = SOURCES.fixtures()["debian-cupti"].clone();
    change(&mut fixture);
    fixture.layers.push(LayerSpec {
        created_by: "COPY hostile /".to_owned(),
        compression: Compression::Gzip,
        entries: Some(entries),
    });
    let mut layout = Layout::new();
    layout.add("latest", &SOURCES.images(&fixture).unwrap());
    layout.write_to(folder).unwrap();
    format!("oci:{}", folder.display())
}

/// Runs the program and samples its peak memory until it ends.
pub fn measure(program: &str, arguments: &[&str]) -> MeasuredRun {
    let folder = tempfile::TempDir::new().unwrap();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| folder.path().join(name));
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("CUPTI_AUDIT_NO_CACHE", "1")
        .stdin(Stdio::null())
        .stdout(fs::File::create(&stdout).unwrap())
        .stderr(fs::File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let child_id = child.id();
    let of_process = |file: &str| fs::read_to_string(format!("/proc/{child_id}/{file}")).unwrap_or_default();
    let (mut peak, mut ticks) = (0, 0);
    let code = loop {
        // `VmHWM` never decreases (`proc_pid_status(5)`), so at most the growth of the last milliseconds is missed.
        let text = of_process("status");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line
            .and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
            .unwrap_or(peak);
        ticks = processor_ticks(&of_process("stat")).unwrap_or(ticks);
        if let Some(ended) = child.try_wait().unwrap() {
            break ended.code();
        }
        std::thread::sleep(Duration::from_millis(4));
    };
    MeasuredRun {
        code,
        took: Duration::from_millis(ticks * 10),
        peak_mib: peak >> 10,
        stdout: fs::read_to_string(stdout).unwrap(),
        stderr: fs::read_to_string(stderr).unwrap(),
    }
}

/// The user and system CPU time of a process in hundredths of a second (`proc_pid_stat(5)`, fields 14 and 15).
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}
