//! fjall, a log-structured merge tree.

use std::path::Path;
use std::time::Duration;

use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use crate::engine::{Engine, Outcome, Settings};
use crate::rows::Row;

pub(crate) fn open(dir: &Path, settings: &Settings) -> Outcome<Database> {
    Ok(Database::builder(dir)
        .cache_size(u64::try_from(settings.cache_mb)? << 20)
        .max_journaling_size(settings.journal_mb << 20)
        .worker_threads(2)
        .open()?)
}

/// A keyspace and the database that holds it.
pub(crate) struct Fjall {
    db: Database,
    rows: Keyspace,
    persist: PersistMode,
}

impl Fjall {
    pub(crate) fn new(db: &Database, name: &str, settings: &Settings) -> Outcome<Self> {
        let options = || {
            let plain = KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable_mb << 20)
                .data_block_size_policy(BlockSizePolicy::all(settings.block_kb << 10))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4));
            if settings.filters {
                plain
            } else {
                plain.filter_policy(FilterPolicy::all(FilterPolicyEntry::None))
            }
        };
        Ok(Self {
            rows: db.keyspace(name, options)?,
            db: db.clone(),
            persist: if settings.no_sync {
                PersistMode::Buffer
            } else {
                PersistMode::SyncData
            },
        })
    }
}

impl Engine for Fjall {
    fn put_all(&self, rows: Vec<Row>) -> Outcome<()> {
        let mut batch = self.db.batch().durability(Some(self.persist));
        for (key, value) in rows {
            batch.insert(&self.rows, key, value);
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8]) -> Outcome<bool> {
        Ok(self.rows.get(key)?.is_some())
    }

    fn scan(&self, prefix: &[u8]) -> Outcome<u64> {
        let mut count = 0;
        for guard in self.db.snapshot().prefix(&self.rows, prefix) {
            count += u64::from(!guard.key()?.is_empty());
        }
        Ok(count)
    }

    fn settle(&self) -> Outcome<()> {
        self.rows.rotate_memtable_and_wait()?;
        let mut done = self.db.compactions_completed();
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.db.compactions_completed();
            if now == done && self.db.active_compactions() == 0 {
                return Ok(());
            }
            done = now;
        }
    }
}
