//! Whether every count is right in the end.

use super::{load::Load, tally::Counter};
use crate::http::Failure;
use jiff::Timestamp;
use serde_json::Value;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Counters that are looked at at the same time.
const READERS: usize = 16;
/// Without a further complete count for this long, something is broken.
const PATIENCE: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_millis(100);

/// How many counts are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Counts of counters without an add of unknown outcome: equal to what was accepted.
    pub(super) exact: u64,
    /// The others: between what was accepted, and that and all that is unknown.
    pub(super) within: u64,
}

/// Returns once every counter is complete through its last accepted add, and its count right. A
/// count that is complete and wrong is an error at once.
pub(super) async fn wait(load: &Arc<Load>) -> Result<Settled, Failure> {
    let counters: Vec<_> = (0..).zip(load.tally().counters.clone()).collect();
    let readers = counters.chunks(counters.len().div_ceil(READERS));
    let readers: Vec<_> = readers
        .map(|counters| tokio::spawn(all(Arc::clone(load), counters.to_vec())))
        .collect();
    let mut settled = Settled::default();
    for reader in readers {
        let part = reader.await??;
        settled.exact += part.exact;
        settled.within += part.within;
    }
    Ok(settled)
}

async fn all(load: Arc<Load>, counters: Vec<(u64, Counter)>) -> Result<Settled, Failure> {
    let mut settled = Settled::default();
    for (number, counter) in counters {
        let Some(last) = counter.last_accepted else {
            continue;
        };
        let moved = Instant::now();
        let count = loop {
            let answer = load.get(number).await;
            if let Some((count, through)) = answer.as_ref().and_then(count)
                && through >= last
            {
                break count;
            }
            if moved.elapsed() > PATIENCE {
                let seen = answer.map_or_else(|| "no answer".to_owned(), |seen| seen.to_string());
                return Err(
                    format!("c{number} does not get complete through {last}: {seen}").into(),
                );
            }
            tokio::time::sleep(PAUSE).await;
        };
        let may_be = counter.accepted..=counter.accepted + counter.unknown;
        if !may_be.contains(&count) {
            return Err(format!("c{number} is {count}, but must be in {may_be:?}").into());
        }
        if counter.unknown == 0 {
            settled.exact += 1;
        } else {
            settled.within += 1;
        }
    }
    Ok(settled)
}

/// The count that an answer tells, and the time through which it is complete.
fn count(answer: &Value) -> Option<(u64, Timestamp)> {
    let count = answer["count"].as_str()?.parse().ok()?;
    let through = answer["complete_through"].as_str()?.parse().ok()?;
    Some((count, through))
}
