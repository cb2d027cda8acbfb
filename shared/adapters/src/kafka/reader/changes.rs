//! Changes of the group: partitions come, are handed back once the role has finished them, or are
//! gone. While a revocation is unanswered librdkafka fetches nothing of the other partitions
//! either, so the role answers soon; what was read before goes on.

use super::{Delivered, Position, RETRY, Reader};
use crate::{
    kafka::{context::Change, list},
    metrics::stores::UNREGISTERED,
    ports::{Assignment, Committed, LogError, Topic},
};
use quipu_core::time::Micros;
use rdkafka::{Offset, consumer::Consumer, error::KafkaError};
use std::{collections::BTreeSet, time::Instant};

impl Reader {
    pub(super) fn see_to_changes(&mut self) {
        while let Some(change) = self.setup.consumer.context().next_change() {
            match change {
                Change::Assigned(partitions) => {
                    let (assigning, due) =
                        self.assigning.get_or_insert((Vec::new(), Instant::now()));
                    assigning.extend(partitions);
                    *due = Instant::now();
                }
                Change::Revoked(partitions) => self.on_revoked(partitions),
                Change::Lost(partitions) => self.on_lost(&partitions),
            }
        }
        if let Some((partitions, due)) = self.assigning.take() {
            if due <= Instant::now() {
                self.assign(partitions);
            } else {
                self.assigning = Some((partitions, due));
            }
        }
        self.look_for_registered();
    }

    /// Looks up where partitions start, and has the client read them from there.
    fn assign(&mut self, partitions: Vec<u32>) {
        let (known, unknown) = self.split_registered(&partitions);
        match self.source().starts(&known) {
            Ok(starts) => {
                // Those that nobody registered belong to the assignment, too, but are not read.
                let unread = unknown.iter().map(|id| (*id, Offset::Beginning));
                let read = starts
                    .iter()
                    .map(|(id, at)| (*id, list::offset(at.next_offset)));
                self.assign_at(read.chain(unread).collect());
                if !unknown.is_empty() {
                    self.pause(&unknown);
                    self.on_unregistered(unknown);
                }
                self.begin(starts);
            }
            Err(error @ LogError::Unavailable(_)) => {
                tracing::warn!(%error, "could not look up where to read from; trying again");
                self.assigning = Some((partitions, Instant::now() + RETRY));
            }
            Err(error) => {
                // The group waits for an answer, whatever the role does next.
                self.assign_at(Vec::new());
                self.fail(error);
            }
        }
    }

    fn assign_at(&mut self, offsets: Vec<(u32, Offset)>) {
        let assigned = list::at(self.name(), offsets)
            .and_then(|list| self.setup.consumer.incremental_assign(&list));
        self.check(assigned, "take over partitions");
    }

    fn check(&mut self, done: Result<(), KafkaError>, what: &str) {
        if let Err(error) = done {
            let text = format!("the client could not {what}: {error}");
            self.fail(LogError::Damaged(text));
        }
    }

    /// Registered partitions with their initial times, and the others.
    fn split_registered(&self, partitions: &[u32]) -> (Vec<(u32, Micros)>, Vec<u32>) {
        let registered = self.setup.registered.as_ref().map(|it| it.borrow().clone());
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for partition in partitions {
            match &registered {
                None => known.push((*partition, Micros::MIN)),
                Some(registered) => match registered.get(partition) {
                    Some(initial) => known.push((*partition, *initial)),
                    None => unknown.push(*partition),
                },
            }
        }
        (known, unknown)
    }

    fn on_unregistered(&mut self, partitions: Vec<u32>) {
        tracing::error!(
            ?partitions,
            topic = self.name(),
            "partitions exist that are not registered: they are not read, and no window closes \
             until they are; register them with `quipu admin add-partitions`"
        );
        self.unregistered.extend(partitions);
        self.count_unregistered();
    }

    fn count_unregistered(&self) {
        let count = u32::try_from(self.unregistered.len()).unwrap_or(u32::MAX);
        metrics::gauge!(UNREGISTERED, "topic" => self.name().to_owned()).set(f64::from(count));
    }

    /// Reads partitions that were registered since they were assigned.
    fn look_for_registered(&mut self) {
        if self.unregistered.is_empty() || self.throttled {
            return;
        }
        let unregistered: Vec<u32> = self.unregistered.iter().copied().collect();
        let (known, _) = self.split_registered(&unregistered);
        if known.is_empty() {
            return;
        }
        match self.source().starts(&known) {
            Ok(starts) => {
                for (partition, _) in &starts {
                    self.unregistered.remove(partition);
                }
                self.count_unregistered();
                let since = self.assignments;
                self.begin(starts);
                self.resume(|position| position.number().0 > since);
            }
            Err(LogError::Unavailable(error)) => {
                tracing::debug!(error, "could not look up where to read from; trying again");
            }
            Err(error) => self.fail(error),
        }
    }

