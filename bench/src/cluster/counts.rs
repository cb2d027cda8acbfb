//! Counts as they are cached in Redis, compared with what was published.

use super::{
    events::counter,
    installation::{Installation, NAMESPACE},
    redis,
};
use crate::http::Failure;
use fred::{
    clients::Client,
    interfaces::{ClientLike, KeysInterface},
};
use scylla::client::session::Session;
use std::time::{Duration, Instant};

/// Counters that one read asks for.
const TOGETHER: usize = 1_000;
/// Without a further exact count for this long, something is broken.
const PATIENCE: Duration = Duration::from_mins(5);

/// Reads the counts of an installation.
pub(super) struct Counts {
    redis: Client,
    /// What the key of a counter begins with.
    prefix: String,
}

impl Counts {
    pub(super) async fn open(
        installation: &Installation<'_>,
        cassandra: &Session,
    ) -> Result<Self, Failure> {
        let config = redis::config(&installation.stack.redis)?;
        let redis = Client::new(config, None, None, None);
        redis.init().await?;
        let namespace = namespace_id(installation, cassandra).await?;
        let prefix = format!("{}{{}}:{namespace}:", installation.name);
        Ok(Self { redis, prefix })
    }

    /// Returns once every counter's count is exact. Nothing is published meanwhile, so a count
    /// that is exact once remains so.
    pub(super) async fn wait_until_exact(&self, expected: &[u64]) -> Result<(), Failure> {
        let written = (0..).zip(expected).filter(|(_, count)| **count > 0);
        let written: Vec<(u32, u64)> = written.map(|(number, count)| (number, *count)).collect();
        for part in written.chunks(TOGETHER) {
            let mut left = part.to_vec();
            let mut moved = Instant::now();
            loop {
                let before = left.len();
                self.drop_exact(&mut left).await?;
                let Some((number, count)) = left.first() else {
                    break;
                };
                if left.len() < before {
                    moved = Instant::now();
                } else if moved.elapsed() > PATIENCE {
                    let name = counter(*number);
                    return Err(format!("{name} is not {count}, and does not change").into());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    async fn drop_exact(&self, left: &mut Vec<(u32, u64)>) -> Result<(), Failure> {
        let keys = left
            .iter()
            .map(|(number, _)| self.prefix.clone() + &counter(*number));
        let keys: Vec<String> = keys.collect();
        let values: Vec<Option<String>> = self.redis.mget(keys).await?;
        let mut values = values.into_iter();
        left.retain(|(_, expected)| {
            // The count stands behind the time that it is complete through.
            let value = values.next().flatten();
            let count = value.as_deref().and_then(|value| value.split_once(':'));
            count.is_none_or(|(_, count)| count != expected.to_string())
        });
        Ok(())
    }
}

/// The number that keys have in the place of the namespace's name.
async fn namespace_id(
    installation: &Installation<'_>,
    cassandra: &Session,
) -> Result<i32, Failure> {
    let keyspace = &installation.name;
    let select =
        format!("SELECT namespace_id FROM {keyspace}.policies WHERE book = 0 AND namespace = ?");
    let found = cassandra.query_unpaged(select, (NAMESPACE,)).await?;
    let (id,) = found.into_rows_result()?.first_row::<(i32,)>()?;
    Ok(id)
}
