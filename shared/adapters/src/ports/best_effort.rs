//! Counters that a cache alone keeps.

use futures::future::BoxFuture;
use quipu_core::event::CounterKey;
use std::{fmt, time::Duration};

/// What a call came to.
pub type BestEffortResult<T> = Result<T, BestEffortError>;

/// Why a call did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BestEffortError {
    /// The sum does not fit 64 bits. Nothing changed.
    #[error("the sum does not fit a signed 64-bit integer")]
    OutOfRange,
    /// Nobody answered in time. An add or a delete may or may not have been applied, and nothing
    /// tells a second attempt from another mutation.
    #[error("the cache is unavailable: {0}")]
    Unavailable(String),
    /// What is kept for the counter is no count: another program wrote it. Nothing changed.
    #[error("the cache holds no count: {0}")]
    Damaged(String),
}

/// Counts without a log: approximate, since the cache may lose any counter at any time, and not
/// idempotent. Nothing is ever sent twice. Shared by all that use it.
pub trait BestEffort: fmt::Debug + Send + Sync {
    /// Adds a delta, and returns the sum. The counter then lives for `ttl` more, however long it
    /// had left; one that is not there begins at zero. All of it is one atomic step.
    fn add<'a>(
        &'a self,
        counter: &'a CounterKey,
        delta: i64,
        ttl: Duration,
    ) -> BoxFuture<'a, BestEffortResult<i64>>;

    /// The sum, if the counter is there.
    fn get<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<Option<i64>>>;

    /// Removes the counter, wherever a copy of it may be; an error if any copy may still be there.
    fn delete<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<()>>;
}
