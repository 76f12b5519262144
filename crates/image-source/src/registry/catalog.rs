//! What a registry holds: its repositories and their tags (distribution-spec, "Content Discovery").

use std::collections::BTreeSet;
use std::io::Read as _;

use reqwest::header::{HeaderMap, LINK};
use serde::Deserialize;

use super::client::RepositoryClient;
use super::options::RegistryOptions;
use super::request_errors::{remote_error, shorten_text};
use super::retry::{AttemptFailure, retry_attempts};
use crate::image_error::ImageError;

/// The names that one answer is asked for; registries give fewer where they want to.
const PAGE: usize = 1000;
/// The bytes of one answer: a thousand names of the longest kind, each ten times.
const PAGE_BYTES: u64 = 4 << 20;
/// The names of one list, at most: some 100 MiB in memory.
const NAMES: usize = 1_000_000;

/// One answer of either list; a repository whose tags are all gone has `null` in the place of a list.
#[derive(Deserialize)]
struct NamePage {
    repositories: Option<Vec<String>>,
    tags: Option<Vec<String>>,
}

/// The repositories of a registry, sorted. They are its own words: not each need be a name that an image can have.
///
/// Errors: The registry has no such list, as Docker Hub, or shows it to others.
pub fn list_repositories(registry: &str, options: &RegistryOptions) -> Result<BTreeSet<String>, ImageError> {
    let written = format!("the list of repositories of {registry}");
    let mut client = RepositoryClient::new(registry, "_catalog", &written, options)?;
    client.scopes = vec!["registry:catalog:*".to_owned()];
    read_pages(&client, "")
}

/// The tags of a repository, sorted.
///
/// Errors: [`ImageError::NotFound`] for a repository that is not there, or no longer has a tag.
pub fn list_tags(registry: &str, repository: &str, options: &RegistryOptions) -> Result<BTreeSet<String>, ImageError> {
    let written = format!("{registry}/{repository}");
    let client = RepositoryClient::new(registry, repository, &written, options)?;
    read_pages(&client, "tags/list")
}

/// Follows a list to its end.
fn read_pages(client: &RepositoryClient, part: &str) -> Result<BTreeSet<String>, ImageError> {
    let mut names = BTreeSet::new();
    let mut query = format!("n={PAGE}");
    loop {
        let asked = format!("{part}?{query}");
        let (page, next) = retry_attempts(&client.patience, || read_page(client, &asked))?;
        let before = names.len();
        names.extend(page.repositories.into_iter().chain(page.tags).flatten());
        let Some(next) = next else { return Ok(names) };
        let trouble = match () {
            () if names.len() > NAMES => format!("more than {NAMES} names"),
            // Else a registry that names a page twice would be asked for ever.
            () if next == query || names.len() == before => "no end: a page of it brings nothing new".to_owned(),
            () => {
                query = next;
                continue;
            }
        };
        return Err(remote_error(format!("{} has {trouble}", client.written)));
    }
}

/// One page, and the query of the next one.
fn read_page(client: &RepositoryClient, asked: &str) -> Result<(NamePage, Option<String>), AttemptFailure> {
    let answer = client.attempt(asked, HeaderMap::new(), 0)?;
    let link = answer.response.headers().get(LINK);
    let next = link.map_or(Ok(None), |link| next_query(link.to_str().unwrap_or("next")));
    let next = next.map_err(|what| remote_error(format!("{} is only begun: {what}", client.written)))?;
    let mut bytes = Vec::new();
    let read = answer.body(None).take(PAGE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| AttemptFailure::passing(remote_error(format!("{} broke off: {error}", client.written))))?;
    let page = serde_json::from_slice(&bytes).map_err(|error| {
        let begin = shorten_text(bytes.get(..bytes.len().min(60)).unwrap_or_default());
        remote_error(format!(
            "{} is no list of names ({error}); it begins \"{begin}\"",
            client.written
        ))
    })?;
    Ok((page, next))
}

/// The query of `<…?last=x&n=100>; rel="next"` (RFC 8288). The rest of the address is not taken: the list goes on where it
/// began, and nowhere else.
///
/// Errors: There is more, and nothing says how to ask for it.
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
    fn the_next_page_is_a_query_and_no_other_address() {
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
