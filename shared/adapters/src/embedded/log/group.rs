//! A group: the requests that one write and one sync answer together.

use super::{
    format::{TOPICS, body_bytes, topic_number},
    meta::FrontierKey,
    request::{Answer, Append},
    store::Store,
};
use crate::ports::{Appended, Body, Committed, LogError, Topic};
use quipu_core::time::Micros;
use std::collections::BTreeMap;
use tokio::sync::OwnedSemaphorePermit;

/// Requests gathered so far, with the offsets that they will have.
pub(super) struct Group {
    /// By topic and partition.
    bodies: [Vec<Vec<Body>>; 3],
    ends: [Vec<u64>; 3],
    appends: Vec<(Vec<Appended>, Answer<Vec<Appended>>, OwnedSemaphorePermit)>,
    commits: Vec<Answer<()>>,
    frontiers: BTreeMap<FrontierKey, Committed>,
    bytes: usize,
}

impl Group {
    /// An empty group at the log's ends.
    pub(super) fn new(store: &Store) -> Self {
        let ends = TOPICS.map(|topic| store.topic(topic).ends());
        Self {
            bodies: ends.each_ref().map(|ends| vec![Vec::new(); ends.len()]),
            ends,
            appends: Vec::new(),
            commits: Vec::new(),
            frontiers: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// The size of what is to be appended.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it needs a time and a sync.
    pub(super) fn appends(&self) -> bool {
        !self.appends.is_empty()
    }

    /// Takes an append, and places its records.
    pub(super) fn append(&mut self, request: Append) {
        let topic = usize::from(topic_number(request.topic));
        let places = request.records.into_iter().map(|record| {
            let bodies = &mut self.bodies[topic][record.partition as usize];
            let offset = self.ends[topic][record.partition as usize] + bodies.len() as u64;
            self.bytes += body_bytes(&record.body);
            bodies.push(record.body);
            Appended {
                partition: record.partition,
                offset,
                append_time: Micros::MIN,
            }
        });
        let places = places.collect();
        self.appends.push((places, request.answer, request.charge));
    }

    /// Takes a commit. A frontier never goes back, and never lies beyond what is durable.
    pub(super) fn commit(
        &mut self,
        store: &Store,
        frontiers: Vec<(FrontierKey, Committed)>,
        answer: Answer<()>,
    ) {
        let known = store.frontiers();
        for (key, frontier) in frontiers {
            let end = self.ends[usize::from(key.topic)][key.partition as usize];
            if frontier.next_offset > end {
                let text = format!("{key:?} is committed at {frontier:?}, beyond its end {end}");
                // The caller that stopped waiting has nothing to do about it either.
                answer.send(Err(LogError::Damaged(text))).ok();
                return;
            }
            let before = self.frontiers.get(&key).or_else(|| known.get(&key));
            if let Some(advanced) = advance(before.copied(), frontier) {
                self.frontiers.insert(key, advanced);
            }
        }
        self.commits.push(answer);
    }

    /// The frontiers to write.
    pub(super) fn frontiers(&self) -> &BTreeMap<FrontierKey, Committed> {
        &self.frontiers
    }

    /// Takes the records of a topic out: by partition, with the offset of the first one.
    pub(super) fn take_bodies(&mut self, topic: Topic) -> Vec<(u32, u64, Vec<Body>)> {
        let topic = usize::from(topic_number(topic));
        let bodies = std::mem::take(&mut self.bodies[topic]);
        let placed = (0..).zip(&self.ends[topic]).zip(bodies);
        let placed = placed.filter(|(_, bodies)| !bodies.is_empty());
        placed
            .map(|((partition, base), bodies)| (partition, *base, bodies))
            .collect()
    }

    /// Drops the appends, which were not stamped; the commits stay.
    pub(super) fn refuse_appends(&mut self, error: &LogError) {
        self.bodies.iter_mut().flatten().for_each(Vec::clear);
        for (_, answer, _) in self.appends.drain(..) {
            answer.send(Err(error.clone())).ok();
        }
    }

    /// Answers everybody: it is written, and synced if it appended anything.
    pub(super) fn succeed(self, append_time: Micros) {
        for (mut places, answer, _charge) in self.appends {
            for place in &mut places {
                place.append_time = append_time;
            }
            answer.send(Ok(places)).ok();
        }
        for answer in self.commits {
            answer.send(Ok(())).ok();
        }
    }

    /// Answers everybody that it failed.
    pub(super) fn fail(mut self, error: &LogError) {
        self.refuse_appends(error);
        for answer in self.commits {
            answer.send(Err(error.clone())).ok();
        }
    }
}

/// A frontier that is no step back, joined with the one before; `None` when nothing changes.
fn advance(before: Option<Committed>, to: Committed) -> Option<Committed> {
    let Some(before) = before else {
        return Some(to);
    };
    if to.next_offset < before.next_offset {
        return None;
    }
    let effective_time = before.effective_time.max(to.effective_time);
    let joined = Committed {
        effective_time,
        ..to
    };
    (joined != before).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next_offset: u64, micros: i64) -> Committed {
        Committed {
            next_offset,
            effective_time: Micros::new(micros),
        }
    }

    #[test]
    fn a_frontier_never_goes_back_in_offset_or_time() {
        assert_eq!(advance(None, at(3, 3)), Some(at(3, 3)));
        assert_eq!(advance(Some(at(3, 3)), at(2, 9)), None);
        assert_eq!(advance(Some(at(3, 3)), at(3, 3)), None);
        assert_eq!(advance(Some(at(3, 3)), at(4, 2)), Some(at(4, 3)));
        assert_eq!(advance(Some(at(3, 3)), at(3, 5)), Some(at(3, 5)));
    }
}
