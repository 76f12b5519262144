//! AWS credentials for a bucket: keys in the environment, or a container's role keys from ECS, AWS Batch or EKS Pod
//! Identity.
#![expect(clippy::disallowed_methods, reason = "AWS credentials come from the environment")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::blocking::Client;
use rusty_s3::Credentials;
use serde::Deserialize;

use image_source::ImageError;
use image_source::read_small_file;
use image_source::registry::remote_error;

/// How long role keys are used before they are fetched again. AWS renews them five minutes before they expire.
const LENT_FOR: Duration = Duration::from_mins(4);
/// The host of ECS's relative address (Amazon ECS developer guide, "Task IAM role").
const ECS_HOST: &str = "http://169.254.170.2";

/// The value of the variable, unless it is blank.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The keys in the container endpoint's answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LentKeys {
    access_key_id: String,
    secret_access_key: String,
    token: String,
}

/// The credentials that sign requests.
pub(super) enum AwsCredentials {
    /// Valid for the whole process.
    Fixed(Credentials),
    /// Role keys from this address, fetched again after a while.
    Lent(String, Mutex<Option<(Instant, Credentials)>>),
}

impl AwsCredentials {
    /// The credentials from the environment, in the order of AWS's own tools.
    ///
    /// Errors: There are none.
    pub(super) fn find() -> Result<Self, ImageError> {
        let ecs = || {
            Some(format!(
                "{ECS_HOST}{}",
                variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")?
            ))
        };
        let address = || ecs().or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
        Credentials::from_env()
            .map(Self::Fixed)
            .or_else(|| Some(Self::Lent(address()?, Mutex::default())))
            .ok_or_else(|| {
                remote_error(
                    "there are no credentials for the bucket: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                     nor the keys of a container's role are in the environment",
                )
            })
    }

    /// The valid credentials; fetches role keys again before they expire.
    pub(super) fn current(&self, client: &Client) -> Result<Credentials, ImageError> {
        let (address, held) = match self {
            Self::Fixed(keys) => return Ok(keys.clone()),
            Self::Lent(address, held) => (address, held),
        };
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, keys)) = &*held
            && since.elapsed() < LENT_FOR
        {
            return Ok(keys.clone());
        }
        let keys = ask_for_keys(client, address)?;
        *held = Some((Instant::now(), keys.clone()));
        Ok(keys)
    }
}

fn ask_for_keys(client: &Client, address: &str) -> Result<Credentials, ImageError> {
    let mut request = client.get(address);
    let of_file = || {
        let file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?;
        let bytes = read_small_file(file.as_ref()).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    if let Some(token) = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").or_else(of_file) {
        request = request.header("Authorization", token);
    }
    // The address may be secret: it can let others fetch the keys too.
    let failed = |what: &str| remote_error(format!("cannot get the container role's keys for the bucket: {what}"));
    let answer = request.send().map_err(|_| failed("its endpoint does not answer"))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(failed(&format!("its endpoint answered {status}")));
    }
    let text = answer.bytes().map_err(|_| failed("its endpoint broke off"))?;
    let keys: LentKeys = serde_json::from_slice(&text).map_err(|_| failed("its endpoint answered something else"))?;
    Ok(Credentials::new_with_token(
        keys.access_key_id,
        keys.secret_access_key,
        keys.token,
    ))
}
