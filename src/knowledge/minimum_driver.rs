//! The oldest host driver for a CUDA version. An image does not show which driver it will run on.

/// The oldest driver for one CUDA toolkit, as the CUDA release notes list it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinimumDriver {
    /// The toolkit: major, minor and update, such as `12.4.1` for 12.4 Update 1.
    pub cuda: String,
    /// The driver released with it, or `not known`.
    pub driver: String,
    /// The oldest driver branch that runs any toolkit of the major version (minor-version compatibility).
    pub minor_compatibility: Option<String>,
}

/// The placeholder for a driver without a public source.
const NOT_KNOWN: &str = "not known";

/// The CUPTI version in a CUDA toolkit (`profiles/cupti/toolkits.csv`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolkitVersion {
    /// The toolkit: major, minor and update, such as `12.4.1`.
    pub cuda: String,
    /// The version of its CUPTI, such as `12.4.127`.
    pub cupti: String,
}

impl ToolkitVersion {
    /// Reads a row of the table.
    pub(super) fn read([cuda, cupti]: [&str; 2]) -> Self {
        Self {
            cuda: cuda.to_owned(),
            cupti: cupti.to_owned(),
        }
    }
}

impl MinimumDriver {
    /// The driver, if known.
    pub fn known_driver(&self) -> Option<&str> {
        Some(self.driver.as_str()).filter(|driver| *driver != NOT_KNOWN)
    }

    /// Reads a row of the table.
    pub(super) fn read([cuda, driver, branch]: [&str; 3]) -> Self {
        Self {
            cuda: cuda.to_owned(),
            driver: driver.to_owned(),
            // Minor-version compatibility exists since CUDA 11; older toolkits have no branch.
            minor_compatibility: Some(branch.to_owned()).filter(|branch| !branch.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn every_row_of_the_table_is_read_in_the_order_of_the_toolkits() {
        let numbers = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
        let table = &Knowledge::built_in().tables.drivers;
        let lines = include_str!("../../profiles/cupti/drivers.csv").lines();
        assert_eq!(table.len(), lines.filter(|line| line.starts_with('1')).count());
        assert!(table.is_sorted_by_key(|row| numbers(&row.cuda)));
        let known = table.iter().filter_map(|row| row.known_driver());
        assert!(known.map(numbers).is_sorted());
        for row in table {
            let major = numbers(&row.cuda).first().copied();
            let branch = [(11, "450"), (12, "525"), (13, "580")]
                .iter()
                .find(|(of, _)| Some(*of) == major)
                .map(|(_, branch)| *branch);
            assert_eq!(row.minor_compatibility.as_deref(), branch, "{}", row.cuda);
        }
    }

    #[test]
    fn the_version_of_a_toolkit_or_of_its_cupti_tells_the_update_and_with_it_the_driver() {
        let tables = Knowledge::built_in().tables;
        let drivers =
            |version: &str| -> Vec<&str> { tables.drivers_for(version).map(|row| row.driver.as_str()).collect() };
        assert_eq!(drivers("12.4"), ["550.54.14", "550.54.15"]);
        assert_eq!(drivers("12.4.99"), ["550.54.14"]);
        assert_eq!(drivers("12.4.127"), ["550.54.15"]);
        assert_eq!(drivers("12.4.1"), ["550.54.15"]);
        assert_eq!(drivers("13.0.48"), ["580.65.06"]);
        // Two updates and a patch of CUDA 13.0 have the same CUPTI.
        assert_eq!(drivers("13.0.85"), ["580.82.07", "580.95.05", "580.126.20"]);
        // The version of another component, such as cudart, identifies only the release.
        assert_eq!(drivers("13.0.96").first(), Some(&"580.65.06"));
        assert_eq!(drivers("13.4.58"), ["615.71.09"]);
        assert_eq!(drivers("13.4.92"), ["615.71.09"]);
        assert_eq!(drivers("13.5.25"), ["not known"]);
        assert_eq!(drivers("12.7"), [""; 0]);
        assert_eq!(drivers("12"), [""; 0]);
    }
}
