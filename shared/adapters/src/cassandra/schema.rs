//! The tables that setup makes once, as `schemas/cql` defines them.

use quipu_core::key::route;
use uuid::{Builder, Uuid};

const CONTROL_CQL: &str = include_str!("../../../../schemas/cql/control.cql");
const ROLLUPS_CQL: &str = include_str!("../../../../schemas/cql/rollups.cql");

/// A table as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    /// Columns with their types, in the order of the definition.
    pub(super) columns: Vec<(String, String)>,
    /// The columns as they are defined, in the same order.
    pub(super) definitions: Vec<String>,
    /// The statement that makes it, with `{ks}` for the keyspace.
    cql: String,
}

impl Table {
    /// The statement that makes the table. Its id follows from the keyspace and the name: two that
    /// make it at once make the same table, and lose no rows of one another (CASSANDRA-10699).
    pub(super) fn create(&self, keyspace: &str) -> String {
        let with_id = format!(") WITH ID = {} AND ", self.id(keyspace));
        self.cql.replacen(") WITH ", &with_id, 1)
    }

    fn id(&self, keyspace: &str) -> Uuid {
        let half = |n: u8| route(format!("{n}/{keyspace}.{}", self.name).as_bytes());
        let id = Uuid::from_u64_pair(half(0), half(1));
        Builder::from_random_bytes(*id.as_bytes()).into_uuid()
    }
}

/// The tables that setup makes.
pub(super) fn tables() -> Vec<Table> {
    [CONTROL_CQL, ROLLUPS_CQL]
        .into_iter()
        .flat_map(|file| {
            let without_comments: Vec<_> = file
                .lines()
                .filter(|line| !line.trim_start().starts_with("--"))
                .collect();
            let statements = without_comments.join("\n");
            let statements = statements.split(';').map(str::trim);
            statements
                .filter(|statement| !statement.is_empty())
                .map(parse)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Reads a definition of our own: a column a line, the key last or behind its column.
pub(super) fn parse(statement: &str) -> Table {
    let begin = "CREATE TABLE IF NOT EXISTS ";
    let rest = statement
        .strip_prefix(begin)
        .expect("a schema file holds tables");
    let (name, body) = rest.split_once(" (").expect("a table has columns");
    let (mut columns, mut definitions) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        if line.starts_with("PRIMARY KEY") || line.starts_with(')') {
            break;
        }
        let definition: Vec<_> = line.trim_end_matches(',').split_whitespace().collect();
        let mut words = definition.iter().copied();
        if let (Some(column), Some(kind)) = (words.next(), words.next()) {
            columns.push((column.to_owned(), kind.to_owned()));
            definitions.push(definition.join(" "));
        }
    }
    Table {
        name: name.to_owned(),
        columns,
        definitions,
        cql: format!("{begin}{{ks}}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_files_hold_the_tables_that_setup_makes() {
        let tables = tables();
        let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
        let expected = [
            "settled",
            "policies",
            "slices",
            "leases",
            "sync_probes",
            "clusters",
            "homes",
            "rollups",
            "parked_signals",
        ];
        assert_eq!(names, expected);
        let leases = tables.iter().find(|table| table.name == "leases");
        let leases = leases.expect("it is listed");
        let columns = [("name", "text"), ("owner", "uuid")];
        let columns = columns.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        assert_eq!(leases.columns, columns);
    }

    #[test]
    fn a_table_has_the_same_id_whoever_makes_it() {
        let table = &tables()[0];
        assert_eq!(table.create("a"), table.create("a"));
        assert_ne!(table.create("a"), table.create("b"));
        let begin = "CREATE TABLE IF NOT EXISTS {ks}.settled (";
        assert!(table.create("a").starts_with(begin));
        assert_eq!(table.create("a").matches(" WITH ID = ").count(), 1);
    }
}
