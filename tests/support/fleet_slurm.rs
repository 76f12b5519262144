//! Runs a fleet of two hundred images on a real Slurm: this machine's slurmctld, slurmd and munge.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::fleet_images::{FleetRegistry, fleet, outcome, results};
use crate::registry_parts::{REGISTRY, SKOPEO};
use crate::support;

/// A cluster with one node that stops when this is dropped.
struct SlurmCluster {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl SlurmCluster {
    fn start(dir: &Path) -> Self {
        let host = text(Command::new("hostname").arg("-s")).trim().to_owned();
        let at = dir.display();
        let [controller, node] = [(); 2].map(|()| {
            std::net::TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port()
        });
        let cpus = std::thread::available_parallelism().unwrap();
        let config = format!(
            "ClusterName=fleet\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/c.pid\nSlurmdPidFile={at}/d.pid\nSlurmctldLogFile={at}/c.log\nSlurmdLogFile={at}/d.log\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             KillWait=2\nReturnToService=2\nSchedulerParameters=sched_interval=1,sched_min_interval=100000\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8\n"
        );
        fs::write(dir.join("slurm.conf"), config).unwrap();
        fs::create_dir_all(dir.join("state")).unwrap();
        fs::create_dir_all(dir.join("spool")).unwrap();
        fs::write(dir.join("munge.key"), [0x5a; 1024]).unwrap();
        let private = ["-R", "go=", &dir.join("munge.key").display().to_string()].map(str::to_owned);
        text(Command::new("chmod").args(private));
        let mut cluster = Self {
            dir: dir.to_owned(),
            daemons: Vec::new(),
        };
        let munge = ["socket", "key-file", "log-file", "pid-file", "seed-file"]
            .map(|what| format!("--{what}={at}/munge.{}", what.split('-').next().unwrap()));
        cluster.daemon(
            "munged",
            &[&["-F".to_owned(), "--force".to_owned()], &munge[..]].concat(),
        );
        wait_for("munge", || dir.join("munge.socket").exists());
        cluster.daemon("slurmctld", &["-D".to_owned()]);
        cluster.daemon("slurmd", &["-D".to_owned()]);
        wait_for("a node that is idle", || {
            cluster.ask("sinfo", &["-h", "-o", "%T"]).trim() == "idle"
        });
        cluster
    }

    fn daemon(&mut self, name: &str, arguments: &[String]) {
        let mut command = self.command(name, &[]);
        let daemon = command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(daemon.unwrap());
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(name);
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        command
            .args(arguments)
            .env("SLURM_CONF", self.dir.join("slurm.conf"))
            .env("PATH", path);
        command
    }

    fn ask(&self, name: &str, arguments: &[&str]) -> String {
        // The command fails while the daemons start, so its status is ignored.
        String::from_utf8(self.command(name, arguments).output().unwrap().stdout).unwrap()
    }

    /// Submits an array of workers and returns the job number.
    fn submit(&self, array: &str, shards: Option<&str>, cache: &Path, arguments: &[&str]) -> String {
        let log = format!("{}/%A-%a.out", self.dir.display());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/slurm/fleet.sh");
        let array = format!("--array={array}");
        let options = [
            "--parsable",
            "--cpus-per-task=1",
            "--mem=100",
            "-o",
            &log,
            &array,
            script,
        ];
        let mut command = self.command("sbatch", &[&options[..], arguments, &["--no-config"]].concat());
        command
            .env("CUPTI_AUDIT", env!("CARGO_BIN_EXE_cupti-audit"))
            .env("CUPTI_AUDIT_CACHE_DIR", cache);
        text(command.envs(shards.map(|shards| ("CUPTI_AUDIT_SHARDS", shards))))
            .trim()
            .to_owned()
    }

