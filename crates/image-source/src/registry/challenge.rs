//! Reads `WWW-Authenticate` (RFC 9110, section 11.6.1) and chooses the challenge to answer.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The challenge to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token from `realm` (distribution-spec, "token authentication").
    Bearer {
        /// The address of the token server.
        realm: String,
        /// The registry's name at the token server.
        service: Option<String>,
    },
    /// User name and password.
    Basic,
    /// The names of the schemes, all unsupported.
    Unknown(Vec<String>),
}

/// Chooses among all challenges in all header lines; prefers a token to a password.
pub(super) fn choose_challenge(headers: &HeaderMap) -> Challenge {
    let lines = headers.get_all(WWW_AUTHENTICATE);
    let mut basic = false;
    let mut unknown = Vec::new();
    // Registries send one scheme per line, or all in one line; both are valid (RFC 9110, section 5.3).
    for line in lines.iter().filter_map(|line| line.to_str().ok()) {
        // Challenges before a syntax error still count.
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
                // A token is preferred: it expires, and is valid for one repository. Its `scope` is ignored, because a
                // hostile registry could name another owner's repository there.
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
