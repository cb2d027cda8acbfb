//! Columns that the tables of an older version lack: setup adds them.

use super::{
    connection::Cassandra,
    error::{Failure, unreadable},
    schema::{self, Table},
};
use scylla::response::PagingState;
use std::collections::BTreeSet;

impl Cassandra {
    /// Adds what is missing to tables that are there. Values of rows that are older are null.
    pub(super) async fn add_columns(&self) -> Result<(), Failure> {
        let select = "SELECT column_name FROM system_schema.columns \
                      WHERE keyspace_name = ? AND table_name = ?";
        let select = self.prepare(select).await?;
        for table in schema::tables() {
            let of_table = (self.settings().keyspace.as_str(), table.name.as_str());
            // A page has room for far more columns than any of these tables has.
            let (rows, _) = self.page(&select, of_table, PagingState::start()).await?;
            let what = "the columns of a table";
            let rows = rows
                .rows::<(String,)>()
                .map_err(|error| unreadable(what, &error))?;
            let stored = rows.map(|row| row.map(|(name,)| name));
            let stored = stored.collect::<Result<BTreeSet<_>, _>>();
            let stored = stored.map_err(|error| unreadable(what, &error))?;
            for addition in additions(&table, &stored) {
                self.change_schema(&addition).await?;
            }
        }
        Ok(())
    }
}

/// The statements that add the columns that are not stored.
fn additions(table: &Table, stored: &BTreeSet<String>) -> Vec<String> {
    let missing = table.columns.iter().zip(&table.definitions);
    let missing = missing.filter(|((name, _), _)| !stored.contains(name));
    let add = |definition: &str| {
        let table = &table.name;
        format!("ALTER TABLE {{ks}}.{table} ADD IF NOT EXISTS {definition}")
    };
    missing.map(|(_, definition)| add(definition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_added_and_what_is_static_stays_so() {
        let tables = schema::tables();
        let policies = tables.iter().find(|table| table.name == "policies");
        let policies = policies.expect("it is defined");
        let mut stored: BTreeSet<_> = policies.columns.iter().map(|it| it.0.clone()).collect();
        assert_eq!(additions(policies, &stored), Vec::<String>::new());
        for column in ["author", "caps"] {
            assert!(stored.remove(column));
        }
        let expected = [
            "ALTER TABLE {ks}.policies ADD IF NOT EXISTS caps text STATIC",
            "ALTER TABLE {ks}.policies ADD IF NOT EXISTS author text",
        ];
        assert_eq!(additions(policies, &stored), expected);
    }
}
