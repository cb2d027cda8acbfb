//! A database of the embedded stores: how it is opened, when it is durable, and what its errors
//! mean. It knows nothing of events or checkpoints.

use super::keys::KeyError;
use crate::ports::StoreError;
use fjall::{Database, PersistMode};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{sync::Mutex, task};

/// Journal kept on disk at most, before the oldest memtables are flushed to free it. It also
/// bounds what has to be read again at the start.
const JOURNAL_BYTES: u64 = 128 << 20;

/// The engine's first worker only flushes, and it hands compactions on by sending them round: with
/// no idle worker to take one, it spins. So there are more than can find work.
const WORKERS: usize = 4;

/// One database directory. Cheap to clone.
#[derive(Clone)]
pub(super) struct StoreDatabase {
    db: Database,
    arrivals: Arc<AtomicU64>,
    /// The newest arrival that is known to be covered by a sync.
    covered: Arc<Mutex<u64>>,
}

impl StoreDatabase {
    /// Opens or creates the database in a directory. `cache_bytes` bounds the block cache.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let opened = Database::builder(dir)
            .cache_size(cache_bytes)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(WORKERS)
            .open();
        let db = opened.map_err(|error| match error {
            fjall::Error::Locked => StoreError::Unavailable(format!(
                "{} is in use by another process; stop that one first",
                dir.display()
            )),
            error => StoreError::Damaged(format!("{} cannot be opened: {error}", dir.display())),
        })?;
        Ok(Self {
            db,
            arrivals: Arc::default(),
            covered: Arc::default(),
        })
    }

    /// The database itself.
    pub(super) fn db(&self) -> &Database {
        &self.db
    }

    /// Resolves once everything written before the call is durable. Calls that wait for one
    /// another share a sync: whoever arrived before it began is covered by it.
    pub(super) async fn sync(&self) -> Result<(), StoreError> {
        let arrival = self.arrivals.fetch_add(1, Ordering::SeqCst) + 1;
        let mut covered = self.covered.lock().await;
        if *covered >= arrival {
            return Ok(());
        }
        let through = self.arrivals.load(Ordering::SeqCst);
        let db = self.db.clone();
        blocking(move || db.persist(PersistMode::SyncData).map_err(store_error)).await?;
        *covered = through;
        Ok(())
    }
}

/// Runs what may wait for a disk or a lock where it holds nobody up.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable(
                "the process is stopping".to_owned(),
            )),
        },
    }
}

/// What an error of the engine means to a caller. After a failed write or sync the engine refuses
/// everything (nobody can tell what a failed sync lost), so trying again leads to `Damaged`.
pub(super) fn store_error(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) => StoreError::Unavailable(error.to_string()),
        fjall::Error::Poisoned => StoreError::Damaged(
            "the store stopped itself after a write failed; look at the disk, then start again"
                .to_owned(),
        ),
        error => StoreError::Damaged(error.to_string()),
    }
}

/// A row that cannot be read.
pub(super) fn unreadable(what: &'static str, key: &[u8], error: &KeyError) -> StoreError {
    StoreError::Damaged(format!("{what} under key {}: {error}", key.escape_ascii()))
}
