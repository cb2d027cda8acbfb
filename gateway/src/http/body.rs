//! Bodies of requests: their type, their size, and the JSON in them.

use crate::{
    call::MAX_BODY_BYTES,
    failure::{Failure, reason},
};
use axum::{
    body::{self, Body},
    http::{HeaderMap, Request, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
pub(super) use quipu_schemas::namespace::Object;
use serde::Deserialize;
use serde_json::error::Category;

/// Reads the whole body of a JSON request.
pub(super) async fn read(request: Request<Body>) -> Result<Bytes, Failure> {
    let (parts, body) = request.into_parts();
    if let Err(wrong) = check_type(&parts.headers) {
        discard(body).await;
        return Err(wrong);
    }
    let announced = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok());
    if announced
        .and_then(|v| v.parse().ok())
        .is_some_and(|bytes: usize| bytes > MAX_BODY_BYTES)
    {
        discard(body).await;
        return Err(too_large());
    }
    body::to_bytes(body, MAX_BODY_BYTES).await.map_err(|error| {
        let error = error.into_inner();
        if error.is::<LengthLimitError>() {
            return too_large();
        }
        Failure::invalid(
            reason::BODY_INCOMPLETE,
            format!("the body broke off: {error}"),
        )
    })
}

/// Reads a body that is refused, up to four times what is allowed. A connection with an unread body
/// is closed: a client that sends all before it reads would never see the answer, and one that
/// keeps connections would meet the close at its next call.
pub(super) async fn discard(body: Body) {
    let mut body = Limited::new(body, 4 * MAX_BODY_BYTES);
    while let Some(Ok(_)) = body.frame().await {}
}

fn too_large() -> Failure {
    let message = format!("the body is over {MAX_BODY_BYTES} bytes; split it");
    Failure::invalid(reason::BODY_TOO_LARGE, message)
}

/// Only JSON is taken, and it must be named: a browser sends a form, or nothing, to any site
/// without asking, but JSON only to its own.
fn check_type(headers: &HeaderMap) -> Result<(), Failure> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str().unwrap_or("?"));
    let media_type = given
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!(
        "content-type is {}; send JSON with content-type: application/json",
        given.map_or("missing".to_owned(), |given| format!("{given:?}"))
    );
    Err(Failure::invalid(reason::WRONG_CONTENT_TYPE, message).at("content-type"))
}

/// Reads a JSON object.
pub(super) fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Failure> {
    parse(json).map(|Object(value)| value)
}

/// Reads JSON, and says of an error where it is.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| explain::<T>(json, &error))
}

/// Reads JSON once more, keeping track of the path, which is too slow to do every time.
fn explain<'a, T: Deserialize<'a>>(json: &'a [u8], first: &serde_json::Error) -> Failure {
    if first.classify() != Category::Data {
        let message = format!("the body is not JSON: {first}");
        return Failure::invalid(reason::MALFORMED_JSON, message);
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    let path = serde_path_to_error::deserialize::<_, T>(&mut reader)
        .err()
        .map(|error| error.path().to_string())
        .filter(|path| path != ".");
    let path = match (path, missing_field(&first.to_string())) {
        (Some(parent), Some(field)) => Some(format!("{parent}.{field}")),
        (None, Some(field)) => Some(field.to_owned()),
        (path, None) => path,
    };
    match path {
        Some(path) => Failure::invalid(reason::INVALID_FIELD, format!("{path}: {first}")).at(path),
        None => Failure::invalid(reason::INVALID_FIELD, first.to_string()),
    }
}

/// The field that serde misses; its path is only that of the object around it.
fn missing_field(message: &str) -> Option<&str> {
    let (field, _) = message.strip_prefix("missing field `")?.split_once('`')?;
    Some(field)
}
