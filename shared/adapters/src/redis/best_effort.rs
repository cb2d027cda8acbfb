//! Best-effort counters on Redis.

use super::{
    connect::connect,
    format, script,
    settings::{RedisSettings, SettingsError},
};
use crate::ports::{BestEffort, BestEffortError, BestEffortResult};
use fred::{
    clients::{Client, WithOptions},
    error::Error,
    interfaces::KeysInterface,
    types::scripts::Script,
};
use futures::{FutureExt, future::BoxFuture};
use quipu_core::event::CounterKey;
use std::{fmt, time::Duration};

/// Adds, and lets the counter live for its time anew, in one atomic step. `KEYS`: the key. `ARGV`: the
/// delta, the time to live in milliseconds. It returns the text of the sum: a Lua number is a double,
/// and would lose the last digits. A sum beyond 64 bits ends it before anything is changed.
const ADD: &str = "redis.call('INCRBY', KEYS[1], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return redis.call('GET', KEYS[1])";

/// Counters in Redis, and copies of them in others that a delete must reach.
pub struct RedisBestEffort {
    client: WithOptions<Client>,
    replicas: Vec<WithOptions<Client>>,
    add: Script,
    key_prefix: String,
}

impl fmt::Debug for RedisBestEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBestEffort")
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

impl RedisBestEffort {
    /// Counters whose connections are made in the background, and made again whenever they are
    /// lost. Until then every call fails at once. Must be called on a tokio runtime, which drives
    /// them.
    ///
    /// # Errors
    /// When a setting cannot be.
    pub fn connect(settings: &RedisSettings) -> Result<Self, SettingsError> {
        let replicas = settings.replicas.iter().map(|address| {
            let replica = RedisSettings {
                address: address.clone(),
                replicas: Vec::new(),
                ..settings.clone()
            };
            connect(&replica, "best-effort counters cannot be cleared")
        });
        Ok(Self {
            replicas: replicas.collect::<Result<_, _>>()?,
            client: connect(settings, "best-effort counters cannot be used")?,
            add: Script::from_lua(ADD),
            key_prefix: settings.key_prefix.clone(),
        })
    }

    fn key(&self, counter: &CounterKey) -> String {
        format::best_effort_key(&self.key_prefix, counter)
    }

    async fn delete_everywhere(&self, counter: &CounterKey) -> BestEffortResult<()> {
        let clients = self.replicas.iter().chain([&self.client]);
        let deleted = clients.map(|client| client.del::<u64, _>(self.key(counter)));
        // All are asked, also when one fails: what is gone need not be cleared again.
        let deleted = futures::future::join_all(deleted).await;
        deleted
            .into_iter()
            .try_for_each(|one| one.map(|_| ()).map_err(|error| explain(&error)))
    }
}

impl BestEffort for RedisBestEffort {
    fn add<'a>(
        &'a self,
        counter: &'a CounterKey,
        delta: i64,
        ttl: Duration,
    ) -> BoxFuture<'a, BestEffortResult<i64>> {
        let arguments = [delta.to_string(), ttl.as_millis().to_string()];
        let sum = async move {
            let key = self.key(counter);
            let sum = script::run::<String>(&self.client, &self.add, key, arguments).await;
            count(&sum.map_err(|error| explain(&error))?)
        };
        sum.boxed()
    }

    fn get<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<Option<i64>>> {
        let read = async move {
            let read = self.client.get::<Option<String>, _>(self.key(counter));
            let read = read.await.map_err(|error| explain(&error))?;
            read.as_deref().map(count).transpose()
        };
        read.boxed()
    }

    fn delete<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<()>> {
        self.delete_everywhere(counter).boxed()
    }
}

fn count(text: &str) -> BestEffortResult<i64> {
    let parsed = text.parse();
    parsed.map_err(|_| BestEffortError::Damaged(format!("{text:?} is no 64-bit integer")))
}

/// What an error of Redis means, which it says in words only.
fn explain(error: &Error) -> BestEffortError {
    let details = error.details();
    if details.contains("increment or decrement would overflow") {
        BestEffortError::OutOfRange
    } else if details.contains("not an integer") || details.starts_with("WRONGTYPE") {
        BestEffortError::Damaged(details.to_owned())
    } else {
        BestEffortError::Unavailable(format!("Redis: {error}"))
    }
}
