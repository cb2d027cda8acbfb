//! What is wrong with a cluster, as `quipu admin check` tells it.

use super::{
    connection::Cassandra,
    durable::{self, CommitLog, DurableWhen, judge},
    error::{CassandraError, Failure, unreadable},
    schema,
    settings::ConsistencyLevel,
};
use scylla::{cluster::metadata::Strategy, response::PagingState, serialize::row::SerializeRow};
use std::{collections::BTreeMap, fmt, time::Duration};

/// Something that should be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, and what to change.
    pub text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing: something is slow, or lost only in rarer cases.
    Advice,
    /// Counts may be wrong, or roles do not start.
    Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Advice => "advice",
            Severity::Problem => "problem",
        };
        write!(f, "{severity}: {}", self.text)
    }
}

fn problem(text: String) -> Finding {
    Finding {
        severity: Severity::Problem,
        text,
    }
}

fn advice(text: String) -> Finding {
    Finding {
        severity: Severity::Advice,
        text,
    }
}

impl Cassandra {
    /// Looks for what is wrong with the cluster and the keyspace. Changes nothing.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub async fn check(&self) -> Result<Vec<Finding>, CassandraError> {
        self.session()
            .refresh_metadata()
            .await
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut findings = self.check_nodes().await?;
        findings.extend(self.check_keyspace().await?);
        findings.extend(self.check_tables().await?);
        Ok(findings)
    }

    async fn check_nodes(&self) -> Result<Vec<Finding>, Failure> {
        let state = self.session().get_cluster_state();
        let nodes = state.get_nodes_info();
        let mut findings = Vec::new();
        let mut logs = Vec::new();
        for node in nodes {
            match durable::commit_log(self, node).await {
                Ok(log) => logs.push(log),
                Err(Failure::Damaged(error)) => return Err(Failure::Damaged(error)),
                Err(Failure::NoTable(error) | Failure::Unavailable(error)) => {
                    findings.push(problem(format!(
                        "node {} does not answer ({error}); start it, or remove it from the ring",
                        node.address
                    )));
                }
            }
        }
        findings.extend(commit_log_findings(&logs, nodes.len()));
        if self
            .session()
            .check_schema_agreement()
            .await
            .ok()
            .flatten()
            .is_none()
        {
            findings.push(problem(
                "the nodes disagree on the schema; wait, or look for the node that lags with \
                 `nodetool describecluster`"
                    .to_owned(),
            ));
        }
        Ok(findings)
    }

    /// What is wrong with the keyspace as a whole. Roles refuse to start on a problem.
    pub(super) async fn check_keyspace(&self) -> Result<Vec<Finding>, Failure> {
        let keyspace = self.settings().keyspace.as_str();
        let state = self.session().get_cluster_state();
        let Some(known) = state.get_keyspace(keyspace) else {
            return Ok(vec![problem(format!(
                "there is no keyspace {keyspace}; run `quipu admin setup`"
            ))]);
        };
        let mut findings = Vec::new();
        let factors: Vec<usize> = match &known.strategy {
            Strategy::SimpleStrategy { replication_factor } => vec![*replication_factor],
            Strategy::NetworkTopologyStrategy {
                datacenter_repfactors,
            } => datacenter_repfactors.values().copied().collect(),
            _ => Vec::new(),
        };
        let copies = factors.into_iter().max().unwrap_or(0);
        let consistency = self.settings().consistency;
        findings.extend(replication_findings(keyspace, copies, consistency));
        let select = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let durable: Vec<(bool,)> = self.select_all(select, (keyspace,)).await?;
        if durable == [(false,)] {
            findings.push(problem(format!(
                "keyspace {keyspace} has durable_writes = false, so a crash loses acknowledged \
                 writes; ALTER KEYSPACE {keyspace} WITH durable_writes = true"
            )));
        }
        Ok(findings)
    }

    async fn check_tables(&self) -> Result<Vec<Finding>, Failure> {
        let keyspace = self.settings().keyspace.as_str();
        let select = "SELECT table_name, column_name, type FROM system_schema.columns \
                      WHERE keyspace_name = ?";
        let columns: Vec<(String, String, String)> = self.select_all(select, (keyspace,)).await?;
        let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (table, column, kind) in columns {
            found.entry(table).or_default().insert(column, kind);
        }
        if found.is_empty() {
            return Ok(Vec::new()); // told by the keyspace
        }
        let mut findings = table_findings(keyspace, &found);
        let slices = "SELECT dataset, slice, state FROM {ks}.slices";
        if !found.contains_key("slices") {
            return Ok(findings);
        }
        let slices: Vec<(String, i64, Option<String>)> = self.select_all(slices, ()).await?;
        for (dataset, slice, state) in slices {
            let id = quipu_core::slice::SliceId(slice);
            let table = super::slices::table_name(&dataset, id);
            if state.as_deref() == Some("READY") && !found.contains_key(&table) {
                findings.push(problem(format!(
                    "time slice {slice} of dataset {dataset} is READY and its table {table} does \
                     not exist: its events are lost; restore the table from a backup"
                )));
            }
        }
        Ok(findings)
    }

    /// Reads all pages of a small table.
    async fn select_all<R>(&self, cql: &str, values: impl SerializeRow) -> Result<Vec<R>, Failure>
    where
        R: for<'a> scylla::deserialize::row::DeserializeRow<'a, 'a>,
    {
        let statement = self.prepare(cql).await?;
        let mut all = Vec::new();
        let mut from = Some(PagingState::start());
        while let Some(paging) = from {
            let (rows, next) = self.page(&statement, &values, paging).await?;
            let rows = rows
                .rows::<R>()
                .map_err(|error| unreadable("the schema", &error))?;
            for row in rows {
                all.push(row.map_err(|error| unreadable("the schema", &error))?);
            }
            from = next;
        }
        Ok(all)
    }
}

