//! How rows are grouped into batches: rows of one partition together, since that is a single
//! change to it; small groups of several partitions together, since a round trip costs more than a
//! change; and none so large that the server warns of it or refuses it.

use super::payload;
use quipu_core::{event::EventRow, slice::SliceLayout};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a batch may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Rows over several partitions.
    pub(super) mixed_rows: usize,
    /// Bytes over several partitions, as the server counts them.
    pub(super) mixed_bytes: usize,
    /// Rows of one partition, where the server sets no limit.
    pub(super) single_rows: usize,
    /// Bytes of one partition.
    pub(super) single_bytes: usize,
}

/// The server warns of mixed batches above 5 KiB and refuses those above 50 KiB.
pub(super) const BOUNDS: Bounds = Bounds {
    mixed_rows: 60,
    mixed_bytes: 5_000,
    single_rows: 250,
    single_bytes: 64 << 10,
};

/// A row as the statement binds it.
pub(super) type Values<'a> = (
    i64,
    [u8; 21],
    i32,
    &'a str,
    i64,
    i16,
    i64,
    &'a [u8],
    &'a [u8],
);

/// A row with where it lies.
pub(super) struct Placed<'a> {
    pub(super) values: Values<'a>,
    /// Equal for rows of one partition, and hardly ever for others.
    partition: u64,
}

/// A row in a slice of this layout.
pub(super) fn place(row: &EventRow, layout: SliceLayout) -> Placed<'_> {
    let (key, source) = (&row.event.key, row.event.source);
    let time_bucket = layout.time_bucket(key.event_time).0;
    let event_bucket = layout.event_bucket(key).0;
    let mut hasher = DefaultHasher::new();
    (&row.counter, time_bucket, event_bucket).hash(&mut hasher);
    let values = (
        payload::write_timestamp(source.effective_time),
        payload::encode(row.event.mutation, source),
        super::namespace_id(row.counter.namespace),
        row.counter.name.as_str(),
        time_bucket,
        event_bucket.cast_signed(),
        key.event_time.get(),
        key.event_id.as_str().as_bytes(),
        key.item_key.as_str().as_bytes(),
    );
    Placed {
        values,
        partition: hasher.finish(),
    }
}

impl Placed<'_> {
    /// The bytes that the server counts of a row, roughly: clustering, cell and timestamps.
    fn bytes(&self) -> usize {
        let (.., event_id, item_key) = &self.values;
        48 + event_id.len() + item_key.len()
    }
}

/// Divides rows of one slice into batches.
pub(super) fn batches(mut rows: Vec<Placed<'_>>, bounds: Bounds) -> Vec<Vec<Values<'_>>> {
    rows.sort_unstable_by_key(|row| row.partition);
    let mut batches = Vec::new();
    let mut mixed = Open::default();
    let mut rows = rows.as_slice();
    while let Some(first) = rows.first() {
        let same = rows.partition_point(|row| row.partition == first.partition);
        let (group, rest) = rows.split_at(same);
        rows = rest;
        let bytes: usize = group.iter().map(Placed::bytes).sum();
        if group.len() * 2 > bounds.mixed_rows || bytes * 2 > bounds.mixed_bytes {
            let mut single = Open::default();
            for row in group {
                let (most_rows, most_bytes) = (bounds.single_rows, bounds.single_bytes);
                batches.extend(single.push(row, most_rows, most_bytes));
            }
            batches.extend(single.take());
            continue;
        }
        for row in group {
            let (most_rows, most_bytes) = (bounds.mixed_rows, bounds.mixed_bytes);
            batches.extend(mixed.push(row, most_rows, most_bytes));
        }
    }
    batches.extend(mixed.take());
    batches
}

/// A batch that is being filled.
#[derive(Default)]
struct Open<'a> {
    rows: Vec<Values<'a>>,
    bytes: usize,
}

impl<'a> Open<'a> {
    /// Adds a row; the batch before it, when it has no room.
    fn push(
        &mut self,
        row: &Placed<'a>,
        most_rows: usize,
        most_bytes: usize,
    ) -> Option<Vec<Values<'a>>> {
        let is_full = self.rows.len() >= most_rows || self.bytes + row.bytes() > most_bytes;
        let full = if is_full { self.take() } else { None };
        self.rows.push(row.values);
        self.bytes += row.bytes();
        full
    }

    fn take(&mut self) -> Option<Vec<Values<'a>>> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        (!rows.is_empty()).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quipu_core::{
        event::{CounterKey, EventKey, LogPosition, Mutation, NamespaceId, StoredEvent},
        name::{CounterName, ItemKey, Token},
        time::Micros,
    };
    use std::{collections::BTreeSet, time::Duration};

    fn row(counter: u8, token: usize, token_bytes: usize) -> EventRow {
        let token = format!("{token:0token_bytes$}");
        let event_time = Micros::new(7);
        EventRow {
            counter: CounterKey {
                namespace: NamespaceId(1),
                name: CounterName::new(&format!("c{counter}")).expect("valid"),
            },
            event: StoredEvent {
                key: EventKey {
                    event_time,
                    event_id: Token::new(&token).expect("valid"),
                    item_key: ItemKey::new("").expect("valid"),
                },
                mutation: Mutation::Add(1),
                source: LogPosition {
                    effective_time: event_time,
                    partition: 0,
                    offset: 0,
                },
            },
        }
    }

    proptest! {
        #[test]
        fn every_row_is_in_one_batch_and_no_batch_is_too_large(
            rows in prop::collection::vec((0..9_u8, 4..128_usize), 0..900),
        ) {
            let rows = (0..).zip(rows).map(|(n, (counter, bytes))| row(counter, n, bytes));
            let rows: Vec<_> = rows.collect();
            let layout = SliceLayout::new(Duration::from_mins(1), 1).expect("valid");
            let placed = rows.iter().map(|row| place(row, layout)).collect();
            let batches = batches(placed, BOUNDS);
            let mut written = BTreeSet::new();
            for batch in &batches {
                let counters: BTreeSet<_> = batch.iter().map(|values| values.3).collect();
                let bytes: usize = batch.iter().map(|values| 48 + values.7.len()).sum();
                if counters.len() > 1 {
                    prop_assert!(batch.len() <= BOUNDS.mixed_rows && bytes <= BOUNDS.mixed_bytes);
                } else {
                    prop_assert!(batch.len() <= BOUNDS.single_rows && bytes <= BOUNDS.single_bytes);
                }
                written.extend(batch.iter().map(|values| values.7));
            }
            prop_assert_eq!(written.len(), rows.len());
            let batched: usize = batches.iter().map(Vec::len).sum();
            prop_assert_eq!(batched, rows.len());
        }
    }

    #[test]
    fn a_hot_counter_has_large_batches_of_its_own() {
        let mut rows: Vec<_> = (0..500).map(|n| row(0, n, 16)).collect();
        rows.extend((1..9).map(|counter| row(counter, 0, 16)));
        let layout = SliceLayout::new(Duration::from_mins(1), 1).expect("valid");
        let placed = rows.iter().map(|row| place(row, layout)).collect();
        let mut sizes: Vec<_> = batches(placed, BOUNDS).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [8, 250, 250]);
    }
}