    fn wait_until_idle(&self) {
        wait_for("an empty queue", || self.ask("squeue", &["-h"]).trim().is_empty());
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        self.command("scancel", &["--user=root"]).output().unwrap();
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn text(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_mins(5), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The seconds from the first result to the last, which excludes the scheduler's delay.
fn time_of_results(out: &Path) -> f64 {
    let parts = fs::read_dir(out.join("results"))
        .unwrap()
        .map(|part| part.unwrap().path());
    let files = parts.flat_map(|part| fs::read_dir(part).unwrap());
    let times = files.map(|file| file.unwrap().metadata().unwrap().modified().unwrap());
    let times: BTreeSet<SystemTime> = times.collect();
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    last.duration_since(*first).unwrap().as_secs_f64()
}

/// The process ID of the program in this array task.
fn process_of(job: &str, task: &str) -> Option<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_it = |folder: &PathBuf| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        let has = |variable: String| {
            environment
                .split(|byte| *byte == 0)
                .any(|one| one == variable.as_bytes())
        };
        let program = fs::read_link(folder.join("exe")).unwrap_or_default();
        program.ends_with("cupti-audit")
            && has(format!("SLURM_ARRAY_JOB_ID={job}"))
            && has(format!("SLURM_ARRAY_TASK_ID={task}"))
    };
    let found = processes.map(|entry| entry.path()).find(is_it)?;
    Some(found.file_name()?.to_str()?.to_owned())
}

#[test]
fn on_a_real_slurm_nothing_is_lost_and_nothing_done_twice() {
    if std::env::var_os("CUPTI_AUDIT_ALL").is_none() {
        println!("skipped: make test-all runs two hundred images on a real Slurm");
        return;
    }
    let slurm = [("slurmctld", "slurm-wlm"), ("slurmd", "slurm-wlm"), ("munged", "munge")];
    if !support::is_root() || !support::have_all(&[&[REGISTRY, SKOPEO], &slurm[..]].concat()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let images = FleetRegistry::of(dir.path(), 197);
    let cluster_folder = dir.path().join("slurm");
    fs::create_dir(&cluster_folder).unwrap();
    let cluster = SlurmCluster::start(&cluster_folder);
    let (cache, out) = (dir.path().join("cache"), dir.path().join("out"));
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (work, out_text) = (path("work.jsonl"), path("out"));
    let all = format!("registry:{}", images.registry.address);
    assert_eq!(
        outcome(fleet(&cache, &["list", &all, "-o", &work], &[])),
        (0, String::new(), String::new())
    );
    let slow = ["--limit", "requests-per-second=20"];
    let job = cluster.submit("0-9", None, &cache, &[&[&*work, &out_text], &slow[..]].concat());
    wait_for("forty results", || results(&out).len() >= 40);
    // The scheduler cancels one task, and another is killed.
    cluster.ask("scancel", &[&format!("{job}_3")]);
    let victim = process_of(&job, "7").expect("task 7 runs");
    text(Command::new("kill").args(["-KILL", &victim]));
    cluster.wait_until_idle();
    let before = results(&out);
    assert!((160..200).contains(&before.len()), "{} results", before.len());
    let report = |format: &str| {
        outcome(fleet(
            &cache,
            &["report", &out_text, "--worklist", &work, "--format", format],
            &[],
        ))
    };
    assert!(
        report("text")
            .1
            .contains(&format!("{} without a result yet", 200 - before.len()))
    );
    cluster.submit("3,7", Some("10"), &cache, &[&work, &out_text]);
    cluster.wait_until_idle();
    let done = results(&out);
    assert_eq!(done, images.digests.iter().cloned().collect::<Vec<_>>());
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), 200);
    assert!(!report("text").1.contains("without a result"));
    let reads = images.layer_reads();
    assert!((200..=240).contains(&reads), "200 layers, read {reads} times");
    // Repeats the fleet with a filled cache: no layer is read, and more workers are faster until all processors are
    // busy.
    for workers in [1, 2, 4, 8] {
        let again = path(&format!("again{workers}"));
        cluster.submit(&format!("0-{}", workers - 1), None, &cache, &[&work, &again]);
        cluster.wait_until_idle();
        assert_eq!(results(Path::new(&again)), done);
        let seconds = time_of_results(Path::new(&again));
        println!(
            "{workers} workers: 200 known images in {seconds:.1} s, {:.0} a second",
            200.0 / seconds
        );
    }
    assert_eq!(images.layer_reads(), reads);
    println!("200 of 200 images audited once on Slurm, two of ten workers killed; {reads} reads of 200 layers");
}
