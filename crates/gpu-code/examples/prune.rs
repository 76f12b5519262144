//! Prunes one object: `prune FILE OUT 90[,80] [--in-place] [--keep-ptx]`.
//!
//! Exit code 0: OUT was written and verified. 2: the object stays as it is, for the reason on standard error.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example reads and writes files that its user names"
)]

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;

use gpu_code::{DeviceCode, GpuArchitecture, KeptPtx, PruneTarget, PruneWay, plan_pruning, verify_pruned};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("left as it is: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let before = words.len();
        words.retain(|word| word != name);
        words.len() < before
    };
    let way = if flag("--in-place") {
        PruneWay::InPlace
    } else {
        PruneWay::Compact
    };
    let ptx = if flag("--keep-ptx") {
        KeptPtx::All
    } else {
        KeptPtx::Needed
    };
    let [file, out, gpus] = words.as_slice() else {
        return Err("expected FILE OUT GPU[,GPU]".into());
    };
    let numbers = gpus.split(',').map(|gpu| gpu.trim_start_matches("sm_").parse().ok());
    let gpus: Option<Vec<GpuArchitecture>> = numbers.map(|number| GpuArchitecture::new(number?)).collect();
    let target = PruneTarget::new(gpus.ok_or("expected numbers such as 90")?, ptx)?;
    let source = File::open(file)?;
    let plan = plan_pruning(&source, &target, way)?;
    plan.write(&source, &mut BufWriter::new(File::create(out)?))?;
    verify_pruned(&source, &File::open(out)?, &target)?;
    println!("{:?} {} -> {} bytes", plan.way, plan.bytes_before, plan.bytes_after);
    println!("before: {}", kinds(&plan.code_before));
    println!("after: {}", kinds(&plan.code_after));
    Ok(())
}

fn kinds(code: &DeviceCode) -> String {
    let kinds = code.by_kind().into_values();
    let kinds = kinds.map(|amount| format!("{} {}", amount.kind, amount.bytes));
    kinds.collect::<Vec<_>>().join(", ")
}
