//! What an answer means: the one place that turns gRPC statuses into decisions (R16).

use crate::failure::{Failure, Said};
use quipu_schemas::{code::code_name, google::rpc, v1};
use std::{error::Error, time::Duration};
use tonic::{Code, ConnectError, Status, TimeoutExpired};
use tonic_types::{ErrorDetails, RpcStatusExt, StatusExt};

/// What became of a mutation that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// This attempt was accepted: it is durable, and counted once.
    Accepted,
    /// An earlier attempt with the same token was counted; this one changed nothing.
    AlreadyApplied,
    /// Kafka has it, durably, and nobody has judged it yet: an event that was late on its way shows
    /// up among the dead letters only.
    Published,
}

impl Applied {
    /// As the API names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::AlreadyApplied => "ALREADY_APPLIED",
            Self::Published => "PUBLISHED",
        }
    }
}

/// Reads the status of a call to `server`.
pub(crate) fn of_call(status: &Status, server: &str) -> Failure {
    match status.source() {
        // One that was made here, of a broken connection, says nothing about what the server did.
        Some(_) if has_cause::<ConnectError>(status) => Failure::Unreachable {
            server: server.to_owned(),
            cause: root_cause(status),
        },
        Some(_) => Failure::unsettled(with_root_cause(status.message(), status)),
        None => classify(status.code(), status.message(), &status.get_error_details()),
    }
}

/// Whether a call ended because its own time was over.
pub(crate) fn is_own_timeout(status: &Status) -> bool {
    has_cause::<TimeoutExpired>(status)
}

/// The failure of an attempt whose answer did not come in time.
pub(crate) fn unanswered(patience: Duration) -> Failure {
    Failure::unsettled(format!("no answer within {patience:.1?}"))
}

/// Reads one result of a batch.
pub(crate) fn of_item(result: v1::BatchAddResult) -> Result<Applied, Failure> {
    let status = result.status();
    match result.error {
        Some(error) => Err(of_rpc_status(error)),
        None => of_mutation(status),
    }
}

/// Reads the results of a batch of so many items.
pub(crate) fn of_batch(
    results: Vec<v1::BatchAddResult>,
    sent: usize,
) -> Result<Vec<Result<Applied, Failure>>, Failure> {
    if results.len() == sent {
        return Ok(results.into_iter().map(of_item).collect());
    }
    let got = results.len();
    Err(Failure::unsettled(format!(
        "the server gave {got} results for {sent} adds"
    )))
}

/// Reads the status of a mutation.
pub(crate) fn of_mutation(status: v1::MutationStatus) -> Result<Applied, Failure> {
    match status {
        v1::MutationStatus::Accepted => Ok(Applied::Accepted),
        v1::MutationStatus::AlreadyApplied => Ok(Applied::AlreadyApplied),
        v1::MutationStatus::Unspecified => Err(Failure::unsettled(
            "the server gave neither a status nor an error",
        )),
    }
}

/// Reads a status inside of an answer.
pub(crate) fn of_rpc_status(status: rpc::Status) -> Failure {
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

fn classify(code: Code, message: &str, details: &ErrorDetails) -> Failure {
    let said = Said {
        code: code_name(code).to_owned(),
        reason: details
            .error_info()
            .map_or_else(String::new, |info| info.reason.clone()),
        message: format!("{}: {message}", code_name(code)),
    };
    let retry_after = details.retry_info().and_then(|info| info.retry_delay);
    by_code(code, said, retry_after)
}

/// Only these codes promise that nothing was applied. Every other one, also INTERNAL and UNKNOWN,
/// leaves it open, and the same token may always be sent again.
pub(crate) fn by_code(code: Code, said: Said, retry_after: Option<Duration>) -> Failure {
    match code {
        Code::FailedPrecondition if said.reason.eq_ignore_ascii_case("LATE") => Failure::Late(said),
        Code::FailedPrecondition if said.reason.eq_ignore_ascii_case("OUTCOME_UNKNOWN") => {
            Failure::OutcomeUnknown(said)
        }
        // Of a namespace that ignores tokens: another attempt could count twice.
        Code::Unavailable if said.reason.eq_ignore_ascii_case("NOT_IDEMPOTENT") => {
            Failure::OutcomeUnknown(said)
        }
        Code::PermissionDenied | Code::Unauthenticated => Failure::Denied(said),
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Failure::Refused(said),
        _ => Failure::Unsettled { said, retry_after },
    }
}

fn has_cause<E: Error + 'static>(error: &dyn Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<E>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A message with the deepest cause: transports hide the useful part at the bottom, below layers
/// that repeat each other.
fn with_root_cause(message: &str, error: &dyn Error) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn of(code: Code, reason: &str) -> Failure {
        let mut details = ErrorDetails::with_error_info(reason, "quipu", HashMap::new());
        details.set_retry_info(Some(Duration::from_millis(20)));
        of_call(
            &Status::with_error_details(code, "why", details),
            "http://server",
        )
    }

    #[test]
    fn each_code_says_what_the_caller_does() {
        for (code, reason, shape, transient) in [
            (Code::Unavailable, "WINDOW_OPEN", "Unsettled", true),
            (Code::DeadlineExceeded, "TIMED_OUT", "Unsettled", true),
            (Code::Internal, "STORAGE_DAMAGED", "Unsettled", false),
            (Code::ResourceExhausted, "QUOTA", "Unsettled", false),
            (Code::Unknown, "", "Unsettled", false),
            (Code::FailedPrecondition, "LATE", "Late", false),
            (
                Code::FailedPrecondition,
                "OUTCOME_UNKNOWN",
                "OutcomeUnknown",
                false,
            ),
            (Code::Unavailable, "NOT_IDEMPOTENT", "OutcomeUnknown", false),
            (
                Code::FailedPrecondition,
                "NAMESPACE_REFUSED",
                "Refused",
                false,
            ),
            (Code::InvalidArgument, "INVALID_FIELD", "Refused", false),
            (Code::NotFound, "UNKNOWN_NAMESPACE", "Refused", false),
            (Code::PermissionDenied, "", "Denied", false),
            (Code::Unauthenticated, "", "Denied", false),
        ] {
            let failure = of(code, reason);
            assert!(
                format!("{failure:?}").starts_with(shape),
                "{code:?} {failure:?}"
            );
            assert_eq!(failure.is_transient(), transient, "{code:?}");
            assert_eq!(failure.code_and_reason(), (code_name(code), reason));
            let wait = (shape == "Unsettled").then_some(Duration::from_millis(20));
            assert_eq!(failure.retry_after(), wait, "{code:?}");
        }
    }

    #[test]
    fn a_batch_with_too_few_results_settles_nothing() {
        let failure = of_batch(vec![v1::BatchAddResult::default()], 2).unwrap_err();
        assert!(failure.is_transient(), "{failure:?}");
        let neither = of_batch(vec![v1::BatchAddResult::default()], 1).unwrap();
        assert!(matches!(neither[0], Err(Failure::Unsettled { .. })));
    }
}
