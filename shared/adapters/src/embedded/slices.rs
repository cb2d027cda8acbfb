//! The catalogue of time slices (R19): a keyspace each, and the settings frozen for it.
//!
//! Every change of state is durable before the next step, and a step can be repeated, so a crash
//! in any state is finished when the store is opened.

use super::{
    database::{StoreDatabase, store_error, unreadable},
    keys::{self, KeyError},
};
use crate::ports::{SliceInfo, SliceState, StoreError};
use fjall::{
    CompressionType, Keyspace, KeyspaceCreateOptions, PersistMode,
    compaction::Leveled,
    config::{
        BlockSizePolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, RestartIntervalPolicy,
    },
};
use quipu_core::{
    slice::{SliceId, SliceLayout, Slicing},
    window::Window,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How a dataset lies in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// How long slices are. Fixed for the life of the dataset.
    pub slicing: Slicing,
    /// The layout of slices that are created from now on; existing ones keep theirs.
    pub layout: SliceLayout,
    /// How long a slice is kept after its end.
    pub retention: Duration,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Dataset {
    /// For many counters, most of them idle: a counter idle for the whole retention of seven days
    /// costs seven reads.
    fn default() -> Self {
        Self {
            slicing: Slicing::new(DAY).expect("a day is a valid slice length"),
            layout: SliceLayout::new(DAY, 1).expect("a day is a valid bucket length"),
            retention: 7 * DAY,
        }
    }
}

/// One window may not ask for more slices than this: each costs memory and files.
const MOST_SLICES_AT_ONCE: usize = 1_000;

/// Rows take three to four times this in memory before they are written out, and several such
/// tables may wait to be. Larger ones save compactions, and cost memory under load.
const MEMTABLE_BYTES: u64 = 4 << 20;
const MEMTABLES_A_COMPACTION: u8 = 4;
const TABLE_BYTES: u64 = 32 << 20;

/// One slice.
#[derive(Clone)]
pub(super) struct Slice {
    /// Its place in its life.
    pub(super) state: SliceState,
    /// Its settings.
    pub(super) layout: SliceLayout,
    /// Its rows, while it is `Ready`.
    pub(super) rows: Option<Keyspace>,
}

/// Every slice that was ever created.
pub(super) struct Catalogue {
    database: StoreDatabase,
    entries: Keyspace,
    dataset: Dataset,
    slices: BTreeMap<SliceId, Arc<Slice>>,
}

impl Catalogue {
    /// Opens the catalogue and finishes what a crash left half done.
    pub(super) fn open(database: StoreDatabase, dataset: Dataset) -> Result<Self, StoreError> {
        let options = || KeyspaceCreateOptions::default().max_memtable_size(1 << 20);
        let entries = database
            .db()
            .keyspace("slices", options)
            .map_err(store_error)?;
        let mut catalogue = Self {
            database,
            entries,
            dataset,
            slices: BTreeMap::new(),
        };
        catalogue.check_slicing()?;
        catalogue.load()?;
        Ok(catalogue)
    }

    /// Rows find their slices by its length, so another one would lose all that is stored.
    fn check_slicing(&self) -> Result<(), StoreError> {
        let length = self.dataset.slicing.start(SliceId(1)).get().to_be_bytes();
        match self.entries.get(SLICING_KEY).map_err(store_error)? {
            None => {
                self.entries
                    .insert(SLICING_KEY, length)
                    .map_err(store_error)?;
                self.persist()
            }
            Some(stored) if *stored == length => Ok(()),
            Some(stored) => Err(StoreError::Damaged(format!(
                "the dataset has slices of {} µs, and {} µs are configured; the slice length of a \
                 dataset cannot change: configure the first, or begin with an empty directory",
                stored.as_ref().try_into().map_or(0, i64::from_be_bytes),
                i64::from_be_bytes(length),
            ))),
        }
    }

    fn load(&mut self) -> Result<(), StoreError> {
        for entry in self.entries.prefix(ENTRY_PREFIX) {
            let (key, value) = entry.into_inner().map_err(store_error)?;
            let (id, state, layout) = decode_entry(&key, &value)
                .map_err(|error| unreadable("the entry of a slice", &key, &error))?;
            let rows = None;
            self.slices.insert(
                id,
                Arc::new(Slice {
                    state,
                    layout,
                    rows,
                }),
            );
        }
        let found: Vec<_> = self
            .slices
            .iter()
            .map(|(id, slice)| (*id, slice.state))
            .collect();
        for (id, state) in found {
            match state {
                SliceState::Creating => self.create(id)?,
                SliceState::Ready => self.open_rows(id)?,
                SliceState::Dropping => self.drop_rows(id)?,
                SliceState::Dropped => {}
            }
        }
        Ok(())
    }

    /// The slice, if it was ever created.
    pub(super) fn get(&self, id: SliceId) -> Option<&Arc<Slice>> {
        self.slices.get(&id)
    }

    /// The slices that exist or existed and touch a window, oldest first.
    pub(super) fn touched(&self, window: Window) -> Vec<(SliceId, Arc<Slice>)> {
        if window.is_empty() {
            return Vec::new();
        }
        let slicing = self.dataset.slicing;
        let range = slicing.slice_of(window.after.succ())..=slicing.slice_of(window.through);
        self.slices
            .range(range)
            .map(|(id, slice)| (*id, Arc::clone(slice)))
            .collect()
    }

    /// All slices, oldest first.
    pub(super) fn infos(&self) -> Vec<SliceInfo> {
        let info = |(id, slice): (&SliceId, &Arc<Slice>)| SliceInfo {
            id: *id,
            state: slice.state,
            last: self.dataset.slicing.last(*id),
        };
        self.slices.iter().map(info).collect()
    }

    /// The bytes of each slice that has rows.
    pub(super) fn sizes(&self) -> BTreeMap<SliceId, u64> {
        let size = |(id, slice): (&SliceId, &Arc<Slice>)| {
            let rows = slice.rows.as_ref()?;
            Some((*id, rows.disk_space()))
        };
        self.slices.iter().filter_map(size).collect()
    }

    /// Whether every slice that touches the window exists or existed.
    pub(super) fn is_prepared(&self, window: Window) -> bool {
        let mut ids = self
            .dataset
            .slicing
            .touched(window)
            .take(MOST_SLICES_AT_ONCE + 1);
        ids.all(|id| {
            self.slices
                .get(&id)
                .is_some_and(|slice| slice.state != SliceState::Creating)
        })
    }

    /// Makes every slice that touches the window ready; dropped ones stay so.
    pub(super) fn prepare(&mut self, window: Window) -> Result<(), StoreError> {
        let ids: Vec<_> = self
            .dataset
            .slicing
            .touched(window)
            .take(MOST_SLICES_AT_ONCE + 1)
            .collect();
        if ids.len() > MOST_SLICES_AT_ONCE {
            return Err(StoreError::Damaged(format!(
                "events may be so old that more than {MOST_SLICES_AT_ONCE} time slices would have \
                 to exist; give the dataset longer slices, or namespaces a shorter accept_limit"
            )));
        }
        for id in ids {
            match self.slices.get(&id).map(|slice| slice.state) {
                None => {
                    self.set(id, SliceState::Creating, self.dataset.layout, None)?;
                    self.create(id)?;
                }
                Some(SliceState::Creating) => self.create(id)?,
                Some(SliceState::Ready | SliceState::Dropping | SliceState::Dropped) => {}
            }
        }
        Ok(())
    }

    /// Drops a slice with its rows.
    pub(super) fn drop_slice(&mut self, id: SliceId) -> Result<(), StoreError> {
        let Some(slice) = self.slices.get(&id) else {
            // Nothing may ever be written to it again: that has to be remembered too.
            return self.set(id, SliceState::Dropped, self.dataset.layout, None);
        };
        if slice.state == SliceState::Dropped {
            return Ok(());
        }
        let layout = slice.layout;
        self.set(id, SliceState::Dropping, layout, None)?;
        self.drop_rows(id)
    }

    fn create(&mut self, id: SliceId) -> Result<(), StoreError> {
        let rows = self
            .database
            .db()
            .keyspace(&rows_name(id), row_options)
            .map_err(store_error)?;
        let layout = self.slices[&id].layout;
        self.set(id, SliceState::Ready, layout, Some(rows))
    }

    fn open_rows(&mut self, id: SliceId) -> Result<(), StoreError> {
        let name = rows_name(id);
        if !self.database.db().keyspace_exists(&name) {
            return Err(StoreError::Damaged(format!(
                "slice {} has lost its rows",
                id.0
            )));
        }
        let rows = self
            .database
            .db()
            .keyspace(&name, row_options)
            .map_err(store_error)?;
        let layout = self.slices[&id].layout;
        let slice = Slice {
            state: SliceState::Ready,
            layout,
            rows: Some(rows),
        };
        self.slices.insert(id, Arc::new(slice));
        Ok(())
    }

    fn drop_rows(&mut self, id: SliceId) -> Result<(), StoreError> {
        let (db, name) = (self.database.db(), rows_name(id));
        if db.keyspace_exists(&name) {
            let rows = db.keyspace(&name, row_options).map_err(store_error)?;
            db.delete_keyspace(rows).map_err(store_error)?;
        }
        let layout = self.slices[&id].layout;
        self.set(id, SliceState::Dropped, layout, None)
    }

    fn set(
        &mut self,
        id: SliceId,
        state: SliceState,
        layout: SliceLayout,
        rows: Option<Keyspace>,
    ) -> Result<(), StoreError> {
        assert_eq!(
            rows.is_some(),
            state == SliceState::Ready,
            "only a ready slice has rows"
        );
        let (key, value) = encode_entry(id, state, layout);
        self.entries.insert(key, value).map_err(store_error)?;
        self.persist()?;
        self.slices.insert(
            id,
            Arc::new(Slice {
                state,
                layout,
                rows,
            }),
        );
        Ok(())
    }

    fn persist(&self) -> Result<(), StoreError> {
        self.database
            .db()
            .persist(PersistMode::SyncAll)
            .map_err(store_error)
    }
}

const SLICING_KEY: &str = "slice length";
const ENTRY_PREFIX: &str = "slice/";

fn rows_name(id: SliceId) -> String {
    format!("events-{}", id.0)
}

fn encode_entry(id: SliceId, state: SliceState, layout: SliceLayout) -> (Vec<u8>, Vec<u8>) {
    let mut key = ENTRY_PREFIX.as_bytes().to_vec();
    keys::put_int(&mut key, id.0.into());
    let mut value = vec![match state {
        SliceState::Creating => 0,
        SliceState::Ready => 1,
        SliceState::Dropping => 2,
        SliceState::Dropped => 3,
    }];
    let bucket = i128::try_from(layout.bucket_length().as_micros());
    keys::put_int(&mut value, bucket.expect("a bucket length fits"));
    keys::put_int(&mut value, layout.event_buckets().into());
    (key, value)
}

fn decode_entry(
    mut key: &[u8],
    mut value: &[u8],
) -> Result<(SliceId, SliceState, SliceLayout), KeyError> {
    key = key
        .strip_prefix(ENTRY_PREFIX.as_bytes())
        .ok_or(KeyError::Short("the prefix"))?;
    let id = SliceId(keys::take_narrow(&mut key, "the slice number")?);
    let state = match value.split_off_first() {
        Some(0) => SliceState::Creating,
        Some(1) => SliceState::Ready,
        Some(2) => SliceState::Dropping,
        Some(3) => SliceState::Dropped,
        _ => return Err(KeyError::Range("the state")),
    };
    let bucket = Duration::from_micros(keys::take_narrow(&mut value, "the bucket length")?);
    let event_buckets = keys::take_narrow(&mut value, "the event buckets")?;
    let layout = SliceLayout::new(bucket, event_buckets)
        .map_err(|_| KeyError::Range("the bucket length"))?;
    Ok((id, state, layout))
}

/// Rows are small, arrive once, are read by ranges only, and leave with their slice.
fn row_options() -> KeyspaceCreateOptions {
    let plain = CompressionType::None;
    let compaction = Leveled::default()
        .with_l0_threshold(MEMTABLES_A_COMPACTION)
        .with_table_target_size(TABLE_BYTES);
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .compaction_strategy(Arc::new(compaction))
        // Most scans read a few rows. A larger block saves little: shared prefixes are cut anyway.
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(16))
        // What was just flushed is soon rewritten. The next level may hold hundreds of megabytes.
        .data_block_compression_policy(CompressionPolicy::new([plain, CompressionType::Lz4]))
        // No range asks a filter.
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::time::Micros;
    use std::path::Path;

    fn open(dir: &Path, dataset: Dataset) -> Result<Catalogue, StoreError> {
        Catalogue::open(StoreDatabase::open(dir, 1 << 20)?, dataset)
    }

    fn days(first: i64, last: i64) -> Window {
        let slicing = Dataset::default().slicing;
        Window {
            after: slicing.start(SliceId(first)).pred(),
            through: slicing.last(SliceId(last)),
        }
    }

    #[test]
    fn a_crash_in_any_state_is_finished_at_the_next_open() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Dataset::default().layout;
        {
            let mut catalogue = open(dir.path(), Dataset::default()).expect("opens");
            catalogue.prepare(days(2, 5)).expect("prepared");
            // As if the process had died: before the rows were made, before they were ready,
            // before they were deleted, and before they were noted as deleted.
            catalogue
                .set(SliceId(1), SliceState::Creating, layout, None)
                .expect("set");
            catalogue
                .set(SliceId(2), SliceState::Creating, layout, None)
                .expect("set");
            catalogue
                .set(SliceId(3), SliceState::Dropping, layout, None)
                .expect("set");
            catalogue.drop_slice(SliceId(4)).expect("dropped");
            catalogue
                .set(SliceId(4), SliceState::Dropping, layout, None)
                .expect("set");
        }
        let catalogue = open(dir.path(), Dataset::default()).expect("opens again");
        let states: Vec<_> = catalogue
            .infos()
            .iter()
            .map(|info| (info.id.0, info.state))
            .collect();
        let expected = [
            (1, SliceState::Ready),
            (2, SliceState::Ready),
            (3, SliceState::Dropped),
            (4, SliceState::Dropped),
            (5, SliceState::Ready),
        ];
        assert_eq!(states, expected);
        for (id, state) in expected {
            let exists = catalogue
                .database
                .db()
                .keyspace_exists(&rows_name(SliceId(id)));
            assert_eq!(exists, state == SliceState::Ready, "rows of slice {id}");
        }
    }

    #[test]
    fn another_slice_length_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        drop(open(dir.path(), Dataset::default()).expect("opens"));
        let slicing = Slicing::new(Duration::from_hours(1)).expect("a valid length");
        let refused = open(
            dir.path(),
            Dataset {
                slicing,
                ..Dataset::default()
            },
        )
        .err();
        let text = refused.expect("refused").to_string();
        assert!(
            text.contains("86400000000") && text.contains("3600000000"),
            "{text}"
        );
    }

    #[test]
    fn a_window_without_a_beginning_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut catalogue = open(dir.path(), Dataset::default()).expect("opens");
        let window = Window {
            after: Micros::MIN,
            through: Micros::new(0),
        };
        assert!(!catalogue.is_prepared(window));
        assert!(matches!(
            catalogue.prepare(window),
            Err(StoreError::Damaged(_))
        ));
    }
}
