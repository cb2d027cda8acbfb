//! The distinct counters of a slice, in pages (R18).
//!
//! Where each counter has one partition in the slice, the order is that of the partitions' tokens,
//! and a page costs as much as it brings. Where a counter may have many, they lie all over the
//! ring, so a page is picked from a walk over all partitions, in the order of counters; what the
//! walk found beyond the page is kept for the next ones. Such slices are for few counters.

use super::{CassandraEventStore, Statements, namespace_id};
use crate::cassandra::{
    error::{Failure, unreadable},
    slices::Slice,
};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::CounterName,
    slice::{EventBucket, SliceId, TimeBucket},
    window::Window,
};
use scylla::response::{PagingState, query_result::QueryRowsResult};
use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

/// Counters that one walk keeps: with the longest names, 10 MB.
const KEPT: usize = 10_000;

/// What the last walk of each slice found.
#[derive(Clone, Default)]
pub(super) struct Walks(Arc<Mutex<HashMap<SliceId, Arc<Walk>>>>);

/// The first counters after one, in their order.
struct Walk {
    after: Option<CounterKey>,
    counters: BTreeSet<CounterKey>,
    /// Whether there are none behind them.
    is_all: bool,
}

impl CassandraEventStore {
    pub(super) async fn counters_of(
        &self,
        slice: &Slice,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, Failure> {
        let statements = self.statements(slice).await?;
        if let Some(bucket) = self.only_bucket(slice) {
            return self.by_token(&statements, bucket, after, limit).await;
        }
        // A call from the beginning starts a new walk: what an old one found may lack counters
        // that came since.
        let known = after.and_then(|after| self.walks.find(slice.id, after, limit));
        if let Some(walk) = known {
            return Ok(walk.page(after, limit));
        }
        let walk = Arc::new(self.walk(&statements, after, limit.max(KEPT)).await?);
        self.walks.keep(slice.id, &walk);
        Ok(walk.page(after, limit))
    }

    /// The time bucket of a slice whose counters have one partition each.
    fn only_bucket(&self, slice: &Slice) -> Option<TimeBucket> {
        let slicing = self.catalogue.slicing();
        let whole = Window {
            after: slicing.start(slice.id).pred(),
            through: slicing.last(slice.id),
        };
        let mut buckets = slice.layout.touched(whole);
        let first = buckets.next()?;
        let is_only = buckets.next().is_none() && slice.layout.event_buckets() == 1;
        is_only.then_some(first)
    }

    async fn by_token(
        &self,
        statements: &Statements,
        bucket: TimeBucket,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<CounterKey>, Failure> {
        let mut counters = Vec::new();
        let mut from = Some(PagingState::start());
        // Partitions of one token come in an order of their own, those up to `after` first.
        let mut behind = after.is_none();
        while let Some(paging) = from
            && counters.len() < limit
        {
            let (rows, next) = match after {
                None => {
                    self.cassandra
                        .page(&statements.partitions, (), paging)
                        .await?
                }
                Some(after) => {
                    let name = after.name.as_str();
                    let id = namespace_id(after.namespace);
                    let values = (id, name, bucket.0, EventBucket(0).0.cast_signed());
                    self.cassandra
                        .page(&statements.partitions_from, values, paging)
                        .await?
                }
            };
            for counter in decode(&rows)? {
                if behind {
                    counters.push(counter);
                } else {
                    behind = after == Some(&counter);
                }
            }
            from = next;
        }
        if !behind {
            let problem = format!("{after:?} was a counter of the slice and is none now");
            return Err(Failure::Damaged(problem));
        }
        counters.truncate(limit);
        Ok(counters)
    }

    /// Reads every partition of a slice, and keeps the first counters after one.
    async fn walk(
        &self,
        statements: &Statements,
        after: Option<&CounterKey>,
        most: usize,
    ) -> Result<Walk, Failure> {
        let mut walk = Walk {
            after: after.cloned(),
            counters: BTreeSet::new(),
            is_all: true,
        };
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let page = self.cassandra.page(&statements.partitions, (), paging);
            let (rows, next) = page.await?;
            for counter in decode(&rows)? {
                if after.is_none_or(|after| counter > *after) {
                    walk.counters.insert(counter);
                }
                if walk.counters.len() > most {
                    walk.counters.pop_last();
                    walk.is_all = false;
                }
            }
            from = next;
        }
        Ok(walk)
    }
}

impl Walks {
    /// A walk that a page after this counter can be taken from.
    fn find(&self, slice: SliceId, after: &CounterKey, limit: usize) -> Option<Arc<Walk>> {
        let walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let walk = walks.get(&slice)?;
        let starts_before = walk.after.as_ref().is_none_or(|start| start <= after);
        let is_enough = walk.is_all || walk.page(Some(after), limit).len() == limit;
        (starts_before && is_enough).then(|| Arc::clone(walk))
    }

    fn keep(&self, slice: SliceId, walk: &Arc<Walk>) {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sweeps take one slice after the other: what was found of others has served.
        walks.clear();
        walks.insert(slice, Arc::clone(walk));
    }
}

impl Walk {
    fn page(&self, after: Option<&CounterKey>, limit: usize) -> Vec<CounterKey> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let counters = self.counters.range((from, Bound::Unbounded));
        counters.take(limit).cloned().collect()
    }
}

fn decode(rows: &QueryRowsResult) -> Result<Vec<CounterKey>, Failure> {
    let damaged = |problem: &dyn std::fmt::Display| unreadable("a counter of a slice", problem);
    let rows = rows
        .rows::<(i32, &str, i64, i16)>()
        .map_err(|error| damaged(&error))?;
    rows.map(|row| {
        let (id, name, ..) = row.map_err(|error| damaged(&error))?;
        let namespace = NamespaceId(u32::try_from(id).map_err(|error| damaged(&error))?);
        let name = CounterName::new(name).map_err(|error| damaged(&error))?;
        Ok(CounterKey { namespace, name })
    })
    .collect()
}
