//! Clients that add and clear at random, and retry with the same token until they know.

use crate::{
    http::{Api, counter_path, reading},
    judge::{judge, judge_result},
    ledger::{Answer, Entry, Ledger, Mutation, Shown},
    process::Server,
};
use fastrand::Rng;
use quipu_adapters::clock::Clock;
use quipu_core::time::Micros;
use quipu_schemas::{timestamp, v1, v1::counter_client::CounterClient};
use serde_json::json;
use std::{
    collections::VecDeque,
    env,
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const COUNTERS: usize = 50;
const CLIENTS: usize = 4;

/// The seed of this run: of `QUIPU_TEST_SEED`, or a new one. It decides what is done, and the
/// machine when, so a replay is similar and not the same.
pub(crate) fn seed() -> u64 {
    let given = env::var("QUIPU_TEST_SEED").ok();
    let seed = given.map_or_else(
        || fastrand::u64(..),
        |text| text.parse().expect("QUIPU_TEST_SEED is a number"),
    );
    eprintln!("to replay: QUIPU_TEST_SEED={seed}");
    seed
}

/// Where the server is now. It may be away.
pub(crate) struct Address(RwLock<(String, String)>);

impl Address {
    pub(crate) fn new(server: &Server) -> Self {
        Self(RwLock::new((server.http.clone(), server.grpc.clone())))
    }

    /// The server was started anew.
    pub(crate) fn set(&self, server: &Server) {
        *self.0.write().expect("no holder panics") = (server.http.clone(), server.grpc.clone());
    }

    fn get(&self) -> (String, String) {
        self.0.read().expect("no holder panics").clone()
    }
}

/// Runs clients in a namespace until `chaos` returns and every call has a definitive answer.
pub(crate) fn under_load(
    namespace: &str,
    seed: u64,
    address: &Address,
    chaos: impl FnOnce(&mut Rng),
) -> Ledger {
    let stop = &AtomicBool::new(false);
    let mut ledger = Ledger {
        namespace: namespace.to_owned(),
        ..Ledger::default()
    };
    scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(namespace, seed, number, address);
                scope.spawn(move || client.run(stop))
            })
            .collect();
        let mut rng = Rng::with_seed(seed);
        let stopping = StopOnDrop(stop);
        chaos(&mut rng);
        drop(stopping);
        for client in clients {
            let (entries, shown) = client.join().expect("the client's own panic is above");
            ledger.entries.extend(entries);
            ledger.shown.extend(shown);
        }
    });
    eprintln!(
        "{} events: {} accepted, {} already applied, {} late, {} unsettled; {} reads",
        ledger.entries.len(),
        ledger.heard(Answer::Accepted),
        ledger.heard(Answer::AlreadyApplied),
        ledger.heard(Answer::Late),
        ledger.heard(Answer::Unsettled),
        ledger.shown.len()
    );
    ledger
}

/// A test that fails stops its clients, too.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Client<'a> {
    namespace: &'a str,
    name: String,
    address: &'a Address,
    rng: Rng,
    clock: Clock,
    http: (String, Api),
    grpc: Option<(String, CounterClient<tonic::transport::Channel>)>,
    runtime: Runtime,
    entries: Vec<Entry>,
    shown: Vec<Shown>,
    /// Entries that were settled and are sent again later, all the same.
    again: VecDeque<(Instant, usize)>,
}

