//! Failures as JSON, with the HTTP status that belongs to their google.rpc code.

use crate::failure::{DOMAIN, Failure, reason};
use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use quipu_schemas::code::code_name;
use serde::Serialize;
use std::time::Duration;
use tonic::Code;

/// `{"error": {"code": …, "message": …, "details": […]}}`
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    error: ErrorObject<'a>,
}

/// A failure, as answers and items of answers carry it.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorObject<'a> {
    code: &'static str,
    message: &'a str,
    details: Vec<Detail<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "@type")]
enum Detail<'a> {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo {
        reason: &'static str,
        domain: &'static str,
    },
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest {
        field_violations: [FieldViolation<'a>; 1],
    },
    #[serde(rename = "type.googleapis.com/google.rpc.QuotaFailure")]
    QuotaFailure { violations: [QuotaViolation<'a>; 1] },
    #[serde(rename = "type.googleapis.com/google.rpc.RetryInfo")]
    RetryInfo { retry_delay: String },
}

#[derive(Debug, Serialize)]
struct FieldViolation<'a> {
    field: &'a str,
    description: &'a str,
}

#[derive(Debug, Serialize)]
struct QuotaViolation<'a> {
    subject: &'a str,
    description: &'a str,
}

impl<'a> ErrorObject<'a> {
    pub(crate) fn new(failure: &'a Failure) -> Self {
        let Failure {
            code,
            reason,
            message,
            field,
            retry_after,
            exhausted,
        } = failure;
        let info = Detail::ErrorInfo {
            reason,
            domain: DOMAIN,
        };
        let violation = field.as_deref().map(|field| Detail::BadRequest {
            field_violations: [FieldViolation {
                field,
                description: message,
            }],
        });
        let quota = exhausted.as_deref().map(|subject| Detail::QuotaFailure {
            violations: [QuotaViolation {
                subject,
                description: message,
            }],
        });
        let retry = retry_after.map(|delay| Detail::RetryInfo {
            retry_delay: format!("{}s", delay.as_secs_f64()),
        });
        let details = [Some(info), violation, quota, retry]
            .into_iter()
            .flatten()
            .collect();
        Self {
            code: code_name(*code),
            message,
            details,
        }
    }
}

/// The answer to a call that failed.
pub(crate) fn render(failure: &Failure) -> Response<Body> {
    let body = ErrorBody {
        error: ErrorObject::new(failure),
    };
    let json = serde_json::to_vec(&body).expect("text and numbers serialize");
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status(failure);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(delay) = failure.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(delay)));
    }
    if failure.code == Code::Unauthenticated {
        let challenge = HeaderValue::from_static("Bearer");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Whole seconds, rounded up: a client that comes back early comes back for nothing.
fn whole_seconds(delay: Duration) -> u64 {
    delay.as_secs() + u64::from(delay.subsec_nanos() > 0)
}

fn status(failure: &Failure) -> StatusCode {
    match failure.reason {
        reason::METHOD_NOT_ALLOWED => return StatusCode::METHOD_NOT_ALLOWED,
        reason::VERSION_MOVED => return StatusCode::PRECONDITION_FAILED,
        reason::BODY_TOO_LARGE => return StatusCode::PAYLOAD_TOO_LARGE,
        reason::WRONG_CONTENT_TYPE => return StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => {}
    }
    match failure.code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
