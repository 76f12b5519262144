//! The user of a process that an engine starts: `USER` looked up in the image's files. Reimplements the engine's
//! documentation and source (moby `user.GetExecUser`).

use super::spec::{Content, ImageSpec};

/// The users of every image's base.
pub const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
app:x:1000:1000::/home/app:/bin/sh
svc:x:1001:1001::/home/svc:/bin/sh
";
/// The groups of every image's base.
pub const GROUP: &str = "root:x:0:
app:x:1000:
svc:x:1001:
gpu:x:1500:app
data:x:1600:svc,app
";

/// The credentials of a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The user's home folder.
    pub home: String,
}

/// The credentials of an image's processes; `None` if the engine refuses to start it.
pub fn credentials(spec: &ImageSpec) -> Option<Credentials> {
    let passwd = text(spec, "/etc/passwd", PASSWD);
    let group = text(spec, "/etc/group", GROUP);
    let asked = spec.user.as_deref().unwrap_or_default();
    let (user, wanted) = asked.split_once(':').unwrap_or((asked, ""));
    let user = if user.is_empty() { "0" } else { user };
    let rows = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines();
        lines.map(|line| line.split(':').map(str::to_owned).collect()).collect()
    };
    let number = user.parse::<u32>().ok();
    let known = rows(&passwd)
        .into_iter()
        .find(|row| row[0] == user || row[2].parse().ok() == number && number.is_some());
    let uid = match (&known, number) {
        (Some(row), _) => row[2].parse().unwrap(),
        (None, Some(number)) => number,
        (None, None) => return None,
    };
    let (mut gid, name) = known
        .as_ref()
        .map_or((0, String::new()), |row| (row[3].parse().unwrap(), row[0].clone()));
    let mut groups = Vec::new();
    if wanted.is_empty() {
        let member = |row: &Vec<String>| !name.is_empty() && row[3].split(',').any(|member| member == name);
        let rows = rows(&group);
        groups.extend(
            rows.iter()
                .filter(|row| member(row))
                .map(|row| row[2].parse::<u32>().unwrap()),
        );
    } else {
        let number = wanted.parse::<u32>().ok();
        let found = rows(&group)
            .into_iter()
            .find(|row| row[0] == wanted || row[2].parse().ok() == number && number.is_some());
        gid = found.map(|row| row[2].parse().unwrap()).or(number)?;
    }
    // runc sets HOME to this if the image does not (libcontainer, prepareEnv).
    let home = rows(&passwd)
        .into_iter()
        .find(|row| row[2].parse() == Ok(uid))
        .map_or("/".to_owned(), |row| row[5].clone());
    Some(Credentials { uid, gid, groups, home })
}

/// The file's text in the last layer that contains it.
fn text(spec: &ImageSpec, path: &str, usual: &str) -> String {
    let entries = spec.layers.iter().rev().filter_map(|layer| layer.get(path));
    let mut texts = entries.filter_map(|entry| match &entry.is {
        Content::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.next().unwrap_or_else(|| usual.to_owned())
}
