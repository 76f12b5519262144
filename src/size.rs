//! Readable sizes and counts for the report, the Dockerfile and the rules.

/// A size in decimal units, as in registries and engines.
pub(crate) fn format_size(bytes: u64) -> String {
    let units = [(1_000_000_000_u64, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            // Truncate instead of rounding: 999,999 bytes are 999.9 kB, never 1000.0 kB. A malicious image can declare
            // any size.
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// A count with its noun, such as `1 layer` and `2 entries`.
pub(crate) fn count_words(number: usize, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count_words, format_size};

    #[test]
    fn sizes_read_well() {
        assert_eq!(format_size(0), "0 B");
        assert_eq!(format_size(7_748_112), "7.7 MB");
        assert_eq!(format_size(3_087_779_533), "3.0 GB");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count_words(1, "layer"), "1 layer");
        assert_eq!(count_words(2, "entry"), "2 entries");
        assert_eq!(count_words(0, "layer"), "0 layers");
    }
}
