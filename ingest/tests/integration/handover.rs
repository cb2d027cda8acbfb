//! Partitions that are taken away while work of theirs is under way.

use crate::fixtures::{assignment, settings, store};
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::{
    clock::Clock,
    ports::{
        Appended, Body, Committed, Consumer, LogError, NewRecord, Polled, Producer, Record, Stamp,
        Topic,
    },
    watermarks::WatermarkBoard,
};
use quipu_core::{policy::PolicyBook, time::Micros, watermark::Watermarks};
use quipu_ingest::{Ports, Settings};
use std::{
    future,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc, watch};

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

/// Takes a dead letter for each permit.
#[derive(Clone, Debug)]
struct Gated(Arc<Semaphore>);

impl Producer for Gated {
    fn partitions(&self, _: Topic) -> u32 {
        1
    }

    async fn append(&self, topic: Topic, _: Vec<NewRecord>) -> Result<Vec<Appended>, LogError> {
        if topic == Topic::DeadLetters {
            self.0.acquire().await.expect("it stays open").forget();
        }
        Ok(Vec::new())
    }
}

struct Running {
    polls: mpsc::UnboundedSender<Polled>,
    done: Arc<Mutex<Vec<Done>>>,
    gate: Arc<Semaphore>,
    board: WatermarkBoard,
}

fn start() -> Running {
    let (polls, polled) = mpsc::unbounded_channel();
    let (done, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let board = WatermarkBoard::new(Watermarks::new([(0, Micros::MIN), (1, Micros::MIN)]));
    let settings = Settings {
        linger: Duration::from_millis(1),
        in_flight: 4,
        ..settings()
    };
    let (clock, _) = Clock::manual(Micros::new(1_000));
    let (sender, policies) = watch::channel(Arc::new(PolicyBook::new([], Micros::MAX)));
    let ports = Ports {
        log: Gated(Arc::clone(&gate)),
        events: store(),
        watermarks: board.clone(),
        policies,
        clock,
    };
    let consumer = Scripted(polled, Arc::clone(&done));
    tokio::spawn(async move {
        let _sender = sender;
        let ended = quipu_ingest::run(consumer, ports, settings, future::pending()).await;
        panic!("it ended: {ended:?}");
    });
    Running {
        polls,
        done,
        gate,
        board,
    }
}

impl Running {
    fn send(&self, polled: Polled) {
        self.polls.send(polled).expect("it runs");
    }

    fn assign(&self, partition: u32) {
        self.send(Polled::Assigned(vec![assignment(partition)]));
    }

    fn garbage(&self, partition: u32, offsets: impl IntoIterator<Item = u64>) {
        let record = |offset| Record {
            offset,
            stamp: Stamp::Log(Micros::new(100)),
            body: Body::value("no event"),
        };
        let records = offsets.into_iter().map(record).collect();
        self.send(Polled::Records { partition, records });
    }

    async fn settle(&self) -> Vec<Done> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::mem::take(&mut *self.done.lock().expect("unpoisoned"))
    }
}

#[tokio::test]
async fn a_revoked_partition_is_released_once_all_of_it_is_committed_and_the_kept_one_goes_on() {
    let running = start();
    running.assign(0);
    running.assign(1);
    running.garbage(0, [0, 1]);
    running.send(Polled::Revoked(vec![0]));
    assert_eq!(running.settle().await, [], "a batch of it is under way");
    running.garbage(1, [7]);
    running.gate.add_permits(1);
    let expected = [Done::Committed(vec![(0, 2)]), Done::Released(vec![0])];
    assert_eq!(running.settle().await, expected);
    running.gate.add_permits(1);
    assert_eq!(running.settle().await, [Done::Committed(vec![(1, 8)])]);
    assert_eq!(running.board.low(), Micros::new(100));
}

#[tokio::test]
async fn a_revoked_partition_of_which_nothing_is_under_way_is_released_at_once() {
    let running = start();
    running.assign(0);
    running.send(Polled::Revoked(vec![0]));
    assert_eq!(running.settle().await, [Done::Released(vec![0])]);
}

#[tokio::test]
async fn work_of_a_lost_partition_changes_nothing_not_even_when_it_is_owned_again() {
    let running = start();
    running.assign(0);
    running.garbage(0, [0, 1, 2]);
    assert_eq!(running.settle().await, []);
    running.send(Polled::Lost(vec![0]));
    running.assign(0);
    running.garbage(0, [0, 1]);
    assert_eq!(running.settle().await, []);
    running.gate.add_permits(1);
    assert_eq!(
        running.settle().await,
        [],
        "the first batch belongs to nobody"
    );
    running.gate.add_permits(1);
    assert_eq!(running.settle().await, [Done::Committed(vec![(0, 2)])]);
}
