//! redb, a copy-on-write B-tree.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::engine::{Engine, Outcome, Settings};
use crate::rows::Row;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

pub(crate) struct Redb {
    db: Database,
    settings: Settings,
}

impl Redb {
    pub(crate) fn open(dir: &Path, settings: &Settings) -> Outcome<Self> {
        let db = Database::builder()
            .set_cache_size(settings.cache_mb << 20)
            .create(dir.join("rows.redb"))?;
        Ok(Self {
            db,
            settings: settings.clone(),
        })
    }
}

impl Engine for Redb {
    fn put_all(&self, rows: Vec<Row>) -> Outcome<()> {
        let mut write = self.db.begin_write()?;
        write.set_quick_repair(self.settings.quick_repair);
        if self.settings.no_sync {
            write.set_durability(Durability::None)?;
        }
        {
            let mut table = write.open_table(TABLE)?;
            for (key, value) in &rows {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8]) -> Outcome<bool> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.is_some())
    }

    fn scan(&self, prefix: &[u8]) -> Outcome<u64> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut count = 0;
        for entry in table.range(prefix..)? {
            let (key, _) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    fn settle(&self) -> Outcome<()> {
        Ok(())
    }
}
