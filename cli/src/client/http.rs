//! The few calls that only HTTP has: the control plane's.

use super::retry::{Attempts, Entropy, Next};
use super::{
    connection::{CallFailed, tell},
    verdict::Failure,
};
use quipu_adapters::clock::Clock;
use serde_json::Value;
use std::{thread, time::Duration};
use ureq::{Agent, Error, http::Request};

/// Sends a request until it is settled, and returns the JSON that the server answers with. All
/// of these calls are idempotent, so all are tried again.
pub(crate) fn call(
    clock: &Clock,
    timeout: Duration,
    request: &Request<String>,
) -> Result<Value, CallFailed> {
    let mut attempts = Attempts::new(clock.read().steady, timeout);
    loop {
        let failure = match attempt(request, attempts.patience(clock.read().steady)) {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if !matches!(failure, Failure::Unreachable { .. }) {
            attempts.send(clock.read().steady);
        }
        match attempts.on_failure(&failure, clock.read().steady, Entropy::draw()) {
            Next::Retry(wait) => {
                tell(&failure, &attempts, wait);
                thread::sleep(wait);
            }
            Next::Settled | Next::GiveUp => {
                return Err(CallFailed {
                    failure,
                    sent: attempts.was_sent(),
                });
            }
        }
    }
}

fn attempt(request: &Request<String>, patience: Duration) -> Result<Value, Failure> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(patience.max(Duration::from_millis(1))))
        .build()
        .into();
    let unreachable = |cause: String| {
        let uri = request.uri();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let server = format!("{}://{host}", uri.scheme_str().unwrap_or("http"));
        Failure::Unreachable { server, cause }
    };
    let mut response = agent.run(request.clone()).map_err(|error| match error {
        Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            unreachable(error.to_string())
        }
        Error::ConnectionFailed | Error::HostNotFound => unreachable(error.to_string()),
        Error::BadUri(_) | Error::Http(_) => Failure::Refused {
            code: String::new(),
            reason: String::new(),
            message: error.to_string(),
        },
        error => Failure::unsettled(error.to_string()),
    })?;
    let status = response.status();
    let text = response
        .body_mut()
        .read_to_string()
        .map_err(|error| Failure::unsettled(error.to_string()))?;
    if status.is_success() && text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let body: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::unsettled(format!("HTTP {status}, and no JSON: {error}")))?;
    if status.is_success() {
        return Ok(body);
    }
    let field = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    let (code, message) = (field("code"), field("message"));
    let message = format!("{code}: {message}");
    let details = body["error"]["details"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let reason = details
        .iter()
        .find_map(|detail| detail["reason"].as_str())
        .unwrap_or_default()
        .to_owned();
    if status.is_client_error() && status.as_u16() != 408 && status.as_u16() != 429 {
        Err(Failure::Refused {
            code,
            reason,
            message,
        })
    } else {
        Err(Failure::Unsettled {
            code,
            reason,
            message,
            retry_after: None,
        })
    }
}
