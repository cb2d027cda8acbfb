//! The control plane's calls: JSON, over the same connection as all others.

use crate::{
    call::{Answer, Calling, Kind},
    client::Client,
    failure::{Error, Failure, Said},
    transport::Transport,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::time::Duration;
use tonic::{Status, body::Body};
use tower::ServiceExt;

/// The most bytes of an answer.
const ANSWER: usize = 64 << 20;

/// The calls of the control plane. All may be repeated, so all are tried until they are settled.
/// Answers are JSON as `docs/api.md` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces<'a> {
    pub(crate) client: &'a Client,
}

impl Namespaces<'_> {
    /// Creates or replaces a namespace by its document, in JSON.
    ///
    /// # Errors
    /// When the document is refused, or nothing answers in time.
    pub async fn apply(&self, name: &str, document: String) -> Result<Value, Error> {
        self.call(Method::PUT, &path_of(name), document).await
    }

    /// All namespaces.
    ///
    /// # Errors
    /// When nothing answers in time.
    pub async fn list(&self) -> Result<Value, Error> {
        self.call(Method::GET, "/v1/namespaces", String::new())
            .await
    }

    /// A namespace's document.
    ///
    /// # Errors
    /// When there is no such namespace, or nothing answers in time.
    pub async fn show(&self, name: &str) -> Result<Value, Error> {
        self.call(Method::GET, &path_of(name), String::new()).await
    }

    /// Deletes a namespace with all its counters.
    ///
    /// # Errors
    /// When there is no such namespace, or nothing answers in time.
    pub async fn delete(&self, name: &str) -> Result<Value, Error> {
        self.call(Method::DELETE, &path_of(name), String::new())
            .await
    }

    /// A namespace's document, asked for once.
    pub(crate) async fn show_once(&self, name: &str, patience: Duration) -> Result<Value, Failure> {
        let path = path_of(name);
        let asked = |channel, _| ask(channel, Method::GET, path.clone(), String::new());
        self.client.once(&asked, patience).await
    }

    async fn call(&self, method: Method, path: &str, body: String) -> Result<Value, Error> {
        let client = self.client;
        let kind = if method == Method::GET {
            Kind::Reads
        } else {
            Kind::Changes
        };
        let mut calling = Calling::new(client, kind, client.shared.options.timeout);
        let asked = |channel, _| ask(channel, method.clone(), path.to_owned(), body.clone());
        let answer = calling.call(&asked).await;
        answer.map_err(|failure| calling.error(failure))
    }
}

pub(crate) fn path_of(name: &str) -> String {
    format!(
        "/v1/namespaces/{}",
        utf8_percent_encode(name, NON_ALPHANUMERIC)
    )
}

async fn ask(channel: Transport, method: Method, path: String, body: String) -> Answer<Value> {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(body).expect("a path is a URI");
    let answer = exchange(channel, request).await?;
    Ok(answer.map(Response::into_body))
}

/// Sends a request with JSON, and reads the answer.
pub(crate) async fn exchange(
    channel: Transport,
    mut request: Request<String>,
) -> Answer<Response<Value>> {
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    let request = request.map(|body| Body::new(Full::from(body)));
    let response = channel
        .oneshot(request)
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    let (head, body) = response.into_parts();
    let bytes = Limited::new(body, ANSWER)
        .collect()
        .await
        .map_err(Status::from_error)?
        .to_bytes();
    let read = read(head.status, &head.headers, &bytes);
    Ok(read.map(|json| Response::from_parts(head, json)))
}

/// Reads an answer over HTTP. These calls may all be repeated, so only what the caller has to
/// change is definitive.
fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Value, Failure> {
    if status.is_success() && body.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let json: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::unsettled(format!("HTTP {status}, and no JSON: {error}")))?;
    if status.is_success() {
        return Ok(json);
    }
    let error = &json["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
    let reason = details.iter().find_map(|detail| detail["reason"].as_str());
    let code = text(&error["code"]);
    let said = Said {
        message: format!("{code}: {}", text(&error["message"])),
        reason: reason.unwrap_or_default().to_owned(),
        code,
    };
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Denied(said),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => unsettled(said, headers),
        status if status.is_client_error() => Failure::Refused(said),
        _ => unsettled(said, headers),
    })
}

fn unsettled(said: Said, headers: &HeaderMap) -> Failure {
    let seconds = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    Failure::Unsettled {
        said,
        retry_after: seconds.map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<Value, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "2".parse().unwrap());
        read(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            body.as_bytes(),
        )
    }

    #[test]
    fn an_error_says_what_to_do_by_its_status_and_when_by_its_header() {
        let body =
            r#"{"error": {"code": "UNAVAILABLE", "message": "m", "details": [{"reason": "WHY"}]}}"#;
        let failure = answer(503, body).unwrap_err();
        assert!(failure.is_transient());
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(2)));
        assert_eq!(failure.code_and_reason(), ("UNAVAILABLE", "WHY"));
        assert_eq!(failure.to_string(), "UNAVAILABLE: m");
        for (status, transient) in [
            (400, false),
            (403, false),
            (404, false),
            (408, true),
            (502, true),
        ] {
            let failure = answer(status, "{}").unwrap_err();
            assert_eq!(failure.is_transient(), transient, "{status} {failure:?}");
        }
        assert!(matches!(answer(403, "{}"), Err(Failure::Denied(_))));
        assert!(answer(404, "no JSON").unwrap_err().is_transient());
    }

    #[test]
    fn an_empty_answer_is_one() {
        assert_eq!(answer(200, " ").unwrap(), Value::Null);
        assert_eq!(answer(200, "[1]").unwrap()[0], 1);
    }
}
