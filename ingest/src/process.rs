//! Makes a decided batch durable: rows and dead letters, then the durable frontier, then signals.

use crate::{
    batch::{Batch, DecidedRange},
    names,
    refusals::NearlyAllRefused,
};
use metrics::{counter, histogram};
use quipu_adapters::{
    ports::{Body, Durability, EventStore, LogError, NewRecord, Producer, StoreError, Topic},
    retry::Backoff,
};
use quipu_core::{
    key::{key_bytes, partition, route},
    policy::PolicyBook,
    window::Window,
};
use quipu_schemas::signal::{self, CheckedSignal};
use std::{sync::Arc, time::Instant};

/// Why the role stopped. What it had not committed is decided again, alike, after a restart.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The log holds what contradicts an invariant, or a record that it does not take.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nearly everything in a partition is refused, and it is not for the times of its events.
    #[error(
        "topic {topic} partition {partition}: {}% of the last records were refused, the last as \
         {}; whatever they are, they are not events of this topic. The dead letters say more. Mend \
         the producers or the topic's name, and start again; to dead-letter the rest all the same, \
         set ingest.most_refused_percent to 100",
        refused.percent, refused.reason
    )]
    NearlyAllRefused {
        /// The topic.
        topic: &'static str,
        /// The partition.
        partition: u32,
        /// What became of its records.
        refused: NearlyAllRefused,
    },
    /// The store holds what contradicts an invariant.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of a batch.
pub enum Processed {
    /// Durable and signalled.
    Done(Vec<DecidedRange>),
    /// The store lost writes: go back to the committed frontiers.
    Lost,
}

/// R11, R12 and R17 in their order: rows and dead letters acknowledged, then durable, then the
/// signals; the caller commits and moves the watermark only after that. Waits as long as the
/// stores are away: lag delays counts, it never loses them.
pub async fn make_durable<L: Producer, E: EventStore>(
    log: L,
    store: E,
    policy: Arc<PolicyBook>,
    topic: &'static str,
    batch: Batch,
) -> Result<Processed, IngestError> {
    let started = Instant::now();
    futures::try_join!(
        write_rows(&store, &batch),
        write_dead_letters(&log, topic, &batch)
    )?;
    if !batch.rows.is_empty() && synced(&store).await? == Durability::Lost {
        return Ok(Processed::Lost);
    }
    append(&log, Topic::Signals, || signals(&log, &policy, &batch)).await?;
    counter!(names::ACCEPTED).increment(batch.rows.len() as u64);
    counter!(names::DUPLICATES).increment(batch.duplicates());
    counter!(names::SIGNALS).increment(batch.written.len() as u64);
    counter!(names::ACKNOWLEDGED_AND_REFUSED).increment(batch.acknowledged_and_refused);
    for letter in &batch.dead_letters {
        counter!(names::DEAD_LETTERED, "reason" => letter.refusal.reason()).increment(1);
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a batch has far fewer than 2^52 rows"
    )]
    histogram!(names::BATCH_ROWS).record(batch.rows.len() as f64);
    histogram!(names::BATCH_SECONDS).record(started.elapsed());
    Ok(Processed::Done(batch.ranges))
}

async fn write_rows<E: EventStore>(store: &E, batch: &Batch) -> Result<(), IngestError> {
    if batch.rows.is_empty() {
        return Ok(());
    }
    let mut backoff = Backoff::new("write events");
    loop {
        let written = match store.write(&batch.rows).await {
            Err(StoreError::SliceNotReady(_)) => prepare(store, batch).await,
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {}
            Err(error @ StoreError::Damaged(_)) => return Err(error.into()),
            Err(error) => backoff.wait(&error).await,
        }
    }
}

/// Makes the slices of a batch ready: of each row, for between them may lie years.
async fn prepare<E: EventStore>(store: &E, batch: &Batch) -> Result<(), StoreError> {
    for row in &batch.rows {
        let through = row.event.key.event_time;
        let after = through.pred();
        store.prepare(Window { after, through }).await?;
    }
    Ok(())
}

async fn synced<E: EventStore>(store: &E) -> Result<Durability, IngestError> {
    let mut backoff = Backoff::new("make events durable");
    loop {
        match store.sync().await {
            Ok(durability) => return Ok(durability),
            Err(error @ StoreError::Damaged(_)) => return Err(error.into()),
            Err(error) => backoff.wait(&error).await,
        }
    }
}

async fn write_dead_letters<L: Producer>(
    log: &L,
    topic: &str,
    batch: &Batch,
) -> Result<(), IngestError> {
    let records = || {
        batch
            .dead_letters
            .iter()
            .map(|letter| letter.to_record(topic))
            .collect()
    };
    append(log, Topic::DeadLetters, records).await
}

fn signals<L: Producer>(log: &L, policy: &PolicyBook, batch: &Batch) -> Vec<NewRecord> {
    let partitions = log.partitions(Topic::Signals);
    let mut records = Vec::with_capacity(batch.written.len());
    for (counter, last_write) in &batch.written {
        // A namespace that the policy knew at the decision is in every later policy.
        let Some((namespace, _)) = policy.incarnation(counter.namespace) else {
            continue;
        };
        let route = route(&key_bytes(namespace, &counter.name));
        let signal = CheckedSignal {
            counter: counter.clone(),
            last_write: Some(*last_write),
        };
        let body = Body::value(signal::encode(&signal));
        records.push(NewRecord {
            partition: partition(route, partitions),
            body,
        });
    }
    records
}

async fn append<L: Producer>(
    log: &L,
    topic: Topic,
    records: impl Fn() -> Vec<NewRecord>,
) -> Result<(), IngestError> {
    let mut backoff = Backoff::new("append to the log");
    loop {
        let records = records();
        if records.is_empty() {
            return Ok(());
        }
        match log.append(topic, records).await {
            Ok(_) => return Ok(()),
            Err(error @ (LogError::Unavailable(_) | LogError::ClockJumped(_))) => {
                backoff.wait(&error).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
