//! What a registry asks for with `WWW-Authenticate` (RFC 9110, section 11.6.1), and which of it is answered.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The challenge that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token from `realm` (distribution-spec, "token authentication").
    Bearer {
        /// The address of the token server.
        realm: String,
        /// The name of the registry, as the token server knows it.
        service: Option<String>,
    },
    /// User name and password.
    Basic,
    /// Only schemes that this client does not know, by name.
    Unknown(Vec<String>),
}

/// Chooses from all challenges in all header lines: a token first, then a password.
pub(super) fn choose_challenge(headers: &HeaderMap) -> Challenge {
    let lines = headers.get_all(WWW_AUTHENTICATE);
    let mut basic = false;
    let mut unknown = Vec::new();
    // Some registries send one line for each scheme, others all of them in one; both are right (RFC 9110, section 5.3).
    for line in lines.iter().filter_map(|line| line.to_str().ok()) {
        // A line that goes wrong half-way still counts for what stood before.
        for challenge in http_auth::ChallengeParser::new(line).map_while(Result::ok) {
            let parameter = |name: &str| {
                challenge
                    .params
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer")
                && let Some(realm) = parameter("realm")
            {
                // A token before a password: it runs out, and it is good for one repository only. Its `scope` is not
                // read, as a hostile registry could name somebody else's repository there.
                return Challenge::Bearer {
                    realm,
                    service: parameter("service"),
                };
            }
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                basic = true;
            } else {
                unknown.push(challenge.scheme.to_owned());
            }
        }
    }
    if basic {
        Challenge::Basic
    } else {
        Challenge::Unknown(unknown)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

    use super::{Challenge, choose_challenge};

    fn check(lines: &[&str], expected: &Challenge) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap());
        }
        assert_eq!(&choose_challenge(&headers), expected, "{lines:?}");
    }

    #[test]
    fn a_token_is_preferred_wherever_it_is_offered() {
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("registry".to_owned()),
        };
        let line = r#"Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull,push""#;
        check(&[line], &bearer);
        check(&[&format!("Basic realm=\"x\", {line}")], &bearer);
        check(
            &["Negotiate", "Basic realm=\"x\"", &line.replace("Bearer", "bearer")],
            &bearer,
        );
    }

    #[test]
    fn a_password_comes_next_and_other_schemes_are_named() {
        check(
            &["Digest realm=\"x\", nonce=\"y\"", "BASIC realm=\"x\""],
            &Challenge::Basic,
        );
        check(&["Basic realm=\"x\", error error"], &Challenge::Basic);
        check(&["Negotiate"], &Challenge::Unknown(vec!["Negotiate".to_owned()]));
        check(
            &["Bearer service=\"no realm\""],
            &Challenge::Unknown(vec!["Bearer".to_owned()]),
        );
        check(&["=,="], &Challenge::Unknown(Vec::new()));
        check(&[], &Challenge::Unknown(Vec::new()));
    }
}
