//! The producer's side of the log.

use super::{
    format::body_bytes,
    meta::FrontierKey,
    request::{Append, MakeChange, Request},
    store::Store,
    writer::closed,
};
use crate::ports::{Appended, Committed, LogError, NewRecord, Producer, Topic};
use std::{fmt, sync::Arc};
use tokio::sync::{Semaphore, mpsc::UnboundedSender, oneshot};

/// What a request and a record cost of the queue's budget besides their contents.
const REQUEST_COST: usize = 256;
const RECORD_COST: usize = 64;

/// Appends to the embedded log. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedProducer {
    pub(super) store: Arc<Store>,
    requests: UnboundedSender<Request>,
    /// Bounds the queue: its bytes, and so also its requests.
    budget: Arc<Semaphore>,
    queue_bytes: u32,
    max_record_bytes: usize,
}

impl fmt::Debug for EmbeddedProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedProducer").finish_non_exhaustive()
    }
}

impl EmbeddedProducer {
    pub(super) fn new(
        store: Arc<Store>,
        requests: UnboundedSender<Request>,
        queue_bytes: u32,
        max_record_bytes: usize,
    ) -> Self {
        let budget = Arc::new(Semaphore::new(queue_bytes as usize));
        Self {
            store,
            requests,
            budget,
            queue_bytes,
            max_record_bytes,
        }
    }

    /// The offset after the last durable record of each partition.
    pub fn ends(&self, topic: Topic) -> Vec<u64> {
        self.store.topic(topic).ends()
    }

    /// How many records of each partition a group has not finished.
    pub fn backlog(&self, topic: Topic, group: &str) -> Vec<u64> {
        let committed = self.store.committed(topic, &group.into());
        let ends = self.ends(topic).into_iter().zip(committed);
        ends.map(|(end, committed)| end.saturating_sub(committed.next_offset))
            .collect()
    }

    pub(super) async fn commit(
        &self,
        frontiers: Vec<(FrontierKey, Committed)>,
    ) -> Result<(), LogError> {
        let (answer, answered) = oneshot::channel();
        self.requests
            .send(Request::Commit(frontiers, answer))
            .map_err(|_| self.ended())?;
        answered.await.map_err(|_| self.ended())?
    }

    /// Makes a change in the log's time (R5): every append so far got an earlier time than the
    /// change's effective time, and none gets an earlier one once the change is in force.
    pub(in crate::embedded) async fn change(&self, make: MakeChange) -> Result<(), LogError> {
        let (answer, answered) = oneshot::channel();
        self.requests
            .send(Request::Change(make, answer))
            .map_err(|_| self.ended())?;
        answered.await.map_err(|_| self.ended())?
    }

    /// Why the writer's thread answers no more.
    fn ended(&self) -> LogError {
        if self.budget.is_closed() {
            return closed();
        }
        // Nobody closed it. Callers that tried again would wait for ever.
        LogError::Damaged(
            "its thread died of a defect; what was acknowledged is safe: start the server again"
                .to_owned(),
        )
    }

    pub(super) fn close(&self) {
        self.budget.close();
        // When the writer is gone already there is nothing left to close.
        self.requests.send(Request::Close).ok();
    }

    /// What the records cost of the queue's budget.
    fn cost(&self, records: &[NewRecord]) -> Result<u32, LogError> {
        let mut cost = REQUEST_COST;
        for record in records {
            let (bytes, limit) = (body_bytes(&record.body), self.max_record_bytes);
            if bytes > limit {
                return Err(LogError::TooLarge { bytes, limit });
            }
            cost += bytes + RECORD_COST;
        }
        // A request that is larger than the whole budget goes alone.
        Ok(u32::try_from(cost)
            .unwrap_or(u32::MAX)
            .min(self.queue_bytes))
    }
}

impl Producer for EmbeddedProducer {
    fn partitions(&self, topic: Topic) -> u32 {
        let partitions = self.store.topic(topic).tails.len();
        u32::try_from(partitions).expect("partitions are counted in 32 bits")
    }

    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        let partitions = self.partitions(topic);
        let unknown = records.iter().find(|record| record.partition >= partitions);
        assert_eq!(unknown, None, "{topic:?} has {partitions} partitions");
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let budget = Arc::clone(&self.budget);
        let charge = budget.acquire_many_owned(self.cost(&records)?);
        let charge = charge.await.map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let append = Append {
            topic,
            records,
            answer,
            charge,
        };
        self.requests
            .send(Request::Append(append))
            .map_err(|_| self.ended())?;
        // Nobody answers what was still in the queue at the close, and nobody wrote it.
        answered.await.map_err(|_| self.ended())?
    }
}
