//! Reads the built-in CSV tables: releases, wheels, toolkits and drivers, which have many rows of few columns.

/// The rows of a table below its header, which has to be `columns`: another order would silently swap values. Lines that
/// begin with `#` are comments. No value contains a comma, so there is no quoting.
///
/// Panics: Never for a built-in table, because a test reads all of them.
pub(super) fn csv_rows<'t, const N: usize>(text: &'t str, columns: [&str; N]) -> impl Iterator<Item = [&'t str; N]> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(
        lines.next(),
        Some(&*columns.join(",")),
        "a test reads the tables of the program"
    );
    lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        fields.try_into().expect("a test reads the tables of the program")
    })
}

/// The words of a field, separated by spaces.
pub(super) fn words(field: &str) -> Vec<String> {
    field.split_whitespace().map(str::to_owned).collect()
}
