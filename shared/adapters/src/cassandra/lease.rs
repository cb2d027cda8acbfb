//! Leases: what has one owner at a time. A lease ends by the store's own time, so no clock of an
//! owner matters. An owner that is late may still act for a moment: whatever it does must be safe
//! to do twice, and the changes of state are compared and set besides.

use super::{connection::Cassandra, error::Failure};
use crate::ports::StoreError;
use scylla::statement::prepared::PreparedStatement;
use std::time::Duration;
use uuid::Uuid;

/// Takes and gives back the lease of one name, for one owner.
#[derive(Clone, Debug)]
pub struct Lease {
    cassandra: Cassandra,
    name: String,
    owner: Uuid,
    lasts: Duration,
    take: PreparedStatement,
    renew: PreparedStatement,
    release: PreparedStatement,
}

impl Lease {
    /// A lease that nobody has taken yet, or somebody else has.
    ///
    /// # Errors
    /// When the store fails, or was not set up.
    pub async fn new(
        cassandra: &Cassandra,
        name: &str,
        lasts: Duration,
    ) -> Result<Self, StoreError> {
        let take = "UPDATE {ks}.leases USING TTL ? SET owner = ? WHERE name = ? IF owner = null";
        let renew = "UPDATE {ks}.leases USING TTL ? SET owner = ? WHERE name = ? IF owner = ?";
        let release = "DELETE owner FROM {ks}.leases WHERE name = ? IF owner = ?";
        Ok(Self {
            take: cassandra.prepare_serial(take).await?,
            renew: cassandra.prepare_serial(renew).await?,
            release: cassandra.prepare_serial(release).await?,
            cassandra: cassandra.clone(),
            name: name.to_owned(),
            owner: Uuid::new_v4(),
            lasts,
        })
    }

    /// Takes the lease, or makes it last anew. Whether it is held now.
    ///
    /// # Errors
    /// When the store fails; then it may or may not be held.
    pub async fn hold(&self) -> Result<bool, StoreError> {
        let ttl = i32::try_from(self.lasts.as_secs())
            .unwrap_or(i32::MAX)
            .max(1);
        let name = self.name.as_str();
        let values = (ttl, self.owner, name, self.owner);
        let held = self.cassandra.compare_and_set(&self.renew, values).await?
            || self
                .cassandra
                .compare_and_set(&self.take, (ttl, self.owner, name))
                .await?;
        Ok(held)
    }

    /// Gives the lease back. One that is not held stays as it is.
    ///
    /// # Errors
    /// When the store fails; then the lease ends by itself.
    pub async fn release(&self) -> Result<(), StoreError> {
        let values = (self.name.as_str(), self.owner);
        let released: Result<bool, Failure> =
            self.cassandra.compare_and_set(&self.release, values).await;
        released?;
        Ok(())
    }
}
