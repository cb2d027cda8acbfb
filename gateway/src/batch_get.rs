//! Reads of many counters at once.

use crate::{
    call::{self, Count},
    failure::Failure,
    gateway::{Gateway, View},
    read,
};
use futures::{StreamExt, future::join_all, stream};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::{checkpoint::Checkpoint, event::CounterKey, policy::Mode};
use tonic::Code;

/// Counters of one batch that are scanned at the same time.
const SCANS_AT_ONCE: usize = 16;

const FIELD: &str = "counter_names";

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// What [`Self::get`] answers for each of up to 1,000 counters, in the order given. A name that
    /// is already an error keeps it.
    pub async fn batch_get(
        &self,
        namespace: &str,
        names: Vec<Result<&str, Failure>>,
    ) -> Result<Vec<Result<Count, Failure>>, Failure> {
        let view = self.view(namespace)?;
        call::check_batch_size(FIELD, names.len())?;
        let results = if view.life.mode() == Mode::EventuallyConsistent {
            let counters = names.into_iter().map(|name| view.counter(name?));
            self.read_rolled_up(&view, counters.collect()).await
        } else {
            let view = &view;
            let reads = names
                .into_iter()
                .map(|name| async move { self.read(view, name?).await });
            let reads: Vec<_> = reads.collect();
            stream::iter(reads).buffered(SCANS_AT_ONCE).collect().await
        };
        let placed = results.into_iter().enumerate();
        Ok(placed
            .map(|(at, result)| result.map_err(|failure| of_name(at, failure)))
            .collect())
    }

    /// Reads the cache once for all, then the rollup store once for what the cache did not have.
    async fn read_rolled_up(
        &self,
        view: &View,
        counters: Vec<Result<CounterKey, Failure>>,
    ) -> Vec<Result<Count, Failure>> {
        let good: Vec<_> = counters.iter().flatten().cloned().collect();
        let cached = join_all(good.iter().map(|counter| self.cached_checkpoint(counter))).await;
        let misses = good
            .iter()
            .zip(&cached)
            .filter(|(_, found)| found.is_none());
        let misses: Vec<_> = misses.map(|(counter, _)| counter.clone()).collect();
        let mut stored = match self.stored_checkpoints(&misses).await {
            Ok(stored) => stored.into_iter().map(Ok).collect(),
            Err(failure) => vec![Err(failure); misses.len()],
        }
        .into_iter();
        let mut cached = cached.into_iter();
        let read = |counter: Result<CounterKey, Failure>| {
            let counter = counter?;
            let cached = cached.next().expect("each counter was looked for");
            let found = match cached {
                Some(checkpoint) => Some(checkpoint),
                None => stored.next().expect("each miss was loaded")?,
            };
            let checkpoint = found.unwrap_or_else(|| Checkpoint::origin(view.life.origin()));
            self.signal_if_stale(view, &counter, checkpoint);
            read::answer(checkpoint.count, checkpoint.last_rollup)
        };
        counters.into_iter().map(read).collect()
    }
}

/// The failure of a name, with its place in the whole request.
fn of_name(at: usize, failure: Failure) -> Failure {
    if failure.code == Code::InvalidArgument {
        failure.at(format!("{FIELD}[{at}]"))
    } else {
        failure
    }
}
