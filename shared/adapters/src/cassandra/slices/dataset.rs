//! A dataset, and the names and definition of its slices' tables.

use super::super::settings::check_name;
use crate::embedded::Dataset;
use quipu_core::slice::SliceId;
use uuid::Uuid;

/// The definition of a slice's table, with `{dataset}`, `{slice}` and `{table_id}` to fill in.
pub(in crate::cassandra) const EVENTS_CQL: &str =
    include_str!("../../../../../schemas/cql/events.cql");

/// A dataset: events of namespaces that lie in time alike, in tables of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassandraDataset {
    /// Its name: lower-case letters, digits and `_`, starting with a letter, at most 20 bytes.
    pub name: String,
    /// How it lies in time. The slice length is fixed when the first slice is made; the rest is
    /// frozen for each slice when it is made.
    pub shape: Dataset,
}

impl Default for CassandraDataset {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            shape: Dataset::default(),
        }
    }
}

impl CassandraDataset {
    pub(in crate::cassandra) fn check(&self) -> Result<(), String> {
        check_name("dataset", &self.name, 20)
    }
}

/// The name of a slice's table. Slices before 1970 have an `n` in the place of the sign.
pub(in crate::cassandra) fn table_name(dataset: &str, slice: SliceId) -> String {
    format!("events_{dataset}_{}", slice_name(slice))
}

fn slice_name(slice: SliceId) -> String {
    let sign = if slice.0 < 0 { "n" } else { "" };
    format!("{sign}{}", slice.0.unsigned_abs())
}

/// The statement that makes a slice's table.
pub(super) fn create_table(dataset: &str, slice: SliceId, table_id: Uuid) -> String {
    // Comments hold braces too; the server needs none of them.
    let lines = EVENTS_CQL
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("{dataset}", dataset)
        .replace("{slice}", &slice_name(slice))
        .replace("{table_id}", &table_id.to_string())
        .replace("TABLE IF NOT EXISTS ", "TABLE IF NOT EXISTS {ks}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_slices_have_names_of_their_own() {
        assert_eq!(table_name("a", SliceId(20_000)), "events_a_20000");
        assert_eq!(table_name("a", SliceId(-7)), "events_a_n7");
        let longest = table_name(&"d".repeat(20), SliceId(i64::MIN));
        assert!(longest.len() <= 48, "{longest}");
    }

    #[test]
    fn the_definition_has_nothing_left_to_fill_in_but_the_keyspace() {
        let id = Uuid::from_u128(7);
        let cql = create_table("a", SliceId(-1), id);
        let named = format!(
            "CREATE TABLE IF NOT EXISTS {{ks}}.{} (",
            table_name("a", SliceId(-1))
        );
        assert!(cql.starts_with(&named), "{cql}");
        assert!(cql.contains(&format!("ID = {id}")), "{cql}");
        assert_eq!(cql.matches("{ks}").count(), 1);
        assert!(
            !cql.replace("{ks}", "").contains("{table_id}") && !cql.contains("--"),
            "{cql}"
        );
    }
}
