//! Reads setuptools' import hook of an editable package (`pip install -e`). It is a module next to the `.pth` file that
//! imports it, and contains a table of packages (`_FINDER_TEMPLATE` of `editable_wheel.py`).

/// The packages and their folders in `MAPPING: dict[str, str] = {'name': '/folder/name'}`.
pub fn read_mapping(hook: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(hook);
    let line = text.lines().find(|line| line.starts_with("MAPPING"));
    let table = line
        .and_then(|line| line.split_once('{'))
        .map_or("", |(_, table)| table);
    // Reads quoted strings only. Names and folders with a quote do not occur in images.
    let mut texts = table.split('\'').skip(1).step_by(2);
    let mut pairs = Vec::new();
    while let (Some(name), Some(folder)) = (texts.next(), texts.next()) {
        pairs.push((name.to_owned(), folder.to_owned()));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::read_mapping;

    #[test]
    fn the_table_of_a_hook_is_read() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let found = read_mapping(text.as_bytes());
            let found: Vec<(&str, &str)> = found
                .iter()
                .map(|(name, folder)| (name.as_str(), folder.as_str()))
                .collect();
            assert_eq!(found, expected, "{text}");
        };
        let pairs = [("foo", "/src/foo"), ("foo_more", "/src/lib/foo_more")];
        check(
            "import sys\nMAPPING: dict[str, str] = {'foo': '/src/foo', 'foo_more': '/src/lib/foo_more'}\n",
            &pairs,
        );
        check(
            "MAPPING = {'foo': '/src/foo'}\nNAMESPACES = {'x': ['/y']}\n",
            &pairs[..1],
        );
        check("MAPPING: dict[str, str] = {}\n", &[]);
        check("nothing", &[]);
    }
}
