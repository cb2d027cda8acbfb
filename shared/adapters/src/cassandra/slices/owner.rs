//! The life of slices: CREATING, READY, DROPPING, DROPPED. One owner at a time moves them, and each
//! step may be repeated by the next owner: a table is always made with the id that the catalogue
//! held before, so two that make it make the same (R19).

use super::super::{
    error::{Failure, unreadable},
    lease::Lease,
};
use super::{Catalogue, Slice, Snapshot, catalogue::state_name, dataset::create_table};
use crate::ports::{SliceState, StoreError};
use quipu_core::{slice::SliceId, window::Window};
use scylla::response::PagingState;
use std::time::Duration;
use uuid::Uuid;

/// One window may not ask for more slices than this: each costs every node memory and files.
const MOST_SLICES_AT_ONCE: usize = 100;

/// An owner renews its lease before each slice; a change of the schema takes less than this.
const LEASE: Duration = Duration::from_mins(2);

impl Catalogue {
    /// Makes every slice that touches the window ready; dropped ones stay so. Where somebody else
    /// is making them, [`StoreError::SliceNotReady`] says to ask again.
    pub(in crate::cassandra) async fn prepare(&self, window: Window) -> Result<(), StoreError> {
        let most = MOST_SLICES_AT_ONCE;
        let ids: Vec<_> = self.slicing().touched(window).take(most + 1).collect();
        if ids.len() > most {
            return Err(StoreError::Damaged(format!(
                "events may be so old that more than {most} time slices would have to exist; give \
                 the dataset longer slices, or namespaces a shorter accept_limit"
            )));
        }
        if first_unready(&ids, &*self.usable().await?).is_none() {
            return Ok(());
        }
        let Some(id) = first_unready(&ids, &*self.read().await?) else {
            return Ok(());
        };
        let lease = Lease::new(&self.cassandra, &self.lease_name(), LEASE).await?;
        if !lease.hold().await? {
            return Err(StoreError::SliceNotReady(id));
        }
        let made = self.make(&ids, &lease).await;
        lease.release().await?;
        made
    }

    fn lease_name(&self) -> String {
        format!("slices/{}", self.dataset.name)
    }

    async fn make(&self, ids: &[SliceId], lease: &Lease) -> Result<(), StoreError> {
        while let Some(id) = first_unready(ids, &*self.read().await?) {
            if !lease.hold().await? {
                return Err(StoreError::SliceNotReady(id));
            }
            match self.read().await?.slices.get(&id) {
                Some(slice) => self.create(slice).await?,
                None => self.enter(id, SliceState::Creating).await?,
            }
        }
        Ok(())
    }

    /// Puts a slice into the catalogue, unless it is there.
    async fn enter(&self, id: SliceId, state: SliceState) -> Result<(), StoreError> {
        let shape = self.dataset.shape;
        let bucket = i64::try_from(shape.layout.bucket_length().as_micros());
        let event_buckets = i16::try_from(shape.layout.event_buckets()).map_err(|_| {
            let name = &self.dataset.name;
            StoreError::Damaged(format!(
                "dataset {name} has more than {} event buckets; configure fewer",
                i16::MAX
            ))
        })?;
        let values = (
            self.dataset.name.as_str(),
            id.0,
            state_name(state),
            Uuid::new_v4(),
            self.slicing().start(SliceId(1)).get(),
            bucket.expect("a bucket length fits"),
            event_buckets,
        );
        self.cassandra.compare_and_set(&self.insert, values).await?;
        Ok(())
    }

    async fn create(&self, slice: &Slice) -> Result<(), StoreError> {
        let cql = create_table(&self.dataset.name, slice.id, slice.table_id);
        self.cassandra.change_schema(&cql).await?;
        // Where the table was there already, the driver has not waited.
        let agreed = self.cassandra.session().await_schema_agreement().await;
        agreed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let found = self.table_id(slice.id).await?;
        if found != Some(slice.table_id) {
            let (table, expected) = (self.table(slice.id), slice.table_id);
            return Err(StoreError::Damaged(format!(
                "table {table} has the id {found:?} and the catalogue says {expected}: it was not \
                 made by this catalogue; if it holds nothing you need, drop it"
            )));
        }
        self.change(slice.id, SliceState::Creating, SliceState::Ready)
            .await
    }

    async fn table_id(&self, id: SliceId) -> Result<Option<Uuid>, Failure> {
        let select = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? \
                      AND table_name = ?";
        let select = self.cassandra.prepare(select).await?;
        let keyspace = self.cassandra.settings().keyspace.as_str();
        let values = (keyspace, self.table(id));
        let (rows, _) = self
            .cassandra
            .page(&select, values, PagingState::start())
            .await?;
        let found = rows
            .maybe_first_row::<(Uuid,)>()
            .map_err(|error| unreadable("the id of a table", &error))?;
        Ok(found.map(|(id,)| id))
    }

    async fn change(
        &self,
        id: SliceId,
        from: SliceState,
        to: SliceState,
    ) -> Result<(), StoreError> {
        let values = (
            state_name(to),
            self.dataset.name.as_str(),
            id.0,
            state_name(from),
        );
        // Where another was first the state has moved on, which the next read shows.
        self.cassandra.compare_and_set(&self.update, values).await?;
        Ok(())
    }

    /// Drops a slice with its rows. Those who read or write it by what they know of the catalogue
    /// are waited for, so the table is there for as long as anybody may use it.
    pub(in crate::cassandra) async fn drop_slice(&self, id: SliceId) -> Result<(), StoreError> {
        loop {
            let snapshot = self.read().await?;
            let Some(slice) = snapshot.slices.get(&id) else {
                // Nothing may ever be written to it again: that has to be remembered too.
                self.enter(id, SliceState::Dropped).await?;
                continue;
            };
            match slice.state {
                SliceState::Dropped => return Ok(()),
                SliceState::Creating | SliceState::Ready => {
                    self.change(id, slice.state, SliceState::Dropping).await?;
                }
                SliceState::Dropping => {
                    let settings = self.cassandra.settings();
                    let others_use_it = settings.catalogue_ttl + settings.request_timeout;
                    tokio::time::sleep(others_use_it).await;
                    let cql = format!("DROP TABLE IF EXISTS {{ks}}.{}", self.table(id));
                    self.cassandra.change_schema(&cql).await?;
                    self.change(id, SliceState::Dropping, SliceState::Dropped)
                        .await?;
                }
            }
        }
    }
}

fn first_unready(ids: &[SliceId], known: &Snapshot) -> Option<SliceId> {
    let is_unready = |id: &&SliceId| matches!(known.state(**id), None | Some(SliceState::Creating));
    ids.iter().find(is_unready).copied()
}
