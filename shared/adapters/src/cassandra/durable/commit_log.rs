//! How a cluster's nodes make acknowledged writes durable, judged by R11.

use crate::finding::{Finding, Severity};
use std::time::Duration;

/// The commit log's settings of one node, as it shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cassandra) struct CommitLog {
    /// The node's address.
    pub(in crate::cassandra) node: String,
    /// `commitlog_sync`.
    pub(in crate::cassandra) sync: String,
    /// `commitlog_sync_period`.
    pub(in crate::cassandra) period: Option<Duration>,
    /// `periodic_commitlog_sync_lag_block`.
    pub(in crate::cassandra) lag_block: Option<Duration>,
    /// Whether segments are compressed or encrypted, or bypass the page cache: then what was
    /// acknowledged lies in the process alone until the next sync.
    pub(in crate::cassandra) buffered: Option<&'static str>,
}

/// When an acknowledged write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cassandra) enum DurableWhen {
    /// At once.
    Acknowledged,
    /// When a write to the one node that began this much later was acknowledged as well, and the
    /// node did not restart in between.
    FollowedAfter(Duration),
}

/// The shortest period that is assumed, and Cassandra's own default block in periods.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);

/// Judges a cluster of `size` nodes by those that could be asked.
///
/// # Errors
/// When acknowledged writes could be lost unseen. The finding names the setting.
pub(in crate::cassandra) fn judge(
    asked: &[CommitLog],
    size: usize,
) -> Result<DurableWhen, Finding> {
    let Some(periodic) = asked.iter().find(|node| !is_synced(node)) else {
        return if asked.is_empty() {
            Err(unfit(
                "no node told its commit log settings".to_owned(),
                "check that the nodes are up",
            ))
        } else {
            Ok(DurableWhen::Acknowledged)
        };
    };
    let name = &periodic.node;
    if size > 1 {
        let sync = &periodic.sync;
        return Err(unfit(
            format!(
                "node {name} has commitlog_sync: {sync}, with which acknowledged writes are not \
                 durable where there are several nodes"
            ),
            "set commitlog_sync: batch or group in cassandra.yaml of every node",
        ));
    }
    if let Some(setting) = periodic.buffered {
        let sync = &periodic.sync;
        return Err(unfit(
            format!(
                "node {name} has commitlog_sync: {sync} with {setting}, where a crash loses \
                 acknowledged writes long after"
            ),
            format!(
                "remove {setting} from cassandra.yaml, or set commitlog_sync to batch or group"
            ),
        ));
    }
    let period = periodic.period.unwrap_or(DEFAULT_PERIOD);
    let block = periodic.lag_block.unwrap_or_default();
    Ok(DurableWhen::FollowedAfter(period.max(block) * 3 / 2))
}

fn unfit(what: String, fix: impl Into<String>) -> Finding {
    Finding::new(Severity::Unfit, what, fix)
}

fn is_synced(node: &CommitLog) -> bool {
    matches!(node.sync.as_str(), "batch" | "group")
}

/// A duration as Cassandra shows it: a number with `ms`, `s`, `m`, `us` or `ns`, or milliseconds.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().ok()?;
    match unit.trim() {
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "us" | "µs" => Some(Duration::from_micros(number)),
        "ns" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, sync: &str) -> CommitLog {
        CommitLog {
            node: name.to_owned(),
            sync: sync.to_owned(),
            period: Some(Duration::from_secs(1)),
            ..CommitLog::default()
        }
    }

    #[test]
    fn synced_nodes_need_no_wait() {
        let nodes = [node("a", "batch"), node("b", "group")];
        assert_eq!(judge(&nodes, 2), Ok(DurableWhen::Acknowledged));
    }

    #[test]
    fn one_periodic_node_is_waited_for_half_as_long_again_as_its_period_or_block() {
        let waits = |node| judge(&[node], 1).expect("allowed");
        let one = node("a", "periodic");
        let expected = Duration::from_millis(1_500);
        assert_eq!(waits(one.clone()), DurableWhen::FollowedAfter(expected));
        let lag_block = Some(Duration::from_secs(4));
        let blocked = CommitLog { lag_block, ..one };
        let expected = Duration::from_secs(6);
        assert_eq!(waits(blocked.clone()), DurableWhen::FollowedAfter(expected));
        let silent = CommitLog {
            period: None,
            lag_block: None,
            ..blocked
        };
        let expected = Duration::from_secs(15);
        assert_eq!(waits(silent), DurableWhen::FollowedAfter(expected));
    }

    #[test]
    fn what_could_lose_writes_unseen_is_refused_by_the_setting_s_name() {
        let several = judge(&[node("a", "batch"), node("b", "periodic")], 2).expect_err("refused");
        let several = several.to_string();
        assert!(several.contains("node b has commitlog_sync"), "{several}");
        let compressed = CommitLog {
            buffered: Some("commitlog_compression"),
            ..node("a", "periodic")
        };
        let compressed = judge(&[compressed], 1).expect_err("refused");
        let compressed = compressed.to_string();
        assert!(
            compressed.contains("remove commitlog_compression"),
            "{compressed}"
        );
        assert!(judge(&[], 3).is_err());
        let down = judge(&[node("b", "periodic")], 2);
        assert!(
            down.is_err(),
            "the node that is down may hold the only copy"
        );
    }

    #[test]
    fn durations_are_read_as_cassandra_shows_them() {
        let second = Some(Duration::from_secs(1));
        for text in ["1000ms", "1000", "1s", "1000000us"] {
            assert_eq!(parse_duration(text), second, "{text:?}");
        }
        assert_eq!(parse_duration("10m"), Some(Duration::from_mins(10)));
        for text in ["", "null", "s", "1 day"] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }
}
