//! Calls that keep coming at their pace, whether earlier ones are answered or not.

use super::tally::Tally;
use crate::{
    cluster::{
        batch::{self, TOGETHER},
        installation::NAMESPACE,
    },
    freshness::{COUNTERS, PER_SECOND},
    http::{Client, Failure},
};
use bytes::Bytes;
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::MissedTickBehavior};

/// After so long a call's outcome is unknown. With the pace it bounds the calls under way, to fewer
/// than the gateway takes connections.
const PATIENCE: Duration = Duration::from_secs(5);
/// There is a read for so many batches.
const BATCHES_A_READ: u64 = 5;

/// Calls to a gateway, and what became of them.
pub(super) struct Load {
    http: String,
    idle: Mutex<Vec<Client>>,
    tally: Mutex<Tally>,
}

impl Load {
    pub(super) fn new(http: &str) -> Self {
        Self {
            http: http.to_owned(),
            idle: Mutex::default(),
            tally: Mutex::new(Tally::new()),
        }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }

    /// Adds and reads at their pace, until all calls begun by then have an outcome.
    pub(super) async fn run(self: Arc<Self>, until: Instant) -> Result<(), Failure> {
        let mut pace =
            tokio::time::interval(Duration::from_micros(1_000_000 * TOGETHER / PER_SECOND));
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut under_way = JoinSet::new();
        let mut batch = 0;
        while Instant::now() < until {
            pace.tick().await;
            under_way.spawn(Arc::clone(&self).add(batch));
            if batch % BATCHES_A_READ == 0 {
                under_way.spawn(Arc::clone(&self).read(batch % COUNTERS));
            }
            while let Some(done) = under_way.try_join_next() {
                done?;
            }
            batch += 1;
        }
        while let Some(done) = under_way.join_next().await {
            done?;
        }
        Ok(())
    }

    async fn add(self: Arc<Self>, batch: u64) {
        let generated = Timestamp::now();
        let answer = self.send(batch, generated).await;
        self.tally().answered(batch, generated, answer.as_ref());
    }

    /// The answer to a batch, if there was one.
    pub(super) async fn send(&self, batch: u64, generated: Timestamp) -> Option<Value> {
        let body = batch::body(batch, generated);
        let (_, body) = self.ask("POST", &batch::path(), body).await?;
        serde_json::from_slice(&body).ok()
    }

    async fn read(self: Arc<Self>, counter: u64) {
        let answered = self.get(counter).await.is_some();
        let totals = &mut self.tally().totals;
        if answered {
            totals.read += 1;
        } else {
            totals.unread += 1;
        }
    }

    /// The answer to a read, if it was answered well.
    pub(super) async fn get(&self, counter: u64) -> Option<Value> {
        let path = format!("/v1/namespaces/{NAMESPACE}/counters/c{counter}");
        let (status, body) = self.ask("GET", &path, String::new()).await?;
        let body = status.is_success().then_some(body)?;
        serde_json::from_slice(&body).ok()
    }

    /// The answer to a call, if there was one in time. A connection without one is not used again.
    async fn ask(&self, method: &str, path: &str, body: String) -> Option<(StatusCode, Bytes)> {
        let asked = async {
            let idle = locked(&self.idle).pop().filter(|idle| !idle.is_closed());
            let mut client = match idle {
                Some(client) => client,
                None => Client::connect(&self.http).await?,
            };
            let answer = client.ask(method, path, body).await?;
            locked(&self.idle).push(client);
            Ok::<_, Failure>(answer)
        };
        tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
