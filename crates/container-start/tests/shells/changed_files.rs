//! Are file changes found, whichever command makes them?

use std::collections::BTreeMap;

use container_start::{ContainerCommand, FileKind, FileStat, ImageFiles, LauncherTable, read_start};

/// An image with a shell and a script.
struct Image(BTreeMap<String, Vec<u8>>);

impl ImageFiles for Image {
    fn resolve(&self, path: &str) -> Option<String> {
        self.0.contains_key(path).then(|| path.to_owned())
    }

    fn stat(&self, path: &str) -> Option<FileStat> {
        let content = self.0.get(path)?;
        let is_object = content.starts_with(b"\x7fELF");
        Some(FileStat {
            kind: if is_object { FileKind::Object } else { FileKind::Regular },
            mode: 0o755,
            bytes: content.len() as u64,
        })
    }

    fn is_link(&self, _path: &str) -> bool {
        false
    }

    fn read(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice)
    }

    fn list(&self, _path: &str) -> Vec<String> {
        Vec::new()
    }

    fn is_packaged(&self, _path: &str) -> bool {
        false
    }
}

fn changed(statement: &str) -> Vec<String> {
    let mut files: BTreeMap<String, Vec<u8>> = ["bash", "find", "rm", "nice", "chmod", "ldconfig", "cat"]
        .map(|name| (format!("/usr/bin/{name}"), b"\x7fELF".to_vec()))
        .into();
    let script = format!("#!/usr/bin/bash\n{statement}\nexec /train\n");
    files.insert("/entry.sh".to_owned(), script.into_bytes());
    let command = ContainerCommand {
        words: vec!["/entry.sh".to_owned()],
        environment: [("PATH".to_owned(), "/usr/bin".to_owned())].into(),
        directory: "/".to_owned(),
        ..ContainerCommand::default()
    };
    let table: LauncherTable = serde_saphyr::from_str(include_str!("../../../../profiles/launchers.yaml")).unwrap();
    let start = read_start(&command, &Image(files), &table);
    start.changed_files.into_iter().map(|file| file.path).collect()
}

#[test]
fn every_way_to_change_a_file_is_reported() {
    let cases = [
        ("echo /opt/x/lib > /etc/ld.so.conf.d/x.conf", "/etc/ld.so.conf.d/x.conf"),
        ("cat >> /etc/ld.so.preload <<< /opt/x.so", "/etc/ld.so.preload"),
        ("nice -n 5 rm -rf /opt/x", "/opt/x"),
        ("find /opt/x -name '*.so*' -delete", "/opt/x"),
        ("find / -name libx.so -exec rm /opt/x/libx.so ';'", "/opt/x/libx.so"),
        ("chmod 000 /opt/x", "/opt/x"),
        ("(rm /opt/x/libx.so) &", "/opt/x/libx.so"),
        ("ldconfig -f /opt/own.conf", "/etc/ld.so.conf"),
        ("rm -rf \"$(cat /dev/stdin)\"", "/"),
    ];
    for (statement, path) in cases {
        let changed = changed(statement);
        assert!(
            changed.iter().any(|changed| changed == path),
            "{statement}: {changed:?}"
        );
    }
    for statement in [
        "find /opt/x -name '*.so*'",
        "cat /opt/x > /dev/null",
        "ldconfig",
        "ldconfig -p",
    ] {
        assert_eq!(changed(statement), [""; 0], "{statement}");
    }
}
