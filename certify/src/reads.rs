//! Reads during a run: what they were shown, and how stale it was.

use crate::{
    observed::{Counted, Shown},
    timeline::Timeline,
};
use futures::{StreamExt, stream};
use quipu_adapters::clock::Clock;
use quipu_client::Client;
use quipu_core::{
    name::{CounterName, Namespace},
    time::Micros,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Between two reads of one reader.
const PACE: Duration = Duration::from_millis(80);
const READERS: u64 = 4;
/// Reads of counters that are not complete yet under way at once.
const WATCHED: usize = 8;
const POLL: Duration = Duration::from_millis(100);
/// The most reads that are kept for the verdict.
const MOST: usize = 200_000;

/// What is read, and where.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    pub(crate) counters: Vec<CounterName>,
    pub(crate) timeline: Timeline,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    pub(crate) shown: Vec<Shown>,
    /// How long before its answer each count was complete, in seconds.
    pub(crate) staleness: Vec<f64>,
}

impl Reader {
    /// Reads at a pace until `stop`.
    pub(crate) async fn run(&self, stop: &AtomicBool) -> Reads {
        let readers = (0..READERS).map(|seed| self.read(seed, stop));
        let all = futures::future::join_all(readers).await;
        all.into_iter().fold(Reads::default(), |mut all, reads| {
            all.shown.extend(reads.shown);
            all.staleness.extend(reads.staleness);
            all
        })
    }

    async fn read(&self, seed: u64, stop: &AtomicBool) -> Reads {
        let clock = Clock::system();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut reads = Reads::default();
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(PACE).await;
            let Some(counter) = rng.choice(&self.counters) else {
                break;
            };
            let Some(shown) = self.get(counter).await else {
                self.timeline.note(|second| second.unread += 1);
                continue;
            };
            let stale = clock.now().since(shown.through).as_secs_f64();
            self.timeline.note(|second| {
                second.read += 1;
                second.staleness = second.staleness.max(stale);
            });
            if reads.shown.len() < MOST {
                reads.shown.push(Shown {
                    counter: counter.clone(),
                    counted: shown,
                });
                reads.staleness.push(stale);
            }
        }
        reads
    }

    /// A count as it is answered now.
    pub(crate) async fn get(&self, counter: &CounterName) -> Option<Counted> {
        let answer = self
            .client
            .get_once(self.namespace.as_str(), counter.as_str());
        let answer = answer.await.ok()?;
        Some(Counted {
            count: answer.count.into(),
            through: answer.complete_through?,
        })
    }

    /// How long it takes from now until every count is complete through a moment; nothing, if that
    /// takes longer than `patience`.
    pub(crate) async fn complete_after(
        &self,
        through: Micros,
        patience: Duration,
    ) -> Option<Duration> {
        let began = Instant::now();
        let complete = stream::iter(&self.counters).map(|counter| async move {
            while self
                .get(counter)
                .await
                .is_none_or(|counted| counted.through < through)
            {
                tokio::time::sleep(POLL).await;
            }
        });
        let complete = complete.buffer_unordered(WATCHED).for_each(async |()| {});
        tokio::time::timeout(patience, complete).await.ok()?;
        Some(began.elapsed())
    }
}
