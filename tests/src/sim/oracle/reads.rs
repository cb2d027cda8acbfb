//! What accurate reads must be.

use super::fold;
use crate::sim::{reads::Answer, world::World};
use quipu_core::{
    event::{CounterKey, StoredEvent},
    time::Micros,
};
use std::collections::BTreeMap;

impl World {
    /// An accurate read begins, and reads up to a time.
    pub(in crate::sim) fn check_newest(&mut self, counter: &CounterKey, newest: Micros) {
        let rows = self.events.rows.get(counter).into_iter().flatten();
        let later = rows
            .map(|(key, _)| key.event_time)
            .find(|time| *time > newest);
        if let Some(later) = later {
            self.violate(format!(
                "{counter:?} has an event at {later}, and is read to {newest}"
            ));
        }
    }

    /// An accurate read was answered: with the checkpoint that it stands on, and all that was stored
    /// since at the moment of its scan.
    pub(in crate::sim) fn check_read(&mut self, read: &Answer) {
        let Answer {
            counter, based_on, ..
        } = read;
        self.note(&format!(
            "read {}/{} = {} on {based_on} through {}",
            counter.namespace.0, counter.name, read.count, read.complete_through
        ));
        if self.is_abandoned(counter) {
            return;
        }
        let is_new = |event: &&StoredEvent| {
            let at = event.key.event_time;
            *based_on < at && at <= read.newest
        };
        let accepted = self.oracle.accepted.get(counter);
        let accepted = accepted.into_iter().flat_map(BTreeMap::values);
        let old = accepted.clone().filter(|it| it.key.event_time <= *based_on);
        let expected = fold(old.chain(read.seen.iter().filter(is_new)));
        let mut complete = accepted
            .filter(is_new)
            .filter(|it| it.key.event_time <= read.complete_through);
        let missing = complete.find(|it| !read.seen.iter().any(|seen| seen.key == it.key));
        if expected != read.count {
            self.violate(format!("not what is stored, {expected}: {read:?}"));
        } else if let Some(missing) = missing {
            self.violate(format!("{missing:?} is missing in {read:?}"));
        }
    }
}
