//! The cache port on Redis.

use super::{
    connect::connect,
    format::{self, STAMP_DIGITS},
    script,
    settings::{RedisSettings, SettingsError},
};
use crate::ports::{Cache, StoreError};
use fred::{
    clients::{Client, WithOptions},
    error::Error,
    interfaces::KeysInterface,
    types::scripts::Script,
};
use futures::{StreamExt, TryStreamExt, stream};
use quipu_core::{checkpoint::Checkpoint, event::CounterKey};
use std::{fmt, sync::Arc, time::Duration};

/// Sets of one call that are under way at once. They share round trips: the client sends what
/// waits together.
const SETS_IN_FLIGHT: usize = 512;

/// Sets a checkpoint unless a newer one is there, in one atomic step (R15). `KEYS`: the key.
/// `ARGV`: the stamp, the count, the time to live in milliseconds. A value that is no checkpoint
/// is replaced.
fn set_if_newer() -> Script {
    Script::from_lua(format!(
        "local old = redis.call('GET', KEYS[1])
        local stamp = old and string.match(old, '^(%d+):')
        if stamp and #stamp == {STAMP_DIGITS} and stamp > ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3])
        return 1"
    ))
}

/// Checkpoints in Redis. Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub struct RedisCache {
    client: WithOptions<Client>,
    script: Script,
    key_prefix: Arc<str>,
    ttl: Duration,
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCache")
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

impl RedisCache {
    /// A cache whose connection is made in the background, and made again whenever it is lost.
    /// Until then every call fails at once. Must be called on a tokio runtime, which drives it.
    ///
    /// # Errors
    /// When a setting cannot be.
    pub fn connect(settings: &RedisSettings) -> Result<Self, SettingsError> {
        Ok(Self {
            client: connect(settings, "the rollup store answers instead")?,
            script: set_if_newer(),
            key_prefix: settings.key_prefix.as_str().into(),
            ttl: settings.ttl,
        })
    }

    /// Whether Redis answers now.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let found = self.client.exists(self.key_prefix.as_ref());
        found
            .await
            .map(|_: u64| ())
            .map_err(|error| unavailable(&error))
    }

    async fn set(&self, counter: CounterKey, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let ttl = self.ttl.as_millis().to_string();
        let key = format::key(&self.key_prefix, &counter);
        let arguments = [format::stamp(&checkpoint), format::count(&checkpoint), ttl];
        let called = script::run::<u64>(&self.client, &self.script, key, arguments).await;
        called.map(|_| ()).map_err(|error| unavailable(&error))
    }
}

impl Cache for RedisCache {
    async fn get(&self, counter: &CounterKey) -> Result<Option<Checkpoint>, StoreError> {
        let key = format::key(&self.key_prefix, counter);
        let value: Option<String> = self
            .client
            .get(key)
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(value.as_deref().and_then(format::parse))
    }

    async fn set_if_newer(
        &self,
        checkpoints: Vec<(CounterKey, Checkpoint)>,
    ) -> Result<(), StoreError> {
        stream::iter(checkpoints)
            .map(|(counter, checkpoint)| self.set(counter, checkpoint))
            .buffer_unordered(SETS_IN_FLIGHT)
            .try_collect()
            .await
    }
}

fn unavailable(error: &Error) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}
