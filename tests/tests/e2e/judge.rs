//! What an answer says about a mutation that nothing is wrong with.

use crate::{http::error_of, ledger::Answer};
use quipu_schemas::v1;
use serde_json::Value;
use tonic_types::RpcStatusExt;

/// Of an answer, or an item of one, over HTTP.
pub(crate) fn judge(answer: &Value) -> Answer {
    match answer["status"].as_str() {
        Some("ACCEPTED") => return Answer::Accepted,
        Some("ALREADY_APPLIED") => return Answer::AlreadyApplied,
        _ => {}
    }
    let (code, reason) = error_of(answer);
    match (code.as_str(), reason.as_str()) {
        ("UNAVAILABLE" | "DEADLINE_EXCEEDED", _) => Answer::Unsettled,
        ("FAILED_PRECONDITION", "LATE") => Answer::Late,
        _ => panic!("a good call was answered {answer}"),
    }
}

/// Of an item's result over gRPC.
pub(crate) fn judge_result(result: &v1::BatchAddResult) -> Answer {
    use v1::MutationStatus::{Accepted, AlreadyApplied};
    let Some(error) = &result.error else {
        return match result.status() {
            Accepted => Answer::Accepted,
            AlreadyApplied => Answer::AlreadyApplied,
            other @ v1::MutationStatus::Unspecified => panic!("an item was answered {other:?}"),
        };
    };
    let status = tonic_types::Status {
        code: error.code,
        message: error.message.clone(),
        details: error.details.clone(),
    };
    let reason = status.get_details_error_info().map(|info| info.reason);
    match (tonic::Code::from(error.code), reason.as_deref()) {
        (tonic::Code::Unavailable | tonic::Code::DeadlineExceeded, _) => Answer::Unsettled,
        (tonic::Code::FailedPrecondition, Some("LATE")) => Answer::Late,
        _ => panic!("a good item was answered {error:?}"),
    }
}
