//! The client of the verbs, and what it tells while it works.

use super::exit::{Exit, Failed, advice};
use crate::args::ServerArgs;
use quipu_client::{Client, ClientOptions, Event};
use std::{env, fs, path::Path};

const API_KEY: &str = "QUIPU_API_KEY";

/// A client of the server that the command line names.
pub(crate) fn client(server: &ServerArgs) -> Result<Client, Failed> {
    let mut options = ClientOptions::new(&server.server)
        .timeout(server.timeout)
        .observe(tell);
    if let Some(key) = api_key(server)? {
        options = options.api_key(key);
    }
    if let Some(file) = &server.ca {
        options = options.ca_certificates(read(file)?);
    }
    Client::new(options).map_err(|error| Failed::new(Exit::Usage, error.to_string()))
}

/// The key of the file that the command line names, or of the environment. It is no option itself:
/// other users of the machine can read command lines.
fn api_key(server: &ServerArgs) -> Result<Option<String>, Failed> {
    let key = match &server.api_key_file {
        Some(file) => Some(read(file)?),
        None => env::var(API_KEY).ok(),
    };
    let key = key.map(|key| key.trim().to_owned());
    Ok(key.filter(|key| !key.is_empty()))
}

fn read(file: &Path) -> Result<String, Failed> {
    fs::read_to_string(file).map_err(|error| {
        let message = format!("cannot read {}: {error}", file.display());
        Failed::new(Exit::Internal, message)
    })
}

/// Tells of a failure that is followed by another attempt: of the first to people, of the others
/// only in detail.
fn tell(event: &Event<'_>) {
    match event {
        Event::Retry {
            failure,
            failures: 1,
            timeout,
            ..
        } => {
            let timeout = humantime::format_duration(*timeout);
            let advice = advice(failure).map_or(String::new(), |advice| format!(" ({advice})"));
            tracing::warn!("{failure}; trying for {timeout}{advice}");
        }
        Event::Retry { failure, wait, .. } => {
            tracing::debug!("{failure}; trying again in {wait:.1?}");
        }
        Event::NewToken { failure, token } => {
            let (number, text) = (token.number(), token.text());
            tracing::info!("{failure}; attempt {number} with the new token {text}");
        }
    }
}
