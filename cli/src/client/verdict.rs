//! What an answer means: the one place that turns gRPC statuses into decisions (R16).

use quipu_schemas::{code::code_name, google::rpc, v1};
use std::{error::Error, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, RpcStatusExt, StatusExt};

/// A mutation that is counted, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// This attempt was accepted.
    Accepted,
    /// An earlier attempt with the same token was.
    AlreadyApplied,
}

impl Applied {
    /// As the API names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::AlreadyApplied => "ALREADY_APPLIED",
        }
    }
}

/// Why a call did not succeed, by what the caller does about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection, so nothing was sent. Try again.
    #[error("cannot reach the server at {server}: {cause}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// What went wrong.
        cause: String,
    },
    /// It may or may not have been applied. Try again, with the same token.
    #[error("{message}")]
    Unsettled {
        /// The google.rpc code, by name; empty when the server gave none.
        code: String,
        /// The reason of its `ErrorInfo`; may be empty.
        reason: String,
        /// What the server or the transport said.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// No attempt with this token was counted and none will be. A new token may be made.
    #[error("{0}")]
    Late(String),
    /// Nobody can tell whether an attempt with this token was counted.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// Refused, and nothing was applied.
    #[error("{message}")]
    Refused {
        /// The google.rpc code, by name.
        code: String,
        /// The reason of its `ErrorInfo`; may be empty.
        reason: String,
        /// What the server said.
        message: String,
    },
}

impl Failure {
    /// Whether the fault lies in the mutation itself, so that others of a batch may go on. A time
    /// too far ahead is the fault of a clock, and so concerns them all.
    pub(crate) fn is_malformed_item(&self) -> bool {
        matches!(self, Self::Refused { code, reason, .. }
            if code == code_name(Code::InvalidArgument) && reason != "TOO_FAR_AHEAD")
    }

    /// No answer, or none that tells anything.
    pub(crate) fn unsettled(message: impl Into<String>) -> Self {
        Self::Unsettled {
            code: String::new(),
            reason: String::new(),
            message: message.into(),
            retry_after: None,
        }
    }

    /// The google.rpc code and the reason that the server gave, by name; each may be empty.
    pub(crate) fn code_and_reason(&self) -> (&str, &str) {
        match self {
            Self::Unreachable { .. } => ("", ""),
            Self::Late(_) => (code_name(Code::FailedPrecondition), "LATE"),
            Self::OutcomeUnknown(_) => (code_name(Code::FailedPrecondition), "OUTCOME_UNKNOWN"),
            Self::Unsettled { code, reason, .. } | Self::Refused { code, reason, .. } => {
                (code, reason)
            }
        }
    }

    /// What the user can do about it.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } => Some(
                "is it running? Start one with `quipu serve --data DIR`, or name another with --server",
            ),
            Self::Refused { reason, .. } if reason == "UNKNOWN_NAMESPACE" => Some(
                "create it with: echo '{\"namespace\": \"NAME\"}' | quipu namespace apply -f -",
            ),
            _ => None,
        }
    }
}

impl From<&Status> for Failure {
    fn from(status: &Status) -> Self {
        // A status that was made here from a broken connection has a source; one that the server
        // sent has none. The former says nothing about what the server did.
        if status.source().is_some() {
            return Self::unsettled(with_root_cause(status.message(), status));
        }
        classify(status.code(), status.message(), &status.get_error_details())
    }
}

impl From<rpc::Status> for Failure {
    fn from(status: rpc::Status) -> Self {
        let status = tonic_types::Status {
            code: status.code,
            message: status.message,
            details: status.details,
        };
        classify(
            Code::from(status.code),
            &status.message,
            &status.get_error_details(),
        )
    }
}

/// Reads one result of a batch.
pub(crate) fn of_item(result: v1::BatchAddResult) -> Result<Applied, Failure> {
    let status = result.status();
    match result.error {
        Some(error) => Err(error.into()),
        None => of_status(status),
    }
}

/// Reads the status of a mutation.
pub(crate) fn of_status(status: v1::MutationStatus) -> Result<Applied, Failure> {
    match status {
        v1::MutationStatus::Accepted => Ok(Applied::Accepted),
        v1::MutationStatus::AlreadyApplied => Ok(Applied::AlreadyApplied),
        v1::MutationStatus::Unspecified => Err(Failure::unsettled(
            "the server gave neither a status nor an error",
        )),
    }
}

/// Only these codes promise that nothing was applied. Every other one, also INTERNAL and UNKNOWN,
/// leaves it open, and the same token may always be sent again.
fn classify(code: Code, message: &str, details: &ErrorDetails) -> Failure {
    let reason = details.error_info().map_or("", |info| info.reason.as_str());
    let message = format!("{}: {message}", code_name(code));
    match code {
        Code::FailedPrecondition if reason.eq_ignore_ascii_case("LATE") => Failure::Late(message),
        Code::FailedPrecondition if reason.eq_ignore_ascii_case("OUTCOME_UNKNOWN") => {
            Failure::OutcomeUnknown(message)
        }
        // Of a namespace that ignores tokens: another attempt could count twice.
        Code::Unavailable if reason.eq_ignore_ascii_case("NOT_IDEMPOTENT") => {
            Failure::OutcomeUnknown(message)
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Failure::Refused {
            code: code_name(code).to_owned(),
            reason: reason.to_owned(),
            message,
        },
        _ => Failure::Unsettled {
            code: code_name(code).to_owned(),
            reason: reason.to_owned(),
            message,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        },
    }
}

/// A message with the deepest cause: transports hide the useful part at the bottom, below layers
/// that repeat each other.
pub(crate) fn with_root_cause(message: &str, error: &dyn Error) -> String {
    let cause = root_cause(error);
    if message.contains(&cause) {
        message.to_owned()
    } else {
        format!("{message}: {cause}")
    }
}

/// What an error began with.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
