//! Lists a registry's repositories and tags (distribution-spec, "Content Discovery").

use std::collections::BTreeSet;
use std::io::Read as _;

use reqwest::header::{HeaderMap, LINK};
use serde::Deserialize;

use super::client::RepositoryClient;
use super::request_errors::{remote_error, shorten_text};
use super::retry::{AttemptFailure, retry_attempts};
use super::steady_body::broken_body;
use super::transport::RegistryOptions;
use crate::image_error::ImageError;

/// The number of names requested per page; a registry may return fewer.
const PAGE: usize = 1000;
/// The size limit of one page: a thousand names of maximum length, ten times over.
const PAGE_BYTES: u64 = 4 << 20;
/// The maximum number of names in a list: about 100 MiB in memory.
const NAMES: usize = 1_000_000;

/// One page of either list. A repository whose tags were all deleted has `null` instead of a list.
#[derive(Deserialize)]
struct NamePage {
    repositories: Option<Vec<String>>,
    tags: Option<Vec<String>>,
}

/// The repositories of a registry, sorted. These are the registry's own words: some may be invalid image names.
///
/// Errors: The registry has no such list, such as Docker Hub, or this user may not see it.
pub fn list_repositories(registry: &str, options: &RegistryOptions) -> Result<BTreeSet<String>, ImageError> {
    let written = format!("the list of repositories of {registry}");
    let mut client = RepositoryClient::new(registry, "_catalog", &written, options)?;
    client.scopes = vec!["registry:catalog:*".to_owned()];
    read_pages(&client, "")
}

/// The tags of a repository, sorted.
///
/// Errors: [`ImageError::NotFound`] if the repository does not exist or has no tags left.
pub fn list_tags(registry: &str, repository: &str, options: &RegistryOptions) -> Result<BTreeSet<String>, ImageError> {
    let written = format!("{registry}/{repository}");
    let client = RepositoryClient::new(registry, repository, &written, options)?;
    read_pages(&client, "tags/list")
}

/// Reads all pages of a list.
fn read_pages(client: &RepositoryClient, part: &str) -> Result<BTreeSet<String>, ImageError> {
    let mut names = BTreeSet::new();
    let mut query = format!("n={PAGE}");
    loop {
        let asked = format!("{part}?{query}");
        let (page, next) = retry_attempts(&client.patience, || read_page(client, &asked))?;
        let before = names.len();
        names.extend(page.repositories.into_iter().chain(page.tags).flatten());
        let Some(next) = next else { return Ok(names) };
        if names.len() > NAMES {
            return Err(remote_error(format!("{} has more than {NAMES} names", client.written)));
        }
        // A registry that repeats a page would otherwise loop forever.
        if next == query || names.len() == before {
            let why = "has no end: a page of it brings nothing new";
            return Err(remote_error(format!("{} {why}", client.written)));
        }
        query = next;
    }
}

/// One page, and the query of the next.
fn read_page(client: &RepositoryClient, asked: &str) -> Result<(NamePage, Option<String>), AttemptFailure> {
    let answer = client.attempt(asked, HeaderMap::new(), 0)?;
    let link = answer.response.headers().get(LINK);
    let next = link
        .map_or(Ok(None), |link| next_query(link.to_str().unwrap_or("next")))
        .map_err(|what| remote_error(format!("{} is only begun: {what}", client.written)))?;
    let mut bytes = Vec::new();
    let read = answer.body(None).take(PAGE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        let why = broken_body(&error);
        AttemptFailure::passing(remote_error(format!("{} broke off: {why}", client.written)))
    })?;
    let page = serde_json::from_slice(&bytes).map_err(|error| {
        let begin = shorten_text(bytes.get(..bytes.len().min(60)).unwrap_or_default());
        remote_error(format!(
            "{} is not a list of names ({error}); it begins \"{begin}\"",
            client.written
        ))
    })?;
    Ok((page, next))
}

/// Takes the query out of `<…?last=x&n=100>; rel="next"` (RFC 8288). The rest of the address is ignored, so the list
/// stays on its server.
///
/// Errors: There is a next page, but no query for it.
fn next_query(link: &str) -> Result<Option<String>, &'static str> {
    let parts = link.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let (target, parameters) = parts.unwrap_or(("", link));
    let is_next = parameters.to_ascii_lowercase().contains("next");
    match target.split_once('?') {
        _ if !is_next => Ok(None),
        Some((_, query)) => Ok(Some(query.to_owned())),
        None => Err("the address of its next page has no query"),
    }
}

#[cfg(test)]
mod tests {
    use super::next_query;

    #[test]
    fn only_the_query_of_the_next_page_is_used() {
        for (link, expected) in [
            ("</v2/_catalog?last=b&n=2>; rel=\"next\"", Ok(Some("last=b&n=2"))),
            (
                "<https://evil.example/v2/x/tags/list?last=b>;rel=next",
                Ok(Some("last=b")),
            ),
            ("</v2/_catalog>; rel=\"next\"", Err(())),
            ("/v2/_catalog?last=b; rel=next", Err(())),
            ("</v2/_catalog?last=b>; rel=\"prev\"", Ok(None)),
            ("nothing", Ok(None)),
        ] {
            let next = next_query(link);
            assert_eq!(next.as_ref().map(Option::as_deref).map_err(|_| ()), expected, "{link}");
        }
    }
}
