//! The calls that are measured, each with what its answer has to be.

use super::{
    grpc::{Connections, Method, framed},
    stream::AddStream,
};
use crate::{
    cluster::{events::counter, installation::NAMESPACE},
    http::Failure,
};
use futures::future::try_join_all;
use jiff::Timestamp;
use prost_types::Timestamp as ProtoTime;
use quipu_schemas::v1::{
    AddCountRequest, AddCountResponse, BatchAddCountRequest, BatchAddCountResponse, BatchAddItem,
    BatchAddResult, BatchGetCountRequest, BatchGetCountResponse, GetCountRequest, GetCountResponse,
    IdempotencyToken, MutationStatus, StreamAddRequest,
};
use std::{
    cell::RefCell,
    fmt::Write,
    time::{Duration, Instant},
};

/// The counters that are read and added to.
pub(super) const COUNTERS: u32 = 10_000;
/// Adds of one batch.
pub(super) const TOGETHER: u32 = 500;
/// Until what was added to every counter is counted.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client of a gateway.
pub(super) struct Calls {
    connections: Connections,
    get: Method,
    add: Method,
    batch_add: Method,
    batch_get: Method,
    streams: Vec<AddStream>,
    /// Messages to be filled again, so that their texts need no new room.
    messages: RefCell<Vec<StreamAddRequest>>,
}

impl Calls {
    /// Opens so many connections to the address of a gateway for gRPC, and a stream on each.
    pub(super) async fn open(address: &str, count: usize) -> Result<Self, Failure> {
        let connections = Connections::open(address, count).await?;
        let streams = (0..count).map(|_| AddStream::open(&connections));
        let streams = try_join_all(streams).await?;
        Ok(Self {
            get: connections.method("GetCount")?,
            add: connections.method("AddCount")?,
            batch_add: connections.method("BatchAddCount")?,
            batch_get: connections.method("BatchGetCount")?,
            connections,
            streams,
            messages: RefCell::default(),
        })
    }

    /// Reads a counter, which must have this count.
    pub(super) async fn get(&self, number: u64, expected: i64) -> Result<(), Failure> {
        let message = framed(&GetCountRequest {
            namespace: NAMESPACE.to_owned(),
            counter_name: counter(drawn(number)),
            min_freshness: None,
        })?;
        let answer: GetCountResponse = self.connections.call(&self.get, message).await?;
        if answer.count == expected {
            return Ok(());
        }
        Err(format!("a count is {} instead of {expected}", answer.count).into())
    }

    /// Adds to a counter of a namespace.
    pub(super) async fn add(&self, namespace: &str, number: u64) -> Result<(), Failure> {
        let message = framed(&AddCountRequest {
            namespace: namespace.to_owned(),
            counter_name: counter(drawn(number)),
            delta: 1,
            idempotency_token: Some(IdempotencyToken {
                token: token(number),
                generation_time: Some(now()),
            }),
            item_key: String::new(),
        })?;
        let answer: AddCountResponse = self.connections.call(&self.add, message).await?;
        check_accepted(answer.status())
    }

    /// Adds a batch in a call of its own.
    pub(super) async fn batch_add(&self, number: u64) -> Result<(), Failure> {
        let StreamAddRequest {
            sequence,
            namespace,
            items,
        } = self.message(number);
        let batch = BatchAddCountRequest { namespace, items };
        let message = framed(&batch)?;
        self.messages.borrow_mut().push(StreamAddRequest {
            sequence,
            namespace: batch.namespace,
            items: batch.items,
        });
        let answer: BatchAddCountResponse = self.connections.call(&self.batch_add, message).await?;
        check_all_accepted(&answer.results)
    }

    /// Adds a batch as a message of a stream.
    pub(super) async fn stream_add(&self, number: u64) -> Result<(), Failure> {
        let batch = self.message(number);
        let message = framed(&batch)?;
        self.messages.borrow_mut().push(batch);
        let stream = usize::try_from(number)? % self.streams.len();
        let answer = self.streams[stream].call(number, message).await?;
        match answer.error {
            None => check_all_accepted(&answer.results),
            Some(error) => Err(format!("a batch was not accepted: {}", error.message).into()),
        }
    }

    /// Waits until every counter has this count.
    pub(super) async fn wait_for_counts(&self, expected: i64) -> Result<(), Failure> {
        let began = Instant::now();
        let mut from = 0;
        while from < COUNTERS {
            let names = from..COUNTERS.min(from + TOGETHER);
            let message = framed(&BatchGetCountRequest {
                namespace: NAMESPACE.to_owned(),
                counter_names: names.clone().map(counter).collect(),
            })?;
            let answer: BatchGetCountResponse =
                self.connections.call(&self.batch_get, message).await?;
            if answer.results.iter().all(|result| result.count == expected) {
                from = names.end;
            } else if began.elapsed() > PATIENCE {
                return Err(format!("counts do not become {expected}").into());
            } else {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// The `number`-th batch: one add to each of as many counters, one after the other.
    fn message(&self, number: u64) -> StreamAddRequest {
        let used = self.messages.borrow_mut().pop();
        let mut message = used.unwrap_or_else(|| StreamAddRequest {
            sequence: 0,
            namespace: NAMESPACE.to_owned(),
            items: vec![BatchAddItem::default(); TOGETHER as usize],
        });
        message.sequence = number;
        let time = now();
        let first = number * u64::from(TOGETHER);
        for (number, item) in (first..).zip(&mut message.items) {
            item.counter_name.clear();
            item.delta = 1;
            let drawn = number % u64::from(COUNTERS);
            write_in(&mut item.counter_name, format_args!("counter-{drawn}"));
            let made = item.idempotency_token.get_or_insert_default();
            made.token.clear();
            write_in(&mut made.token, format_args!("{:016x}", scattered(number)));
            made.generation_time = Some(time);
        }
        message
    }
}

fn write_in(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what)
        .expect("text can be written to a string");
}

/// As long as tokens of 64 random bits, and as scattered.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn token(number: u64) -> String {
    format!("{:016x}", scattered(number))
}

/// A counter that seems to be any of them.
pub(super) fn drawn(number: u64) -> u32 {
    let drawn = (scattered(number) >> 32) % u64::from(COUNTERS);
    u32::try_from(drawn).expect("there are fewer counters")
}

fn now() -> ProtoTime {
    let now = Timestamp::now();
    ProtoTime {
        seconds: now.as_second(),
        nanos: now.subsec_nanosecond(),
    }
}

fn check_accepted(status: MutationStatus) -> Result<(), Failure> {
    if status == MutationStatus::Accepted {
        return Ok(());
    }
    Err(format!("an add was not accepted: {status:?}").into())
}

fn check_all_accepted(results: &[BatchAddResult]) -> Result<(), Failure> {
    if results.len() != TOGETHER as usize {
        return Err(format!("{} results of {TOGETHER}", results.len()).into());
    }
    for result in results {
        if let Some(error) = &result.error {
            return Err(format!("an add was not accepted: {}", error.message).into());
        }
        check_accepted(result.status())?;
    }
    Ok(())
}
