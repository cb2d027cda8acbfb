//! Signal partitions that are taken away while work of theirs is under way.

use crate::fixtures::{counter, policy, prepared, settings, signal};
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::{
    clock::Clock,
    memory::{MemoryCache, MemoryLog, MemoryRollupStore},
    ports::{Assignment, Body, Committed, Consumer, LogError, Polled, Record, Stamp},
    watermarks::WatermarkBoard,
};
use quipu_core::{time::Micros, watermark::Watermarks, window::Window};
use quipu_rollup_worker::{Ports, aggregate::Stores};
use std::{
    future,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{mpsc, watch};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Done {
    Committed(Vec<(u32, u64)>),
    Released(Vec<u32>),
}

/// Brings what the test sends, and notes what the role does.
struct Scripted(mpsc::UnboundedReceiver<Polled>, Arc<Mutex<Vec<Done>>>);

impl Consumer for Scripted {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        match self.0.recv().await {
            Some(polled) => Ok(polled),
            None => future::pending().await,
        }
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        let done = Arc::clone(&self.1);
        let offsets = frontiers.into_iter().map(|(id, to)| (id, to.next_offset));
        let offsets = offsets.collect();
        async move {
            done.lock()
                .expect("unpoisoned")
                .push(Done::Committed(offsets));
            Ok(())
        }
        .boxed()
    }

    fn release(&mut self, partitions: Vec<u32>) {
        self.1
            .lock()
            .expect("unpoisoned")
            .push(Done::Released(partitions));
    }

    fn seek(&mut self, _: u32, _: u64) {}
    fn pause(&mut self, _: u32) {}
    fn resume(&mut self, _: u32) {}
}

/// A worker whose low watermark is 100 s, and a sync of which takes a while.
async fn start() -> (mpsc::UnboundedSender<Polled>, Arc<Mutex<Vec<Done>>>) {
    let (polls, polled) = mpsc::unbounded_channel();
    let done: Arc<Mutex<Vec<Done>>> = Arc::default();
    let (clock, _) = Clock::manual(Micros::new(100_000_000));
    let (after, through) = (Micros::new(0), Micros::new(200_000_000));
    let events = prepared(Window { after, through }).await;
    let (sender, policies) = watch::channel(Arc::new(policy()));
    let ports = Ports {
        log: MemoryLog::new(clock.clone(), 1),
        stores: Stores {
            events,
            rollups: MemoryRollupStore::default(),
            cache: MemoryCache::default(),
        },
        sweep_rollups: MemoryRollupStore::default(),
        watermarks: WatermarkBoard::new(Watermarks::new([(0, Micros::new(100_000_000))])),
        policies,
        clock,
    };
    let consumer = Scripted(polled, Arc::clone(&done));
    tokio::spawn(async move {
        let _sender = sender;
        let ended = quipu_rollup_worker::run(consumer, ports, settings(), future::pending()).await;
        panic!("it ended: {ended:?}");
    });
    (polls, done)
}

fn assigned(partition: u32) -> Polled {
    let start = Committed {
        next_offset: 0,
        effective_time: Micros::MIN,
    };
    Polled::Assigned(vec![Assignment { partition, start }])
}

fn signals(partition: u32, name: &str, last_write: i64) -> Polled {
    let signal = signal(counter(name), Micros::new(last_write));
    let record = Record {
        offset: 0,
        stamp: Stamp::Log(Micros::new(0)),
        body: Body::value(quipu_schemas::signal::encode(&signal)),
    };
    let records = vec![record];
    Polled::Records { partition, records }
}

async fn after(time: Duration, done: &Mutex<Vec<Done>>) -> Vec<Done> {
    tokio::time::sleep(time).await;
    std::mem::take(&mut *done.lock().expect("unpoisoned"))
}

#[tokio::test]
async fn a_revoked_partition_is_released_once_what_was_rolled_up_for_it_is_committed() {
    let (polls, done) = start().await;
    let send = |polled| polls.send(polled).expect("it runs");
    send(assigned(0));
    send(assigned(1));
    send(signals(0, "a", 50_000_000));
    tokio::time::sleep(Duration::from_millis(50)).await;
    send(Polled::Revoked(vec![0]));
    let events = after(Duration::from_millis(900), &done).await;
    assert_eq!(
        events,
        [Done::Committed(vec![(0, 1)]), Done::Released(vec![0])]
    );
    send(signals(1, "b", 50_000_000));
    let events = after(Duration::from_millis(900), &done).await;
    assert_eq!(
        events,
        [Done::Committed(vec![(1, 1)])],
        "the kept one goes on"
    );
}

#[tokio::test]
async fn a_signal_that_cannot_finish_yet_does_not_hold_its_partition_back() {
    let (polls, done) = start().await;
    let send = |polled| polls.send(polled).expect("it runs");
    send(assigned(0));
    // Its window closes after the low watermark: whoever owns the partition next reads it again.
    send(signals(0, "a", 99_000_000));
    tokio::time::sleep(Duration::from_millis(50)).await;
    send(Polled::Revoked(vec![0]));
    let events = after(Duration::from_millis(900), &done).await;
    assert_eq!(events, [Done::Released(vec![0])]);
}
