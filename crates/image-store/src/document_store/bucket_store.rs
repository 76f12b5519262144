//! Stores documents as objects in an S3 bucket, or on an S3-compatible server.

use std::io::Read as _;
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::{Method, Url};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use super::aws_credentials::{AwsCredentials, variable};
use super::store::{DOCUMENT_BYTES, DocumentStore, check_size};
use image_source::ImageError;
use image_source::client_builder;
use image_source::registry::{
    AttemptFailure, RetryPolicy, connection_failure, remote_error, retry_attempts, shorten_text,
};

/// How long a signature is valid: one attempt, and the clock difference of two machines.
const SIGNED_FOR: Duration = Duration::from_mins(15);
/// The timeout of a request with its answer, of any size.
const ANSWER: Duration = Duration::from_mins(2);
/// The maximum number of pages in a list; each has a thousand names.
const PAGES: usize = 10_000;

/// Documents as objects whose keys start with a prefix.
pub(super) struct BucketStore {
    /// As the user wrote it, for errors.
    written: String,
    bucket: Bucket,
    /// Empty, or ends with `/`.
    prefix: String,
    credentials: AwsCredentials,
    client: Client,
    patience: RetryPolicy,
}

/// A final answer: a success, or a refusal that the caller handles.
struct StoreAnswer {
    status: u16,
    body: Vec<u8>,
}