    /// Tells the role of partitions that are read from now on.
    fn begin(&mut self, starts: Vec<(u32, Committed)>) {
        let mut assigned = Vec::with_capacity(starts.len());
        for (partition, start) in starts {
            self.assignments += 1;
            let position = Position::new(start.next_offset, self.assignments);
            self.positions.insert(partition, position);
            assigned.push((Assignment { partition, start }, self.assignments));
        }
        if assigned.is_empty() {
            return;
        }
        tracing::info!(topic = self.name(), ?assigned, "took over partitions");
        if self.throttled {
            let all: Vec<u32> = assigned.iter().map(|(it, _)| it.partition).collect();
            self.pause(&all);
        }
        self.outbox.push_back(Delivered::Assigned(assigned));
    }

    /// Signals that are gone: reading goes on with the oldest that is left.
    pub(super) fn start_again(&mut self, partition: u32, beginning: u64) {
        assert_ne!(
            self.setup.topic,
            Topic::Events,
            "events are never passed over"
        );
        self.outbox.push_back(Delivered::Lost(vec![partition]));
        let start = Committed {
            next_offset: beginning,
            effective_time: Micros::MIN,
        };
        let since = self.assignments;
        self.begin(vec![(partition, start)]);
        self.resume(|position| position.number().0 > since);
    }

    fn on_revoked(&mut self, partitions: Vec<u32>) {
        let read: BTreeSet<u32> = self.stop_reading(&partitions);
        tracing::info!(topic = self.name(), ?partitions, "handing partitions back");
        if read.is_empty() {
            self.unassign(&partitions);
            return;
        }
        self.outbox
            .push_back(Delivered::Revoked(read.iter().copied().collect()));
        let (all, unreleased) = self.leaving.get_or_insert_default();
        all.extend(partitions);
        unreleased.extend(read);
    }

    pub(super) fn on_released(&mut self, partitions: &[u32]) {
        let Some((_, unreleased)) = &mut self.leaving else {
            return;
        };
        for partition in partitions {
            unreleased.remove(partition);
        }
        if unreleased.is_empty() {
            let all = self.leaving.take().map(|(all, _)| all).unwrap_or_default();
            self.unassign(&all);
        }
    }

    fn on_lost(&mut self, partitions: &[u32]) {
        let mut gone: BTreeSet<u32> = self.stop_reading(partitions);
        if let Some((_, unreleased)) = self.leaving.take() {
            gone.extend(unreleased);
        }
        self.assigning = None;
        self.unassign(partitions);
        if !gone.is_empty() {
            self.outbox
                .push_back(Delivered::Lost(gone.into_iter().collect()));
        }
    }

    /// Returns those that the role knows of.
    pub(super) fn stop_reading(&mut self, partitions: &[u32]) -> BTreeSet<u32> {
        let mut read = BTreeSet::new();
        for partition in partitions {
            self.close_batch(*partition);
            if self.positions.remove(partition).is_some() {
                read.insert(*partition);
            }
            self.unregistered.remove(partition);
        }
        self.count_unregistered();
        read
    }

    fn unassign(&mut self, partitions: &[u32]) {
        // The client refuses a list with a partition that it has not, and the group would wait.
        let assigned = self.setup.consumer.assignment();
        let assigned = assigned.map(|list| list::partitions(&list));
        let done = assigned.and_then(|assigned| {
            let known = partitions.iter().filter(|id| assigned.contains(id));
            let list = list::of(self.name(), known.copied());
            self.setup.consumer.incremental_unassign(&list)
        });
        self.check(done, "hand partitions back");
    }

    /// Answers what the group still waits for: a consumer that owes it an answer never closes.
    pub(super) fn close(mut self) {
        self.setup.consumer.context().close();
        if self.assigning.take().is_some() {
            self.assign_at(Vec::new());
        }
        if let Some((all, _)) = self.leaving.take() {
            self.unassign(&all);
        }
        while let Some(change) = self.setup.consumer.context().next_change() {
            match change {
                Change::Assigned(_) => self.assign_at(Vec::new()),
                Change::Revoked(partitions) | Change::Lost(partitions) => {
                    self.unassign(&partitions);
                }
            }
        }
    }
}
