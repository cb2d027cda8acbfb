//! A consumer that notes how far its partitions have come, for whoever asks after their health.

use super::progress::Progress;
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::ports::{Committed, Consumer, LogError, Polled};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is known of the partitions of one consumer. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Mutex<Progress>>);

impl Watch {
    /// How far the partitions have come.
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A consumer, and who watches it.
pub(super) struct Watched<C> {
    consumer: C,
    watch: Watch,
}

impl<C: Consumer> Watched<C> {
    pub(super) fn new(consumer: C, watch: Watch) -> Self {
        Self { consumer, watch }
    }
}

impl<C: Consumer> Consumer for Watched<C> {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        let polled = self.consumer.poll().await?;
        let mut progress = self.watch.progress();
        match &polled {
            Polled::Assigned(assignments) => {
                for assignment in assignments {
                    progress.assigned(assignment.partition, assignment.start.next_offset);
                }
            }
            Polled::Revoked(partitions) | Polled::Lost(partitions) => {
                for partition in partitions {
                    progress.gone(*partition);
                }
            }
            Polled::Records { partition, records } => {
                if let Some(last) = records.last() {
                    progress.brought(*partition, last.offset + 1);
                }
            }
            Polled::End { .. } => {}
        }
        drop(progress);
        Ok(polled)
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        let watch = self.watch.clone();
        let commit = self.consumer.commit(frontiers.clone());
        async move {
            commit.await?;
            let mut progress = watch.progress();
            for (partition, frontier) in frontiers {
                progress.committed(partition, frontier.next_offset);
            }
            Ok(())
        }
        .boxed()
    }

    fn release(&mut self, partitions: Vec<u32>) {
        self.consumer.release(partitions);
    }

    fn seek(&mut self, partition: u32, next_offset: u64) {
        self.consumer.seek(partition, next_offset);
    }

    fn pause(&mut self, partition: u32) {
        self.consumer.pause(partition);
    }

    fn resume(&mut self, partition: u32) {
        self.consumer.resume(partition);
    }

    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        self.consumer.ends()
    }
}
