//! The two candidates behind the few operations the benchmark needs.

use std::error::Error;
use std::path::Path;

use crate::btree::Redb;
use crate::lsm::{self, Fjall};
use crate::rows::Row;
use clap::{Args, ValueEnum};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    Fjall,
    Redb,
}

// Not a doc comment: it would become the help of the whole command.
// What can be tuned.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Block or page cache, in MiB
    #[arg(long, default_value_t = 64)]
    pub(crate) cache_mb: usize,
    /// fjall: size at which a memtable is flushed, in MiB
    #[arg(long, default_value_t = 16)]
    pub(crate) memtable_mb: u64,
    /// fjall: most journal kept on disk, in MiB
    #[arg(long, default_value_t = 128)]
    pub(crate) journal_mb: u64,
    /// fjall: data block size, in KiB
    #[arg(long, default_value_t = 16)]
    pub(crate) block_kb: u32,
    /// fjall: build bloom filters (useful for point gets only)
    #[arg(long)]
    pub(crate) filters: bool,
    /// Leave out the sync after each batch of rows
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// redb: save the allocator state on commit, so that a crash needs no repair
    #[arg(long)]
    pub(crate) quick_repair: bool,
}

/// What both engines are asked to do.
pub(crate) trait Engine: Send + Sync {
    fn put_all(&self, rows: Vec<Row>) -> Outcome<()>;
    fn get(&self, key: &[u8]) -> Outcome<bool>;
    /// Reads every key under the prefix and returns how many there are.
    fn scan(&self, prefix: &[u8]) -> Outcome<u64>;
    /// Waits until background work has come to rest.
    fn settle(&self) -> Outcome<()>;
}

pub(crate) fn open(kind: Kind, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match kind {
        Kind::Fjall => Box::new(Fjall::new(&lsm::open(dir, settings)?, "rows", settings)?),
        Kind::Redb => Box::new(Redb::open(dir, settings)?),
    })
}
