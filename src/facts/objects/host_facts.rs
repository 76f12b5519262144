//! Reads what the host of a running container grants, from files of the kernel and NVIDIA's driver.

use std::collections::BTreeSet;

/// `CAP_SYS_ADMIN` and `CAP_PERFMON` (linux/capability.h), each with the first driver branch that accepts it.
const PRIVILEGES: [(u32, Option<u32>); 2] = [(21, None), (38, Some(565))];

/// The folder with one folder for each GPU (NVIDIA driver README, "Using the /proc File System Interface").
const GPUS: &str = "/proc/driver/nvidia/gpus";

/// The properties of the host of a running container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    /// The version of the kernel's NVIDIA driver, such as `550.54.15`.
    pub driver: Option<String>,
    /// Whether the container has a GPU device.
    pub has_gpu: bool,
    /// Whether the GPU is one of WSL or of a Tegra board, whose drivers have no version in `/proc`.
    pub has_other_driver: bool,
    /// The models of its GPUs in the driver's words, such as `NVIDIA H100 80GB HBM3`, each once.
    pub models: BTreeSet<String>,
    /// How the container toolkit gave the GPU to the container, if that can be seen.
    pub mode: Option<InjectionMode>,
    /// Whether hardware counters are permitted; `None` if the driver does not show it.
    pub counters: Option<bool>,
    /// The level of `kernel.perf_event_paranoid`; `None` if the kernel does not show it, or does not apply it to this
    /// process.
    pub perf_level: Option<i32>,
    /// Whether Dynolog's daemon listens on the socket that PyTorch uses.
    pub has_daemon: bool,
}

/// How the container toolkit gives a GPU to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectionMode {
    /// By a specification of the Container Device Interface, the default since toolkit 1.18.
    Cdi,
    /// By libnvidia-container.
    Legacy,
}

