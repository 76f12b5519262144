//! The users that commands take on before they start others.

/// Who a command goes on as.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::judge::facts) struct ChangedUser {
    /// The user in the form of the image's own, `NAME` or `NAME:GROUP`; none where it stays who it is.
    pub name: Option<String>,
    /// The effective user and group, where they are to be others than the real ones.
    pub effective: (Option<String>, Option<String>),
}

/// The user that a command takes on before it starts another.
pub(in crate::judge::facts) fn new_user(words: &[Option<String>]) -> Option<ChangedUser> {
    let words: Vec<&str> = words.iter().map_while(Option::as_deref).collect();
    let (program, rest) = words.split_first()?;
    let value = |name: &str| {
        let mut pairs = rest.iter().zip(rest.iter().skip(1));
        let given = rest.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        given.or_else(|| pairs.find(|(word, _)| **word == name).map(|(_, value)| *value))
    };
    let named = |name: Option<&str>| {
        let name = Some(name?.to_owned());
        Some(ChangedUser {
            name,
            ..ChangedUser::default()
        })
    };
    match program.rsplit('/').next()? {
        "gosu" | "su-exec" | "s6-setuidgid" | "setuidgid" => named(rest.first().copied()),
        "chpst" => named(value("-u").or(value("-U")).map(|user| user.trim_start_matches(':'))),
        "setpriv" => set_privileges(&value, rest.contains(&"--init-groups")),
        "runuser" if value("-u").or(value("--user")).is_some() => named(value("-u").or(value("--user"))),
        "su" | "runuser" => {
            let before = [""].iter().chain(rest);
            let is_value = |before: &str| matches!(before, "-c" | "--command" | "-s" | "--shell" | "-g" | "--group");
            let mut words = before
                .zip(rest)
                .filter(|(before, word)| !is_value(before) && !word.starts_with('-'));
            named(words.next().map(|(_, user)| *user))
        }
        _ => None,
    }
}

/// setpriv(1): it changes what it is told, and nothing else.
fn set_privileges<'w>(value: &dyn Fn(&str) -> Option<&'w str>, has_own_groups: bool) -> Option<ChangedUser> {
    let both = (value("--reuid"), value("--regid"));
    let real = (both.0.or(value("--ruid")), both.1.or(value("--rgid")));
    let effective = (value("--euid"), value("--egid"));
    if [real.0, real.1, effective.0, effective.1] == [None; 4] {
        return None;
    }
    let name = match real {
        (None, None) => None,
        // The group of a user's name with all the others that the user is in.
        (Some(user), Some(group)) if has_own_groups && user == group => Some(user.to_owned()),
        // Who may do so is mostly of the group 0.
        (user, group) => Some(format!("{}:{}", user.unwrap_or("0"), group.unwrap_or("0"))),
    };
    // What is said of the real ones alone leaves the effective ones as they are.
    let owned = |value: Option<&str>| value.map(str::to_owned);
    let alone = |both: Option<&str>, real: Option<&str>, effective: Option<&str>| {
        let unchanged = real.filter(|_| both.is_none() && effective.is_none()).map(|_| "0");
        owned(effective.or(unchanged))
    };
    Some(ChangedUser {
        name,
        effective: (alone(both.0, real.0, effective.0), alone(both.1, real.1, effective.1)),
    })
}