impl BucketStore {
    /// The bucket in `BUCKET[/PREFIX]`. The environment gives the server: `AWS_ENDPOINT_URL_S3`, `AWS_REGION`.
    pub(super) fn open(written: &str, path: &str) -> Result<Self, ImageError> {
        let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let named = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        // Servers other than Amazon's usually have one host name for all buckets.
        let style = if named.is_some() {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        let endpoint = named.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let invalid = |why: String| ImageError::reference(written, why);
        let url = Url::parse(&endpoint).map_err(|error| invalid(format!("the endpoint {endpoint:?}: {error}")))?;
        if name.is_empty() {
            return Err(invalid("it names no bucket; expected s3://BUCKET/PREFIX".to_owned()));
        }
        let bucket = Bucket::new(url, style, name.to_owned(), region).map_err(|error| invalid(error.to_string()))?;
        let client = client_builder().timeout(ANSWER).build();
        let prefix = prefix.trim_matches('/');
        Ok(Self {
            written: written.to_owned(),
            bucket,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
            credentials: AwsCredentials::find()?,
            client: client.map_err(|error| remote_error(error.to_string()))?,
            patience: RetryPolicy::default(),
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Sends a request until it succeeds or is refused with one of `refusals`. `sign` makes a new signed address each
    /// time.
    fn ask(
        &self,
        method: &Method,
        body: Option<&[u8]>,
        condition: Option<(&'static str, &'static str)>,
        refusals: &[u16],
        sign: &dyn Fn(&Credentials) -> Url,
    ) -> Result<StoreAnswer, ImageError> {
        retry_attempts(&self.patience, || {
            let credentials = self.credentials.current(&self.client)?;
            let mut request = self.client.request(method.clone(), sign(&credentials));
            if let Some((name, value)) = condition {
                request = request.header(name, value);
            }
            let answer = request.body(body.unwrap_or_default().to_vec()).send();
            self.judge(
                answer.map_err(|error| connection_failure(&self.written, &error))?,
                refusals,
            )
        })
    }

    fn judge(&self, answer: Response, refusals: &[u16]) -> Result<StoreAnswer, AttemptFailure> {
        let status = answer.status();
        let mut body = Vec::new();
        let read = answer.take(DOCUMENT_BYTES + 1).read_to_end(&mut body);
        let broken = |error| AttemptFailure::passing(remote_error(format!("{} broke off: {error}", self.written)));
        read.map_err(broken)?;
        check_size(&self.written, &body)?;
        if status.is_success() || refusals.contains(&status.as_u16()) {
            let status = status.as_u16();
            return Ok(StoreAnswer { status, body });
        }
        let error = remote_error(format!("{} answered {status}{}", self.written, error_code(&body)));
        // S3 answers 409 to a conditional write during another write of the same key.
        match status.as_u16() {
            408 | 409 | 429 | 500 | 502..=504 => Err(AttemptFailure::passing(error)),
            _ => Err(error.into()),
        }
    }

    /// One page of a list, and the token of the next page.
    fn page(&self, prefix: &str, token: Option<&str>) -> Result<(Vec<String>, Option<String>), ImageError> {
        let answer = self.ask(&Method::GET, None, None, &[], &|credentials| {
            let mut list = self.bucket.list_objects_v2(Some(credentials));
            list.with_prefix(prefix.to_owned());
            if let Some(token) = token {
                list.with_continuation_token(token.to_owned());
            }
            list.sign(SIGNED_FOR)
        })?;
        let unread = |error: String| remote_error(format!("{}: its list cannot be read: {error}", self.written));
        let text = String::from_utf8(answer.body).map_err(|error| unread(error.to_string()))?;
        let page = ListObjectsV2::parse_response(&text).map_err(|error| unread(error.to_string()))?;
        let keys = page.contents.into_iter().map(|object| object.key);
        let names = keys.filter_map(|key| Some(key.strip_prefix(&self.prefix)?.to_owned()));
        Ok((names.collect(), page.next_continuation_token))
    }
}

impl DocumentStore for BucketStore {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        let key = self.key(name);
        let answer = self.ask(&Method::GET, None, None, &[404], &|credentials| {
            self.bucket.get_object(Some(credentials), &key).sign(SIGNED_FOR)
        })?;
        // A missing bucket answers 404 too. Reading it as an empty one would hide the mistake.
        if answer.status == 404 && error_code(&answer.body).contains("NoSuchBucket") {
            return Err(remote_error(format!("{}: the bucket does not exist", self.written)));
        }
        Ok((answer.status != 404).then_some(answer.body))
    }

    fn exists(&self, name: &str) -> Result<bool, ImageError> {
        let key = self.key(name);
        let sign = |credentials: &Credentials| self.bucket.head_object(Some(credentials), &key).sign(SIGNED_FOR);
        Ok(self.ask(&Method::HEAD, None, None, &[404], &sign)?.status != 404)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, ImageError> {
        let key = self.key(name);
        // Amazon S3 user guide, "How to prevent object overwrites with conditional writes".
        let condition = ("if-none-match", "*");
        let answer = self.ask(&Method::PUT, Some(bytes), Some(condition), &[412], &|credentials| {
            let mut put = self.bucket.put_object(Some(credentials), &key);
            put.headers_mut().insert(condition.0, condition.1);
            put.sign(SIGNED_FOR)
        })?;
        Ok(answer.status != 412)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ImageError> {
        let key = self.key(name);
        let sign = |credentials: &Credentials| self.bucket.put_object(Some(credentials), &key).sign(SIGNED_FOR);
        self.ask(&Method::PUT, Some(bytes), None, &[], &sign).map(drop)
    }

    fn remove(&self, name: &str) -> Result<(), ImageError> {
        let key = self.key(name);
        let sign = |credentials: &Credentials| self.bucket.delete_object(Some(credentials), &key).sign(SIGNED_FOR);
        self.ask(&Method::DELETE, None, None, &[404], &sign).map(drop)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, ImageError> {
        let prefix = self.key(&format!("{folder}/"));
        let (mut names, mut token) = self.page(&prefix, None)?;
        for _ in 1..PAGES {
            let Some(at) = token else { break };
            let (more, next) = self.page(&prefix, Some(&at))?;
            names.extend(more);
            token = next;
        }
        if token.is_some() {
            return Err(remote_error(format!(
                "{}: its list has more than {PAGES} pages",
                self.written
            )));
        }
        names.sort();
        Ok(names)
    }
}

/// The code of an XML error, as ` (AccessDenied)`; empty if there is none.
fn error_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..body.len().min(4096)).unwrap_or_default());
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map_or_else(String::new, |(code, _)| format!(" ({})", shorten_text(code.as_bytes())))
}