/// Reads the properties of the host. `read` returns the text of a file in `/proc`, `list` the names in a folder.
pub fn read_host_facts(read: impl Fn(&str) -> Option<String>, list: impl Fn(&str) -> Vec<String>) -> HostFacts {
    let devices = list("/dev");
    let driver = read("/proc/driver/nvidia/version").and_then(|text| driver_version(&text));
    let capabilities = read("/proc/self/status").and_then(|text| effective_capabilities(&text));
    let branch = driver.as_deref().and_then(driver_branch);
    let mut held = Vec::from(PRIVILEGES);
    held.retain(|(bit, _)| capabilities.is_some_and(|set| set >> bit & 1 == 1));
    let is_privileged = held.iter().any(|(_, from)| *from <= branch);
    // The kernel asks for either capability, or else for the level (perf_event_open(2)).
    let perf_level = if held.is_empty() {
        read("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.trim().parse().ok())
    } else {
        None
    };
    // The value of nvidia.ko's NVreg_RestrictProfilingToAdminUsers has this name in the file.
    let restricted = read("/proc/driver/nvidia/params").and_then(|text| parameter(&text, "RmProfilingAdminOnly"));
    // Same check as in NVIDIA's entry points: 50-gpu-driver-check.sh of nvidia/cuda.
    let has_other_driver = devices.iter().any(|name| matches!(name.as_str(), "dxg" | "nvgpu"));
    // The container toolkit mounts the folders of the container's own GPUs here (nvc_mount.c of libnvidia-container).
    let gpus = list(GPUS).into_iter();
    let models = gpus.filter_map(|gpu| parameter(&read(&format!("{GPUS}/{gpu}/information"))?, "Model"));
    HostFacts {
        has_gpu: has_other_driver
            || devices
                .iter()
                .any(|name| name.strip_prefix("nvidia").is_some_and(is_number)),
        has_other_driver,
        models: models.collect(),
        mode: injection_mode(
            &read("/proc/self/environ").unwrap_or_default(),
            &read("/proc/self/mountinfo").unwrap_or_default(),
        ),
        perf_level,
        counters: restricted.map(|restricted| restricted == "0" || is_privileged),
        // An abstract socket; Kineto's IPCMonitor sends to this name.
        has_daemon: read("/proc/net/unix").is_some_and(|text| text.lines().any(|line| line.ends_with(" @dynolog"))),
        driver,
    }
}

/// How the GPU came, by what each mode leaves behind. CDI sets a variable since toolkit 1.18.0 and mounts over one file
/// since 1.17.7 (nvidia-container-toolkit, pkg/nvcdi); libnvidia-container mounts over the whole folder (`nvc_mount.c`).
fn injection_mode(environment: &str, mounts: &str) -> Option<InjectionMode> {
    let sets_folder = environment
        .split('\0')
        .any(|variable| variable.starts_with("NVIDIA_CTK_LIBCUDA_DIR="));
    // The fifth field is the mount point (proc_pid_mountinfo(5)).
    let mounted: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    if sets_folder || mounted.contains(&"/proc/driver/nvidia/params") {
        return Some(InjectionMode::Cdi);
    }
    if mounted.contains(&"/proc/driver/nvidia") {
        return Some(InjectionMode::Legacy);
    }
    None
}

/// The branch of a driver, the first number of its version.
fn driver_branch(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The version in the kernel module's line, which differs between the kinds of the module.
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let version = line.split_whitespace().find(|word| {
        let numbers = word.split('.');
        (2..=3).contains(&numbers.clone().count()) && numbers.into_iter().all(is_number)
    });
    version.map(str::to_owned)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn parameter(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{HostFacts, InjectionMode, injection_mode, read_host_facts};

    const OPEN_MODULE: &str =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version:  gcc 12.2.0\n";
    const MODULE: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";

    #[test]
    fn counters_are_granted_by_the_driver_or_by_a_capability_that_it_knows() {
        let granted = |version: &str, restricted: &str, capabilities: &str| {
            let read = |path: &str| {
                let text = match path {
                    "/proc/driver/nvidia/version" => version.to_owned(),
                    "/proc/driver/nvidia/params" => restricted.to_owned(),
                    "/proc/self/status" => format!("Name:\tx\nCapEff:\t{capabilities}\n"),
                    _ => return None,
                };
                Some(text)
            };
            read_host_facts(read, |_| Vec::new()).counters
        };
        let (admin, perfmon, none) = ("0000000000200000", "0000004000000000", "00000000a80425fb");
        for (version, restricted, capabilities, expected) in [
            (MODULE, "RmProfilingAdminOnly: 1\n", none, Some(false)),
            (MODULE, "RmProfilingAdminOnly: 0\n", none, Some(true)),
            (MODULE, "RmProfilingAdminOnly: 1\n", admin, Some(true)),
            (MODULE, "RmProfilingAdminOnly: 1\n", perfmon, Some(false)),
            (OPEN_MODULE, "RmProfilingAdminOnly: 1\n", perfmon, Some(true)),
            (MODULE, "ModifyDeviceFiles: 1\n", admin, None),
        ] {
            assert_eq!(
                granted(version, restricted, capabilities),
                expected,
                "{version} {restricted} {capabilities}"
            );
        }
    }

    #[test]
    fn the_mode_of_the_container_toolkit_shows_in_a_variable_or_a_mount() {
        let mount =
            |place: &str| format!("30 25 0:31 / /proc rw - proc proc rw\n31 30 0:40 / {place} ro - tmpfs tmpfs ro\n");
        for (environment, mounts, expected) in [
            (
                "PATH=/bin\0NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64\0",
                String::new(),
                Some(InjectionMode::Cdi),
            ),
            (
                "NVIDIA_VISIBLE_DEVICES=void\0",
                mount("/proc/driver/nvidia/params"),
                Some(InjectionMode::Cdi),
            ),
            (
                "NVIDIA_VISIBLE_DEVICES=all\0",
                mount("/proc/driver/nvidia"),
                Some(InjectionMode::Legacy),
            ),
            // The user's value for no GPU.
            ("NVIDIA_VISIBLE_DEVICES=void\0", mount("/proc/driver"), None),
        ] {
            assert_eq!(
                injection_mode(environment, &mounts),
                expected,
                "{environment:?} {mounts}"
            );
        }
    }

    #[test]
    fn a_host_without_a_driver_grants_nothing_and_one_with_it_says_which() {
        let listed = |folder: &str, names: &[&str]| -> Vec<String> {
            let gpus = ["0000:00:1e.0", "0000:00:1f.0"];
            let names = if folder == "/dev" { names } else { &gpus };
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(
            read_host_facts(|_| None, |folder| listed(folder, &["null"])),
            HostFacts::default()
        );
        let read = |path: &str| match path {
            "/proc/driver/nvidia/version" => Some(MODULE.to_owned()),
            "/proc/self/mountinfo" => Some("9 8 0:40 / /proc/driver/nvidia ro - tmpfs tmpfs ro\n".to_owned()),
            "/proc/sys/kernel/perf_event_paranoid" => Some("4\n".to_owned()),
            "/proc/net/unix" => {
                Some("Num RefCount\n0000: 00000002 00000000 00000000 0002 01 12345 @dynolog\n".to_owned())
            }
            "/proc/driver/nvidia/gpus/0000:00:1e.0/information" => {
                Some("Model: \t\t NVIDIA A10G\nIRQ:   \t\t 42\nBus Type: \t PCIe\n".to_owned())
            }
            _ => None,
        };
        let devices = ["nvidiactl", "nvidia0", "nvidia-uvm"];
        let found = read_host_facts(read, |folder| listed(folder, &devices));
        let expected = HostFacts {
            driver: Some("535.104.05".to_owned()),
            has_gpu: true,
            has_other_driver: false,
            models: ["NVIDIA A10G".to_owned()].into(),
            mode: Some(InjectionMode::Legacy),
            counters: None,
            perf_level: Some(4),
            has_daemon: true,
        };
        assert_eq!(found, expected);
        for device in ["dxg", "nvgpu"] {
            let expected = HostFacts {
                has_gpu: true,
                has_other_driver: true,
                ..HostFacts::default()
            };
            assert_eq!(read_host_facts(|_| None, |folder| listed(folder, &[device])), expected);
        }
        assert!(!read_host_facts(read, |folder| listed(folder, &devices[..1])).has_gpu);
    }
}