impl<'a> Client<'a> {
    fn new(namespace: &'a str, seed: u64, number: usize, address: &'a Address) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let base = address.get().0;
        Self {
            namespace,
            name: format!("{seed:x}-{number}"),
            address,
            rng: Rng::with_seed(seed.wrapping_add(1 + number as u64)),
            clock: Clock::system(),
            http: (base.clone(), Api::new(&base)),
            grpc: None,
            runtime: runtime.expect("a runtime"),
            entries: Vec::new(),
            shown: Vec::new(),
            again: VecDeque::new(),
        }
    }

    fn run(mut self, stop: &AtomicBool) -> (Vec<Entry>, Vec<Shown>) {
        while !stop.load(Ordering::Relaxed) {
            match self.rng.u8(..100) {
                0..15 => self.look(),
                15..30 => {
                    let first = self.entries.len();
                    for _ in 0..self.rng.usize(1..20) {
                        self.write_down();
                    }
                    self.settle((first..self.entries.len()).collect());
                }
                _ => {
                    let entry = self.write_down();
                    self.settle(vec![entry]);
                }
            }
            while let Some((due, entry)) = self.again.front().copied() {
                if due > Instant::now() {
                    break;
                }
                self.again.pop_front();
                self.settle(vec![entry]);
            }
            sleep(Duration::from_micros(self.rng.u64(..4_000)));
        }
        (self.entries, self.shown)
    }

    /// Makes a mutation up, and notes it before anything is sent.
    fn write_down(&mut self) -> usize {
        let number = self.entries.len();
        let now = self.clock.now().get();
        let time = match self.rng.u8(..100) {
            // Some are about as old as the limit, or too old; some are ahead.
            0..8 => now - self.rng.i64(0..6_000_000),
            8..12 => now + self.rng.i64(0..800_000),
            12..20 => self.entries.last().map_or(now, |entry| entry.time.get()),
            _ => now,
        };
        let mutation = match self.rng.u8(..100) {
            0..3 => Mutation::Clear,
            3..20 => Mutation::Add(-self.rng.i64(0..1 << 40)),
            _ => Mutation::Add(self.rng.i64(0..1 << 40)),
        };
        self.entries.push(Entry {
            counter: format!("c/{}", self.rng.usize(..COUNTERS)),
            token: format!("{}-{number}", self.name),
            time: Micros::new(time),
            item_key: if self.rng.bool() { "" } else { "a" },
            mutation,
            answers: Vec::new(),
        });
        number
    }

    /// Sends until every one has a definitive answer, and some of them once more.
    fn settle(&mut self, entries: Vec<usize>) {
        let mut open = entries.clone();
        let started = Instant::now();
        while !open.is_empty() {
            let answers = self.send(&open);
            assert_eq!(answers.len(), open.len(), "one answer for each");
            for (entry, answer) in open.iter().zip(&answers) {
                self.entries[*entry].answers.push(*answer);
            }
            let mut answers = answers.iter();
            open.retain(|_| answers.next() == Some(&Answer::Unsettled));
            if !open.is_empty() {
                assert!(
                    started.elapsed() < Duration::from_mins(2),
                    "never settled: {:?}",
                    self.entries[open[0]]
                );
                sleep(Duration::from_millis(self.rng.u64(10..60)));
            }
        }
        match self.rng.u8(..100) {
            0..10 => self.settle(entries),
            10..18 => {
                let due = Instant::now() + Duration::from_millis(self.rng.u64(500..3_000));
                self.again.extend(entries.iter().map(|entry| (due, *entry)));
            }
            _ => {}
        }
    }

    /// One attempt, by any call that does it.
    fn send(&mut self, entries: &[usize]) -> Vec<Answer> {
        let (http, grpc) = self.address.get();
        if self.http.0 != http {
            self.http = (http.clone(), Api::new(&http));
        }
        let adds_only = entries
            .iter()
            .all(|entry| self.entries[*entry].mutation != Mutation::Clear);
        match (adds_only, entries.len() > 1 || self.rng.u8(..10) == 0) {
            (true, true) if self.rng.bool() => self.batch_over_grpc(&grpc, entries),
            (true, true) => self.batch_over_http(entries),
            _ => entries.iter().map(|entry| self.single(*entry)).collect(),
        }
    }

    fn single(&mut self, entry: usize) -> Answer {
        let entry = &self.entries[entry];
        let mut body = json!({"idempotency_token": entry.token_json(), "item_key": entry.item_key});
        let call = match entry.mutation {
            Mutation::Clear => ":clear",
            Mutation::Add(delta) => {
                body["delta"] = delta.to_string().into();
                if self.rng.u8(..10) == 0 {
                    ":addAndGet"
                } else {
                    ":add"
                }
            }
        };
        let path = counter_path(self.namespace, &entry.counter) + call;
        let Ok((_, answer)) = self.http.1.post(&path, &body) else {
            return Answer::Unsettled;
        };
        if answer.get("count").is_some() {
            let (count, through) = reading(&answer);
            let counter = entry.counter.clone();
            self.shown.push(Shown {
                counter,
                count,
                through,
            });
        }
        judge(&answer)
    }

    fn batch_over_http(&mut self, entries: &[usize]) -> Vec<Answer> {
        let items: Vec<_> = entries
            .iter()
            .map(|entry| {
                let entry = &self.entries[*entry];
                let Mutation::Add(delta) = entry.mutation else {
                    unreachable!("a batch adds")
                };
                json!({
                    "counter_name": entry.counter,
                    "delta": delta,
                    "item_key": entry.item_key,
                    "idempotency_token": entry.token_json(),
                })
            })
            .collect();
        let path = format!("/v1/namespaces/{}/counters:batchAdd", self.namespace);
        match self.http.1.post(&path, &json!({ "items": items })) {
            Ok((200, answer)) => answer["results"]
                .as_array()
                .expect("a batch has results")
                .iter()
                .map(judge)
                .collect(),
            Ok((_, answer)) => vec![judge(&answer); entries.len()],
            Err(_) => vec![Answer::Unsettled; entries.len()],
        }
    }

    fn batch_over_grpc(&mut self, url: &str, entries: &[usize]) -> Vec<Answer> {
        let items = entries.iter().map(|entry| {
            let entry = &self.entries[*entry];
            let Mutation::Add(delta) = entry.mutation else {
                unreachable!("a batch adds")
            };
            v1::BatchAddItem {
                counter_name: entry.counter.clone(),
                delta,
                idempotency_token: Some(v1::IdempotencyToken {
                    token: entry.token.clone(),
                    generation_time: Some(timestamp::to_proto(entry.time)),
                }),
                item_key: entry.item_key.to_owned(),
            }
        });
        let request = v1::BatchAddCountRequest {
            namespace: self.namespace.to_owned(),
            items: items.collect(),
        };
        let answer = self.runtime.block_on(async {
            let mut client = match self.grpc.take() {
                Some((connected, client)) if connected == url => client,
                _ => CounterClient::connect(url.to_owned()).await.ok()?,
            };
            let call =
                tokio::time::timeout(Duration::from_secs(20), client.batch_add_count(request));
            let answer = call.await.ok()?;
            self.grpc = Some((url.to_owned(), client));
            Some(answer)
        });
        match answer {
            None => vec![Answer::Unsettled; entries.len()],
            Some(Ok(response)) => response
                .into_inner()
                .results
                .iter()
                .map(judge_result)
                .collect(),
            Some(Err(status)) => {
                // One that was made here, of a connection that broke, has a source.
                let open = [tonic::Code::Unavailable, tonic::Code::DeadlineExceeded];
                let broken =
                    std::error::Error::source(&status).is_some() || open.contains(&status.code());
                assert!(broken, "{status:?}");
                vec![Answer::Unsettled; entries.len()]
            }
        }
    }

    fn look(&mut self) {
        let counter = format!("c/{}", self.rng.usize(..COUNTERS));
        let path = counter_path(self.namespace, &counter);
        if let Ok((200, answer)) = self.http.1.get(&path) {
            let (count, through) = reading(&answer);
            self.shown.push(Shown {
                counter,
                count,
                through,
            });
        }
    }
}
