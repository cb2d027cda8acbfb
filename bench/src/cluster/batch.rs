//! Adds that one call carries.

use super::installation::NAMESPACE;
use crate::freshness::COUNTERS;
use jiff::Timestamp;
use std::fmt::Write;

/// Adds of one call.
pub(super) const TOGETHER: u64 = 50;

/// Where a batch is sent to.
pub(super) fn path() -> String {
    format!("/v1/namespaces/{NAMESPACE}/counters:batchAdd")
}

/// The numbers of the counters that a batch adds 1 to each, in its order.
pub(super) fn counters(batch: u64) -> impl Iterator<Item = u64> {
    (batch * TOGETHER..(batch + 1) * TOGETHER).map(|number| number % COUNTERS)
}

/// A batch with tokens of its own.
pub(super) fn body(batch: u64, generated: Timestamp) -> String {
    let mut items = String::new();
    for (item, counter) in counters(batch).enumerate() {
        let comma = if item == 0 { "" } else { "," };
        write!(
            items,
            r#"{comma}{{"counter_name":"c{counter}","delta":1,"idempotency_token":{{"token":"a{batch}-{item}","generation_time":"{generated}"}}}}"#,
        )
        .expect("text can be written to a string");
    }
    format!(r#"{{"items":[{items}]}}"#)
}
