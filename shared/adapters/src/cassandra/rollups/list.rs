//! The counters of a namespace, in the order of their partitions' tokens. They lie all over the ring
//! among those of other namespaces, so a page reads a part of all of them.

use super::super::{
    connection::Cassandra,
    error::{Failure, unreadable},
};
use crate::{
    listing::{EXAMINED, Listing},
    ports::{CounterPage, ListPosition},
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::CounterName,
};
use scylla::{response::PagingState, statement::prepared::PreparedStatement};

pub(super) struct ListStatement(PreparedStatement);

type Columns<'a> = (i64, i32, &'a str, Option<&'a [u8]>);

impl ListStatement {
    pub(super) async fn prepare(cassandra: &Cassandra) -> Result<Self, Failure> {
        let select = "SELECT token(namespace_id, counter_name), namespace_id, counter_name, \
                      checkpoint FROM {ks}.rollups \
                      WHERE token(namespace_id, counter_name) >= ? LIMIT ?";
        Ok(Self(cassandra.prepare(select).await?))
    }

    pub(super) async fn page(
        &self,
        cassandra: &Cassandra,
        namespace: NamespaceId,
        from: ListPosition,
        limit: usize,
    ) -> Result<CounterPage, Failure> {
        let mut listing = Listing::new(namespace, from, limit);
        // One more than is looked at: whether the list goes on is known without another call.
        let rows = i32::try_from(from.passed)
            .unwrap_or(i32::MAX)
            .saturating_add(i32::try_from(EXAMINED).expect("a small number"))
            .saturating_add(1);
        let mut paging = Some(PagingState::start());
        while let Some(start) = paging {
            let (page, next) = cassandra.page(&self.0, (from.at, rows), start).await?;
            let damaged = |problem: &dyn std::fmt::Display| unreadable("a rollup", problem);
            let rows = page
                .rows::<Columns<'_>>()
                .map_err(|error| damaged(&error))?;
            for row in rows {
                if listing.is_full() {
                    return Ok(listing.and_more());
                }
                let (at, id, name, checkpoint) = row.map_err(|error| damaged(&error))?;
                let namespace = NamespaceId(u32::try_from(id).map_err(|error| damaged(&error))?);
                let name = CounterName::new(name).map_err(|error| damaged(&error))?;
                listing.examine(at, CounterKey { namespace, name }, checkpoint.is_some());
            }
            paging = next;
        }
        Ok(listing.last())
    }
}
