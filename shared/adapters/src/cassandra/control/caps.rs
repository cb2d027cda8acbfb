//! The append times that operators capped, as they are stored: part of the history (R3, R5).

use quipu_core::{
    caps::{CappedRange, CappedRanges},
    time::Micros,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The capped append times of each topic.
pub(super) type Caps = BTreeMap<String, CappedRanges>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    partition: u32,
    first: u64,
    last: u64,
    time_micros: i64,
    above_micros: i64,
}

/// Reads them as they are stored.
pub(super) fn from_json(json: &str) -> Result<Caps, String> {
    let stored: BTreeMap<String, Vec<Stored>> =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    let topics = stored.into_iter().map(|(topic, stored)| {
        let mut ranges = CappedRanges::none();
        for stored in stored {
            let range = CappedRange {
                partition: stored.partition,
                first: stored.first,
                last: stored.last,
                time: Micros::new(stored.time_micros),
                above: Micros::new(stored.above_micros),
            };
            let added = ranges.add(range);
            added.map_err(|error| format!("a capped stretch of {topic}: {error}"))?;
        }
        Ok((topic, ranges))
    });
    topics.collect()
}

/// What is stored of them.
pub(super) fn to_json(caps: &Caps) -> String {
    let stored = |range: &CappedRange| Stored {
        partition: range.partition,
        first: range.first,
        last: range.last,
        time_micros: range.time.get(),
        above_micros: range.above.get(),
    };
    let topics: BTreeMap<&str, Vec<Stored>> = caps
        .iter()
        .map(|(topic, ranges)| (topic.as_str(), ranges.iter().map(stored).collect()))
        .collect();
    serde_json::to_string(&topics).expect("names and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_read_back_in_their_order_and_are_written_as_they_always_were() {
        let range = |first, above| CappedRange {
            partition: 3,
            first,
            last: 9,
            time: Micros::new(-5),
            above: Micros::new(above),
        };
        let mut ranges = CappedRanges::none();
        for range in [range(7, 10), range(2, 10), range(1, 11)] {
            ranges.add(range).expect("in order");
        }
        let caps = Caps::from([("events".to_owned(), ranges)]);
        let json = to_json(&caps);
        assert_eq!(from_json(&json).expect("it was written so"), caps);
        let first =
            r#"{"events":[{"partition":3,"first":7,"last":9,"time_micros":-5,"above_micros":10},"#;
        assert!(json.starts_with(first), "{json}");
    }

    #[test]
    fn caps_out_of_order_are_damage() {
        let stretch = |above: i64| {
            format!(
                r#"{{"partition":0,"first":1,"last":1,"time_micros":0,"above_micros":{above}}}"#
            )
        };
        let json = format!(r#"{{"events":[{},{}]}}"#, stretch(5), stretch(4));
        let error = from_json(&json).expect_err("refused");
        assert!(error.starts_with("a capped stretch of events: "), "{error}");
    }
}
