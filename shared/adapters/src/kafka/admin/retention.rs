//! Whether events are stored for as long as the log may bring them again (R19).

use super::{
    alter,
    findings::{AcceptLimit, Installed, TopicFacts},
};
use crate::finding::{Finding, Severity};
use humantime::format_duration;
use std::time::Duration;

const KEPT: &str = "retention.ms";
/// Kafka deletes whole segments, so a record may be there for this much longer.
const SEGMENT: &str = "segment.ms";
const FOR_EVER: &str = "-1";

/// An events topic that holds records whose events may no longer be stored.
pub(super) fn too_short(name: &str, topic: &TopicFacts, installed: &Installed) -> Option<Finding> {
    let millis = |key| {
        let millis = topic.config.get(key)?.parse().ok()?;
        Some(Duration::from_millis(millis))
    };
    let (stored, segment) = (installed.events_stored, millis(SEGMENT)?);
    let longest = installed.longest_limit.as_ref();
    let limit = longest.map_or(Duration::ZERO, |longest| longest.limit);
    let most = stored.saturating_sub(segment + limit);
    let keep_less = (!most.is_zero()).then(|| alter(name, KEPT, most.as_millis()));
    let stored_time = format_duration(stored);
    if topic.config.get(KEPT)? == FOR_EVER {
        let what = format!(
            "topic {name} keeps records for ever ({KEPT}={FOR_EVER}), and events are stored for \
             {stored_time} (cassandra.retention): reading the topic again from its beginning is \
             not covered"
        );
        let fix = ["read again only what is younger".to_owned()];
        let fix = fix.into_iter().chain(keep_less).collect::<Vec<_>>();
        return Some(Finding::new(Severity::Advice, what, fix.join("; or ")));
    }
    let kept = millis(KEPT)?;
    let needed = kept + segment + limit;
    (stored < needed).then(|| {
        let (kept, segment) = (format_duration(kept), format_duration(segment));
        let (needed, accepted) = (format_duration(needed), longest.map(accepted));
        let what = format!(
            "events are stored for {stored_time} (cassandra.retention), but topic {name} keeps \
             records for {kept} ({KEPT}) and up to {segment} more ({SEGMENT}){}, {needed} in all: \
             what is read again from its beginning can be of slices that are dropped",
            accepted.unwrap_or_default()
        );
        let fix = [format!(
            "set cassandra.retention = \"{needed}\" or more, for all roles"
        )];
        let fix = fix.into_iter().chain(keep_less).collect::<Vec<_>>();
        Finding::new(Severity::Problem, what, fix.join("; or "))
    })
}

fn accepted(longest: &AcceptLimit) -> String {
    let AcceptLimit { namespace, limit } = longest;
    let limit = format_duration(*limit);
    format!(", and namespace {namespace} accepts events that are {limit} old (accept_limit)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn told(kept: &str, stored: Duration, limit: Duration) -> Option<Finding> {
        let config = [(KEPT, kept), (SEGMENT, "3600000")];
        let topic = TopicFacts {
            config: config
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..TopicFacts::default()
        };
        let installed = Installed {
            events_stored: stored,
            longest_limit: Some(AcceptLimit {
                namespace: "web".to_owned(),
                limit,
            }),
            ..Installed::default()
        };
        too_short("t", &topic, &installed)
    }

    #[test]
    fn records_segments_and_the_accept_limit_must_fit_together_to_the_millisecond() {
        let (kept, limit) = ("7200000", HOUR / 2);
        assert_eq!(told(kept, HOUR * 7 / 2, limit), None);
        let missed = Duration::from_millis(12_599_999);
        let found = told(kept, missed, limit).expect("told");
        assert_eq!(found.severity, Severity::Problem);
        for number in [
            "3h 29m",
            "2h (retention.ms)",
            "1h more (segment.ms)",
            "30m old",
        ] {
            assert!(found.what.contains(number), "{number}: {found}");
        }
        assert!(
            found.fix.contains("cassandra.retention = \"3h 30m\""),
            "{found}"
        );
        assert!(found.fix.contains("retention.ms=7199999"), "{found}");
    }

    #[test]
    fn a_topic_is_not_told_to_keep_records_for_less_than_nothing() {
        let found = told("7200000", HOUR, HOUR).expect("told");
        assert!(!found.fix.contains("kafka-configs"), "{found}");
    }

    #[test]
    fn records_that_are_kept_for_ever_are_allowed_with_advice() {
        let found = told("-1", HOUR, HOUR).expect("told");
        assert_eq!(found.severity, Severity::Advice);
        assert!(found.what.contains("is not covered"), "{found}");
        let found = told("-1", HOUR * 4, HOUR).expect("told");
        assert!(found.fix.contains("retention.ms=7200000"), "{found}");
    }
}
