//! Watermarks of partitions and the low watermark of a topic (R12).

use crate::time::Micros;
use std::collections::BTreeMap;

/// The watermarks of all registered partitions of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    partitions: BTreeMap<u32, Micros>,
}

impl Watermarks {
    /// A topic with these registered partitions and their initial effective times.
    pub fn new(partitions: impl IntoIterator<Item = (u32, Micros)>) -> Self {
        Self {
            partitions: partitions.into_iter().collect(),
        }
    }

    /// Adds a partition that was registered, with its initial effective time, unless it is known.
    /// Says whether it was new.
    pub fn register(&mut self, partition: u32, initial: Micros) -> bool {
        let known = self.partitions.len();
        self.partitions.entry(partition).or_insert(initial);
        self.partitions.len() > known
    }

    /// Takes a published watermark, and says whether it moved its partition. Older truths change
    /// nothing, so a zombie's does no harm; a partition that is not registered is not known here.
    pub fn advance(&mut self, partition: u32, watermark: Micros) -> bool {
        match self.partitions.get_mut(&partition) {
            Some(known) if *known < watermark => {
                *known = watermark;
                true
            }
            _ => false,
        }
    }

    /// The low watermark: every record of the topic with an effective time below it is decided
    /// and durable. `None` without partitions: nothing may close.
    pub fn low(&self) -> Option<Micros> {
        self.partitions.values().copied().min()
    }

    /// Each partition's watermark.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Micros)> {
        self.partitions
            .iter()
            .map(|(partition, at)| (*partition, *at))
    }
}
