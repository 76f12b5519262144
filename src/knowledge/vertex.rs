//! The machines of Vertex AI's custom jobs (`profiles/vertex-machines.yaml`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::mistake::unknown_name;

/// An accelerator, and the machines that have it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VertexAccelerator {
    /// Vertex AI's name for it.
    pub accelerator: String,
    /// The GPU, as `profiles/cupti/gpus.yaml` names it.
    pub gpu: String,
    /// The machine types, by their number of accelerators.
    pub machines: BTreeMap<u32, String>,
    /// The processor of the machines, as in an image's platform.
    #[serde(default = "amd64")]
    pub architecture: String,
}

fn amd64() -> String {
    "amd64".to_owned()
}

/// The machine of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexMachine<'k> {
    /// Its machine type.
    pub machine: &'k str,
    /// Its accelerator.
    pub accelerator: &'k VertexAccelerator,
    /// How many of them it has.
    pub count: u32,
}

/// Finds the machine for `NAME` or `NAME:COUNT`. The name is Vertex AI's or the GPU's, and the first row that has it
/// counts.
///
/// Errors: A message with the names or numbers that there are.
pub fn find_machine<'k>(rows: &'k [VertexAccelerator], text: &str) -> Result<VertexMachine<'k>, String> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let mut accelerators = rows.iter();
    let found =
        accelerators.find(|row| row.accelerator.eq_ignore_ascii_case(name) || row.gpu.eq_ignore_ascii_case(name));
    let accelerator = found.ok_or_else(|| {
        let names: Vec<&str> = rows.iter().map(|row| row.accelerator.as_str()).collect();
        unknown_name("machine for", name, &names)
    })?;
    let machines = &accelerator.machines;
    let machine = count.parse().ok().and_then(|count| machines.get_key_value(&count));
    let (count, machine) = machine.ok_or_else(|| {
        let counts: Vec<String> = machines.keys().map(u32::to_string).collect();
        let (name, shown) = (
            &accelerator.accelerator,
            image_linkage::escape::escape_bytes(count.as_bytes()),
        );
        format!(
            "no machine with {shown} {name} is known; there is one with {}",
            counts.join(", ")
        )
    })?;
    Ok(VertexMachine {
        machine,
        accelerator,
        count: *count,
    })
}

#[cfg(test)]
mod tests {
    use super::find_machine;
    use crate::knowledge::Knowledge;

    fn found(text: &str) -> Result<String, String> {
        let rows = &Knowledge::built_in().tables.vertex_machines;
        let machine = find_machine(rows, text)?;
        let (name, count) = (&machine.accelerator.accelerator, machine.count);
        Ok(format!("{} {count} {name}", machine.machine))
    }

    #[test]
    fn a_machine_is_found_by_either_name_and_a_number_that_no_machine_has_is_an_error() {
        assert_eq!(found("NVIDIA_L4").unwrap(), "g2-standard-12 1 NVIDIA_L4");
        assert_eq!(found("l4:4").unwrap(), "g2-standard-48 4 NVIDIA_L4");
        assert_eq!(found("a100:2").unwrap(), "a2-highgpu-2g 2 NVIDIA_TESLA_A100");
        assert_eq!(
            found("NVIDIA_L4:3").unwrap_err(),
            "no machine with 3 NVIDIA_L4 is known; there is one with 1, 2, 4, 8"
        );
        let said = found("NVIDIA_L5").unwrap_err();
        assert!(
            said.starts_with("there is no machine for \"NVIDIA_L5\"; did you mean \"NVIDIA_L4\"?"),
            "{said}"
        );
    }

    #[test]
    fn every_accelerator_is_a_gpu_that_is_known() {
        let tables = &Knowledge::built_in().tables;
        for row in &tables.vertex_machines {
            tables.gpus.find(&row.gpu).unwrap();
        }
    }
}
