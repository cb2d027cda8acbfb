//! What is wrong with a cluster, as `quipu admin check` tells it.

use super::{
    connection::Cassandra,
    durable::{self, CommitLog, DurableWhen, judge},
    error::{CassandraError, Failure, unreadable},
    schema,
    settings::ConsistencyLevel,
};
use crate::finding::{Finding, Severity};
use scylla::{cluster::metadata::Strategy, response::PagingState, serialize::row::SerializeRow};
use std::{collections::BTreeMap, time::Duration};

fn unfit(what: String, fix: impl Into<String>) -> Finding {
    Finding::new(Severity::Unfit, what, fix)
}

fn advice(what: String, fix: impl Into<String>) -> Finding {
    Finding::new(Severity::Advice, what, fix)
}

/// What mends whatever setup would have made.
const SET_UP: &str = "run `quipu admin setup`";

impl Cassandra {
    /// Looks for what is wrong with the cluster and the keyspace, also before setup made one.
    /// Changes nothing.
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
                    findings.push(unfit(
                        format!("node {} does not answer ({error})", node.address),
                        "start it, or remove it from the ring",
                    ));
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
            findings.push(unfit(
                "the nodes disagree on the schema".to_owned(),
                "wait, or look for the node that lags with `nodetool describecluster`",
            ));
        }
        Ok(findings)
    }

    /// What is wrong with the keyspace as a whole. Roles refuse to start on a problem.
    pub(super) async fn check_keyspace(&self) -> Result<Vec<Finding>, Failure> {
        let keyspace = self.settings().keyspace.as_str();
        let state = self.session().get_cluster_state();
        let Some(known) = state.get_keyspace(keyspace) else {
            return Ok(vec![unfit(
                format!("setup was not run: there is no keyspace {keyspace}"),
                SET_UP,
            )]);
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
            findings.push(unfit(
                format!(
                    "keyspace {keyspace} has durable_writes = false, so a crash loses \
                     acknowledged writes"
                ),
                format!("ALTER KEYSPACE {keyspace} WITH durable_writes = true"),
            ));
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
        if self
            .session()
            .get_cluster_state()
            .get_keyspace(keyspace)
            .is_none()
        {
            return Ok(Vec::new()); // told by the keyspace
        }
        let mut findings = table_findings(keyspace, &found);
        if findings.is_empty() && self.facts().await?.is_none() {
            findings.push(unfit(
                format!("setup of keyspace {keyspace} was begun and did not end"),
                "run `quipu admin setup` again",
            ));
        }
        let slices = "SELECT dataset, slice, state FROM {ks}.slices";
        if !found.contains_key("slices") {
            return Ok(findings);
        }
        let slices: Vec<(String, i64, Option<String>)> = self.select_all(slices, ()).await?;
        for (dataset, slice, state) in slices {
            let id = quipu_core::slice::SliceId(slice);
            let table = super::slices::table_name(&dataset, id);
            if state.as_deref() == Some("READY") && !found.contains_key(&table) {
                findings.push(unfit(
                    format!(
                        "time slice {slice} of dataset {dataset} is READY and its table {table} \
                         does not exist: its events are lost"
                    ),
                    "restore the table from a backup",
                ));
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
        Err(finding) => vec![finding],
        Ok(DurableWhen::FollowedAfter(wait)) if wait > LONGEST_PERIOD * 3 / 2 => {
            vec![advice(
                format!("events wait {wait:?} until they count as durable"),
                "set commitlog_sync_period: 1000ms in cassandra.yaml, and leave \
                 periodic_commitlog_sync_lag_block out",
            )]
        }
        Ok(DurableWhen::FollowedAfter(_)) => vec![advice(
            "one Cassandra node with a periodic commit log: what a kill of the process or a loss \
             of power between two syncs takes is noticed and written again, but a lost disk is lost"
                .to_owned(),
            "to survive that, use three nodes with commitlog_sync: batch or group",
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
        return Some(unfit(
            format!(
                "keyspace {keyspace} has {copies} copies of each row and consistency is ONE, so a \
                 read may miss what was acknowledged"
            ),
            "set cassandra.consistency to QUORUM or LOCAL_QUORUM",
        ));
    }
    if copies == 2 {
        return Some(advice(
            format!(
                "keyspace {keyspace} has 2 copies of each row, and {consistency:?} needs both: one \
                 node that is down stops everything"
            ),
            "keep 3 copies",
        ));
    }
    None
}

fn table_findings(
    keyspace: &str,
    found: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<Finding> {
    let tables = schema::tables();
    if !tables.iter().any(|table| found.contains_key(&table.name)) {
        let what = format!("setup was not run: keyspace {keyspace} is there but has no tables");
        return vec![unfit(what, SET_UP)];
    }
    let mut findings = Vec::new();
    for table in tables {
        let name = &table.name;
        let Some(columns) = found.get(name) else {
            findings.push(unfit(format!("table {keyspace}.{name} is missing"), SET_UP));
            continue;
        };
        for (column, kind) in &table.columns {
            let stored = columns.get(column);
            if stored != Some(kind) {
                let fix = if stored.is_some() {
                    "use a keyspace of this version"
                } else {
                    SET_UP
                };
                let stored = stored.map_or("missing", String::as_str);
                findings.push(unfit(
                    format!(
                        "column {column} of table {keyspace}.{name} is {stored}, not {kind}: the \
                         table is of another version"
                    ),
                    fix,
                ));
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
        let policies = found.get_mut("policies").expect("defined");
        policies.remove("author");
        let texts = table_findings("ks", &found);
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3);
        assert!(
            texts[0].starts_with("column author of table ks.policies is missing"),
            "{texts:?}"
        );
        assert!(texts[0].contains("quipu admin setup"), "{texts:?}");
        assert!(
            texts[1].starts_with("table ks.leases is missing"),
            "{texts:?}"
        );
        assert!(
            texts[2].contains("checkpoint of table ks.rollups is text, not blob"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_keyspace_without_any_table_was_not_set_up() {
        let told = table_findings("ks", &BTreeMap::new());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].what.starts_with("setup was not run"), "{told:?}");
        assert_eq!(told[0].fix, "run `quipu admin setup`");
    }

    #[test]
    fn a_consistency_that_misses_copies_is_a_problem() {
        let severity = |copies, level| {
            replication_findings("ks", copies, level).map(|finding| finding.severity)
        };
        assert_eq!(severity(1, ConsistencyLevel::One), None);
        assert_eq!(severity(3, ConsistencyLevel::One), Some(Severity::Unfit));
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
                .fix
                .contains("commitlog_sync_period")
        );
        assert_eq!(found(log(1_000), 1)[0].severity, Severity::Advice);
        assert_eq!(found(log(1_000), 3)[0].severity, Severity::Unfit);
    }
}
