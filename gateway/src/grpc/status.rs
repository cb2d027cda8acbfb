//! Failures as google.rpc.Status with details.

use crate::failure::{DOMAIN, Failure};
use prost::Message;
use quipu_schemas::google::rpc;
use std::collections::HashMap;
use tonic_types::{ErrorDetails, StatusExt};

/// A failure of a whole call.
pub(crate) fn status(failure: &Failure) -> tonic::Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(failure.reason, DOMAIN, HashMap::new());
    if let Some(field) = &failure.field {
        details.add_bad_request_violation(field, &failure.message);
    }
    if let Some(subject) = &failure.exhausted {
        details.add_quota_failure_violation(subject, &failure.message);
    }
    if failure.retry_after.is_some() {
        details.set_retry_info(failure.retry_after);
    }
    tonic::Status::with_error_details(failure.code, &failure.message, details)
}

/// A failure of one item.
pub(super) fn item_status(failure: &Failure) -> rpc::Status {
    rpc::Status::decode(status(failure).details()).expect("details are a google.rpc.Status")
}
