//! The registered partitions of the events topics (R12): part of the history, in effective time.

use quipu_core::time::Micros;
use std::collections::BTreeMap;

/// A partition that is read and that closing waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredPartition {
    /// Which partition.
    pub partition: u32,
    /// The effective moment that it begins at: its initial effective time and first watermark.
    pub effective_from: Micros,
}

/// Every registered partition, and how far in effective time that may be relied on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    topics: BTreeMap<String, Vec<Micros>>,
    pub(super) valid_through: Micros,
}

impl Topics {
    /// Reads the registry as it is stored.
    pub(super) fn from_json(json: &str) -> Result<Self, String> {
        let stored: BTreeMap<String, Vec<i64>> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let moments = |moments: Vec<i64>| moments.into_iter().map(Micros::new).collect();
        let topics = stored.into_iter().map(|(name, from)| (name, moments(from)));
        Ok(Self {
            topics: topics.collect(),
            valid_through: Micros::MIN,
        })
    }

    /// The registry as it is stored.
    pub(super) fn to_json(&self) -> String {
        let micros = |moments: &Vec<Micros>| moments.iter().map(|from| from.get()).collect();
        let stored: BTreeMap<&str, Vec<i64>> = self
            .topics
            .iter()
            .map(|(name, from)| (name.as_str(), micros(from)))
            .collect();
        serde_json::to_string(&stored).expect("names and numbers are JSON")
    }

    /// No partition may be missed through this effective time.
    pub fn valid_through(&self) -> Micros {
        self.valid_through
    }

    /// The partitions of a topic, in their order. None for a topic that is not registered.
    pub fn partitions(&self, topic: &str) -> Vec<RegisteredPartition> {
        let moments = self.topics.get(topic).into_iter().flatten();
        let partition = |(partition, effective_from): (u32, &Micros)| RegisteredPartition {
            partition,
            effective_from: *effective_from,
        };
        (0..).zip(moments).map(partition).collect()
    }

    /// Registers partitions until the topic has `count`, the new ones from a moment on. Whether any
    /// was missing.
    pub(super) fn extend(&mut self, topic: &str, count: u32, from: Micros) -> bool {
        let moments = self.topics.entry(topic.to_owned()).or_default();
        let missing = (count as usize).saturating_sub(moments.len());
        moments.extend(std::iter::repeat_n(from, missing));
        missing > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_partitions_begin_later_and_old_ones_stay() {
        let mut topics = Topics::default();
        assert!(topics.extend("events", 2, Micros::new(5)));
        assert!(!topics.extend("events", 1, Micros::new(7)));
        assert!(topics.extend("events", 3, Micros::new(9)));
        let read = Topics::from_json(&topics.to_json()).expect("it was written so");
        let partitions = read.partitions("events");
        let moments: Vec<_> = partitions
            .iter()
            .map(|it| (it.partition, it.effective_from.get()))
            .collect();
        assert_eq!(moments, [(0, 5), (1, 5), (2, 9)]);
        assert_eq!(read.partitions("other"), []);
    }
}
