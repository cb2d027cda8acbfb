//! Ranges of rows, merged into the total order, and each event once.

use super::super::{
    database::{store_error, unreadable},
    keys,
};
use crate::ports::StoreError;
use fjall::{Iter, Keyspace, KvPair, UserKey};
use quipu_core::{
    event::StoredEvent,
    slice::{EventBucket, SliceLayout, TimeBucket},
    window::Window,
};
use std::ops::{Bound, ControlFlow};
use tokio::task;

/// A scan lets others run after this many rows, about half a millisecond.
const ROWS_AT_A_TIME: usize = 1_024;

/// The keys of a counter in these time buckets, in one event bucket, in a window.
pub(super) fn bounds(
    counter: &[u8],
    buckets: std::ops::RangeInclusive<TimeBucket>,
    event_bucket: EventBucket,
    window: Window,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let at = |bucket, time| {
        let mut key = Vec::with_capacity(counter.len() + 24);
        key.extend_from_slice(counter);
        keys::put_bucket(&mut key, bucket, event_bucket);
        keys::put_event_time(&mut key, time);
        key
    };
    let first = at(*buckets.start(), window.after.succ());
    let mut end = at(*buckets.end(), window.through);
    // Behind the time stands a token, and no UTF-8 holds this byte.
    end.push(0xFF);
    (Bound::Included(first), Bound::Excluded(end))
}

pub(super) fn merged_sources(
    rows: &Keyspace,
    counter: &[u8],
    layout: SliceLayout,
    bucket: TimeBucket,
    window: Window,
) -> Result<Vec<Source>, StoreError> {
    let source = |event_bucket| {
        let mut start = counter.to_vec();
        keys::put_bucket(&mut start, bucket, event_bucket);
        let bounds = bounds(counter, bucket..=bucket, event_bucket, window);
        Source::new(rows.range(bounds), start.len())
    };
    (0..layout.event_buckets())
        .map(|bucket| source(EventBucket(bucket)))
        .collect()
}

/// A range of rows with its next one.
pub(super) struct Source {
    rows: Iter,
    head: Option<KvPair>,
    /// Where in its keys the total order begins.
    order_from: usize,
}

impl Source {
    pub(super) fn new(rows: Iter, order_from: usize) -> Result<Self, StoreError> {
        let mut source = Self {
            rows,
            head: None,
            order_from,
        };
        source.advance()?;
        Ok(source)
    }

    fn advance(&mut self) -> Result<Option<KvPair>, StoreError> {
        let next = self.rows.next().map(fjall::Guard::into_inner).transpose();
        Ok(std::mem::replace(
            &mut self.head,
            next.map_err(store_error)?,
        ))
    }

    fn order(&self) -> Option<&[u8]> {
        self.head.as_ref().map(|(key, _)| &key[self.order_from..])
    }
}

/// Passes on the first of each event's copies, which lie one behind the other (R8).
pub(super) struct Distinct {
    counter_len: usize,
    /// The key of the last event passed on, and how much of it is the identity.
    last: Option<(UserKey, usize)>,
    rows: usize,
}

impl Distinct {
    /// Of a counter whose key is this long.
    pub(super) fn new(counter_len: usize) -> Self {
        Self {
            counter_len,
            last: None,
            rows: 0,
        }
    }

    /// Feeds what the sources hold to `sink`, merged into the total order.
    pub(super) async fn drain(
        &mut self,
        mut sources: Vec<Source>,
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<ControlFlow<()>, StoreError> {
        loop {
            let waiting = sources.iter_mut().filter(|source| source.head.is_some());
            let Some(next) = waiting.min_by(|a, b| a.order().cmp(&b.order())) else {
                return Ok(ControlFlow::Continue(()));
            };
            if let Some((key, value)) = next.advance()?
                && self.take(key, &value, sink)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            self.rows += 1;
            if self.rows.is_multiple_of(ROWS_AT_A_TIME) {
                task::yield_now().await;
            }
        }
    }

    fn take(
        &mut self,
        key: UserKey,
        value: &[u8],
        sink: &mut (dyn FnMut(StoredEvent) -> ControlFlow<()> + Send),
    ) -> Result<ControlFlow<()>, StoreError> {
        if let Some((last, identity)) = &self.last
            && key.starts_with(&last[..*identity])
        {
            return Ok(ControlFlow::Continue(()));
        }
        let decoded = keys::decode_event(&key, self.counter_len, value)
            .map_err(|error| unreadable("an event", &key, &error))?;
        self.last = Some((key, decoded.identity_len));
        Ok(sink(decoded.event))
    }
}