/// A periodic commit log should be synced this often: roles wait half as long again.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

fn commit_log_findings(logs: &[CommitLog], nodes: usize) -> Vec<Finding> {
    match judge(logs, nodes) {
        Err(text) => vec![problem(text)],
        Ok(DurableWhen::FollowedAfter(wait)) if wait > LONGEST_PERIOD * 3 / 2 => {
            vec![advice(format!(
                "events wait {wait:?} until they count as durable; set commitlog_sync_period: \
                 1000ms in cassandra.yaml, and leave periodic_commitlog_sync_lag_block out"
            ))]
        }
        Ok(DurableWhen::FollowedAfter(_)) => vec![advice(
            "one node with a periodic commit log: a kill of the process is noticed and written \
             again, a loss of power between two syncs too, but a lost disk is not; use three \
             nodes with commitlog_sync: batch or group to survive that"
                .to_owned(),
        )],
        Ok(DurableWhen::Acknowledged) => Vec::new(),
    }
}

fn replication_findings(
    keyspace: &str,
    copies: usize,
    consistency: ConsistencyLevel,
) -> Option<Finding> {
    if consistency == ConsistencyLevel::One && copies > 1 {
        return Some(problem(format!(
            "keyspace {keyspace} has {copies} copies of each row and consistency is ONE, so a read \
             may miss what was acknowledged; set consistency to QUORUM or LOCAL_QUORUM"
        )));
    }
    if copies == 2 {
        return Some(advice(format!(
            "keyspace {keyspace} has 2 copies of each row, and {consistency:?} needs both: one \
             node that is down stops everything; use 3"
        )));
    }
    None
}

fn table_findings(
    keyspace: &str,
    found: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in schema::tables() {
        let name = &table.name;
        let Some(columns) = found.get(name) else {
            findings.push(problem(format!(
                "table {keyspace}.{name} is missing; run `quipu admin setup`"
            )));
            continue;
        };
        for (column, kind) in &table.columns {
            let stored = columns.get(column);
            if stored != Some(kind) {
                let stored = stored.map_or("missing", String::as_str);
                findings.push(problem(format!(
                    "column {column} of table {keyspace}.{name} is {stored}, not {kind}: the table \
                     is of another version; use a keyspace of this version"
                )));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_defined() -> BTreeMap<String, BTreeMap<String, String>> {
        let tables = schema::tables().into_iter();
        tables
            .map(|table| (table.name, table.columns.into_iter().collect()))
            .collect()
    }

    #[test]
    fn tables_that_are_missing_or_different_are_named() {
        assert_eq!(table_findings("ks", &as_defined()), []);
        let mut found = as_defined();
        found.remove("leases");
        let rollups = found.get_mut("rollups").expect("defined");
        rollups.insert("checkpoint".to_owned(), "text".to_owned());
        let texts = table_findings("ks", &found);
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 2);
        assert!(
            texts[0].starts_with("problem: table ks.leases is missing"),
            "{texts:?}"
        );
        assert!(
            texts[1].contains("checkpoint of table ks.rollups is text, not blob"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_consistency_that_misses_copies_is_a_problem() {
        let severity = |copies, level| {
            replication_findings("ks", copies, level).map(|finding| finding.severity)
        };
        assert_eq!(severity(1, ConsistencyLevel::One), None);
        assert_eq!(severity(3, ConsistencyLevel::One), Some(Severity::Problem));
        assert_eq!(
            severity(2, ConsistencyLevel::Quorum),
            Some(Severity::Advice)
        );
        assert_eq!(severity(3, ConsistencyLevel::Quorum), None);
    }

    #[test]
    fn a_periodic_commit_log_is_judged_by_its_wait() {
        let log = |millis| CommitLog {
            node: "a".to_owned(),
            sync: "periodic".to_owned(),
            period: Some(Duration::from_millis(millis)),
            ..CommitLog::default()
        };
        let found = |log, nodes| commit_log_findings(&[log], nodes);
        assert!(
            found(log(10_000), 1)[0]
                .text
                .contains("commitlog_sync_period")
        );
        assert_eq!(found(log(1_000), 1)[0].severity, Severity::Advice);
        assert_eq!(found(log(1_000), 3)[0].severity, Severity::Problem);
    }
}
