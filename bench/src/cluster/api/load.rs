//! Loads of one thread: as much as is answered, or at a rate whatever is answered.

use super::pace::Pace;
use crate::{http::Failure, report::latencies};
use futures::{StreamExt, future::try_join_all, stream::FuturesUnordered};
use hdrhistogram::Histogram;
use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

/// Calls under way at a rate, at the most. Whatever has to wait for one of these to end was meant
/// to begin earlier, and its latency counts from then.
const MOST_UNDER_WAY: usize = 2_048;

/// What a load did.
pub(super) struct Done {
    /// Calls that were answered.
    pub(super) calls: u64,
    pub(super) took: Duration,
    /// Their latencies, in microseconds.
    pub(super) latencies: Histogram<u64>,
}

/// A closed loop: keeps so many calls under way, each with a number of its own. Latencies count
/// from when a call is made.
pub(super) async fn saturate<F: Future<Output = Result<(), Failure>>>(
    at_once: usize,
    lasts: Duration,
    call: impl Fn(u64) -> F,
) -> Result<Done, Failure> {
    let made = Cell::new(0);
    let seen = RefCell::new(latencies());
    let began = Instant::now();
    let client = || async {
        while began.elapsed() < lasts {
            let called = Instant::now();
            call(made.replace(made.get() + 1)).await?;
            note(&mut seen.borrow_mut(), called.elapsed());
        }
        Ok::<_, Failure>(())
    };
    try_join_all((0..at_once).map(|_| client())).await?;
    let took = began.elapsed();
    let latencies = seen.into_inner();
    Ok(Done {
        calls: made.get(),
        took,
        latencies,
    })
}

/// An open loop: calls begin evenly, so many a second, whether earlier ones are answered or not.
/// Latencies count from when a call was meant to begin, so that a server that stops is not asked
/// less while it does.
pub(super) async fn keep_rate<F: Future<Output = Result<(), Failure>>>(
    per_second: u32,
    lasts: Duration,
    call: impl Fn(u64) -> F,
) -> Result<Done, Failure> {
    let apart = Duration::from_secs(1) / per_second;
    let pace = Pace::new();
    let calls = u64::try_from(lasts.as_nanos() / apart.as_nanos())?;
    let mut seen = latencies();
    let mut under_way = FuturesUnordered::new();
    let mut meant = Instant::now();
    let (began, mut made) = (meant, 0);
    while made < calls || !under_way.is_empty() {
        while made < calls && meant <= Instant::now() && under_way.len() < MOST_UNDER_WAY {
            let answered = call(made);
            under_way.push(async move { answered.await.map(|()| meant.elapsed()) });
            made += 1;
            meant += apart;
        }
        let may_begin = made < calls && under_way.len() < MOST_UNDER_WAY;
        tokio::select! {
            Some(latency) = under_way.next() => note(&mut seen, latency?),
            () = pace.tick(), if may_begin => {}
        }
    }
    Ok(Done {
        calls,
        took: began.elapsed(),
        latencies: seen,
    })
}

fn note(seen: &mut Histogram<u64>, latency: Duration) {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    seen.saturating_record(micros);
}
