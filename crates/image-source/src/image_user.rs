//! Which user a container runs as, from `User` of the config and the image's `/etc/passwd` and `/etc/group`. Follows
//! `GetExecUser` of moby/sys/user, which runc, Docker, Podman and containerd use.

use image_linkage::escape;
use image_linkage::rootfs::FileCredentials;

/// Reads `USER[:GROUP]`, each a name or a number. An empty `spec` is root.
///
/// Errors: Why an engine refuses to start the container.
pub fn find_user(spec: &str, passwd: &[u8], group: &[u8]) -> Result<FileCredentials, String> {
    let mut parts = spec.split(':');
    let (user_part, group_part) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = decimal(user_part);
    let mut accounts = lines(passwd).map(Account::read);
    let account = accounts.find(|account| match (user_part, number) {
        ("", _) => account.uid == 0,
        (_, Some(number)) => account.uid == number,
        (name, None) => account.name == name.as_bytes(),
    });
    let (uid, own_group) = match (&account, user_part, number) {
        (Some(account), _, _) => (account.uid, account.gid),
        (None, "", _) => (0, 0),
        (None, _, Some(number)) => (number, 0),
        (None, name, None) => return Err(unknown(&format!("user {name}"), "passwd")),
    };
    let name = account
        .as_ref()
        .map(|account| account.name)
        .filter(|name| !name.is_empty());
    let (gid, groups) = if group_part.is_empty() {
        (own_group, name.map(|name| groups_of(name, group)).unwrap_or_default())
    } else {
        let gid = named_group(group_part, group);
        (
            gid.ok_or_else(|| unknown(&format!("group {group_part}"), "group"))?,
            Vec::new(),
        )
    };
    let (Ok(effective_uid), Ok(gid)) = (u32::try_from(uid), u32::try_from(gid)) else {
        return Err("uids and gids must be in range 0-2147483647".to_owned());
    };
    Ok(FileCredentials {
        uid: effective_uid,
        gid,
        groups: groups.into_iter().filter_map(|gid| u32::try_from(gid).ok()).collect(),
        // Engines keep `CAP_DAC_OVERRIDE` only for root.
        reads_all: uid == 0,
        name: name
            .filter(|name| name.len() <= NAME)
            .map(|name| String::from_utf8_lossy(name).into_owned()),
        real: None,
        no_new_privileges: false,
    })
}

/// The longest name that is shown, in bytes (`LOGIN_NAME_MAX` of Linux).
const NAME: usize = 256;

/// One line of `/etc/passwd`.
struct Account<'f> {
    name: &'f [u8],
    uid: i64,
    gid: i64,
}

impl<'f> Account<'f> {
    fn read(line: &'f [u8]) -> Self {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next().unwrap_or_default();
        let mut numbers = fields.skip(1).map(field_number);
        Self {
            name,
            uid: numbers.next().unwrap_or_default(),
            gid: numbers.next().unwrap_or_default(),
        }
    }
}

fn unknown(what: &str, file: &str) -> String {
    let what = escape::escape_bytes(what.as_bytes());
    format!("unable to find {what}: no matching entries in {file} file")
}

/// The nonempty lines of a file, trimmed.
fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

/// The groups that list the user as a member.
fn groups_of(name: &[u8], group: &[u8]) -> Vec<i64> {
    lines(group)
        .filter(|line| {
            let list = line.split(|&byte| byte == b':').nth(3).unwrap_or_default();
            list.split(|&byte| byte == b',').any(|member| member == name)
        })
        .map(group_number)
        .take(GROUPS)
        .collect()
}

/// The maximum number of supplementary groups (`NGROUPS_MAX` of Linux).
const GROUPS: usize = 65_536;

/// The requested group, by number or name. A number needs no line in `/etc/group`.
fn named_group(asked: &str, group: &[u8]) -> Option<i64> {
    decimal(asked).or_else(|| {
        lines(group)
            .find(|line| line.split(|&byte| byte == b':').next() == Some(asked.as_bytes()))
            .map(group_number)
    })
}

fn group_number(line: &[u8]) -> i64 {
    line.split(|&byte| byte == b':')
        .nth(2)
        .map(field_number)
        .unwrap_or_default()
}

/// The number in a field; 0 if it is not a number (`parseParts`).
fn field_number(field: &[u8]) -> i64 {
    std::str::from_utf8(field).ok().and_then(decimal).unwrap_or_default()
}

/// A decimal number with an optional sign (Go's `strconv.Atoi`).
fn decimal(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::find_user;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n\n  app:x:1000:1001::/home/app:/bin/sh\napp:x:5:5::/:\n\
        twin:x:1000:7::/:\nodd:x:x::/:\n77:x:78:79::/:";
    const GROUP: &[u8] = b"root:x:0:\nvideo:x:44:app,other\nrender:x:45:other,app\nuser:x:1001:\nempty:x:46:\nodd:x";

    fn check(spec: &str, expected: Result<&str, &str>) {
        let found = find_user(spec, PASSWD, GROUP);
        let found = found.map(|user| format!("{user} {:?} {}", user.groups, user.reads_all));
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{spec}");
    }

    #[test]
    fn names_and_numbers_are_found_as_engines_find_them() {
        check("", Ok("root (0:0) [] true"));
        check("root", Ok("root (0:0) [] true"));
        check("app", Ok("app (1000:1001) in the group 44 and others [44, 45] false"));
        check("1000", Ok("app (1000:1001) in the group 44 and others [44, 45] false"));
        check("+1000", Ok("app (1000:1001) in the group 44 and others [44, 45] false"));
        // An explicit group drops the supplementary groups.
        check("app:video", Ok("app (1000:44) [] false"));
        check("app:9", Ok("app (1000:9) [] false"));
        check("app:", Ok("app (1000:1001) in the group 44 and others [44, 45] false"));
        check(":video", Ok("root (0:44) [] true"));
        check("2000", Ok("2000:0 [] false"));
        check("2000:2000", Ok("2000:2000 [] false"));
        // A number never matches a name, and a field that is not a number reads as 0.
        check("77", Ok("77:0 [] false"));
        check("odd", Ok("odd (0:0) [] true"));
    }

    #[test]
    fn an_unknown_user_or_group_starts_no_container() {
        let unknown = "unable to find user nobody: no matching entries in passwd file";
        check("nobody", Err(unknown));
        check(
            "app:none",
            Err("unable to find group none: no matching entries in group file"),
        );
        check("-1", Err("uids and gids must be in range 0-2147483647"));
        check("99999999999", Err("uids and gids must be in range 0-2147483647"));
        check(
            "\x1b[2J",
            Err("unable to find user \\x1b[2J: no matching entries in passwd file"),
        );
        assert_eq!(find_user("nobody", b"", b""), Err(unknown.to_owned()));
        assert_eq!(find_user("", b"", b"").map(|user| user.uid), Ok(0));
    }
}
