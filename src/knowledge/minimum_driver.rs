//! The oldest driver of the host for a CUDA version: an image cannot show which driver it will meet.

use std::sync::LazyLock;

/// The oldest driver for one CUDA toolkit, as the CUDA release notes list it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumDriver {
    /// The toolkit: major, minor and update, such as `12.4.1` for 12.4 Update 1.
    pub cuda: &'static str,
    /// The driver that came with it.
    pub driver: &'static str,
    /// The branch from which on minor-version compatibility lets any toolkit of the major version run.
    pub minor_compatibility: Option<&'static str>,
}

static DRIVERS: LazyLock<Vec<MinimumDriver>> = LazyLock::new(|| {
    let rows = include_str!("../../profiles/cupti/drivers.csv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1);
    rows.filter_map(|row| {
        let mut fields = row.split(',');
        Some(MinimumDriver {
            cuda: fields.next()?,
            driver: fields.next()?,
            minor_compatibility: fields.next().filter(|branch| !branch.is_empty()),
        })
    })
    .collect()
});

/// The table, the oldest toolkit first.
pub fn minimum_drivers() -> &'static [MinimumDriver] {
    &DRIVERS
}

/// The rows of one CUDA version: `12.4`, or the version of a component such as CUPTI 12.4.127, whose third
/// number is that of its build and tells nothing of the update.
pub fn drivers_for_cuda(version: &str) -> Vec<MinimumDriver> {
    let minor = major_and_minor(version);
    DRIVERS
        .iter()
        .filter(|row| minor.is_some() && major_and_minor(row.cuda) == minor)
        .copied()
        .collect()
}

/// Major and minor of a version, as written: `12.4` of `12.4.127`.
fn major_and_minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.split('.');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::{drivers_for_cuda, minimum_drivers};

    #[test]
    fn every_row_of_the_table_is_read_in_the_order_of_the_toolkits() {
        let numbers = |text: &str| -> Vec<u32> {
            text.split('.').map(|part| part.parse().unwrap()).collect()
        };
        let table = minimum_drivers();
        let lines = include_str!("../../profiles/cupti/drivers.csv").lines();
        assert_eq!(
            table.len(),
            lines.filter(|line| line.starts_with('1')).count()
        );
        assert!(table.is_sorted_by_key(|row| numbers(row.cuda)));
        assert!(table.is_sorted_by_key(|row| numbers(row.driver)));
        for row in table {
            let major = numbers(row.cuda).first().copied();
            let branch = [(11, "450"), (12, "525"), (13, "580")]
                .iter()
                .find(|(of, _)| Some(*of) == major)
                .map(|(_, branch)| *branch);
            assert_eq!(row.minor_compatibility, branch, "{}", row.cuda);
        }
    }

    #[test]
    fn a_cuda_version_and_the_version_of_its_cupti_have_the_same_drivers() {
        let drivers = |version: &str| -> Vec<&str> {
            drivers_for_cuda(version)
                .iter()
                .map(|row| row.driver)
                .collect()
        };
        assert_eq!(drivers("12.4"), ["550.54.14", "550.54.15"]);
        assert_eq!(drivers("12.4.127"), drivers("12.4"));
        assert_eq!(drivers("12.7"), [""; 0]);
        assert_eq!(drivers("12"), [""; 0]);
    }
}
