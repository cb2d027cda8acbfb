//! When a batch closes: a machine without IO. Time comes in as a value.

use super::options::BatcherOptions;
use std::{collections::BTreeMap, mem, time::Duration};

/// Batches that are still gathering, one for each namespace.
#[derive(Debug)]
pub(crate) struct Gathering<T> {
    limits: BatcherOptions,
    open: BTreeMap<String, Open<T>>,
}

#[derive(Debug)]
struct Open<T> {
    items: Vec<T>,
    bytes: usize,
    /// When it closes at the latest.
    due: Duration,
}

/// A batch to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed<T> {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its items, in the order in which they came.
    pub(crate) items: Vec<T>,
}

impl<T> Gathering<T> {
    /// Nothing yet.
    pub(crate) fn new(limits: BatcherOptions) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
        }
    }

    /// Takes an item. Returns the batch that it completes, or that had no room for it.
    pub(crate) fn push(
        &mut self,
        namespace: &str,
        item: T,
        bytes: usize,
        now: Duration,
    ) -> Option<Closed<T>> {
        let limits = self.limits;
        let due = now + limits.linger;
        let fresh = || Open {
            items: Vec::new(),
            bytes: 0,
            due,
        };
        if !self.open.contains_key(namespace) {
            self.open.insert(namespace.to_owned(), fresh());
        }
        let open = self.open.get_mut(namespace).expect("it was just made");
        let no_room = !open.items.is_empty() && open.bytes + bytes > limits.batch_bytes;
        let before = no_room.then(|| mem::replace(open, fresh()));
        open.items.push(item);
        open.bytes += bytes;
        let full = open.items.len() >= limits.batch_items || open.bytes >= limits.batch_bytes;
        match before {
            // The item alone may fill a batch, too: then it closes at once, below.
            Some(before) => {
                if full {
                    open.due = now;
                }
                Some(Closed {
                    namespace: namespace.to_owned(),
                    items: before.items,
                })
            }
            None if full => self.close(namespace),
            None => None,
        }
    }

    /// When the next batch closes.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.open.values().map(|open| open.due).min()
    }

    /// Closes what has lingered for long enough.
    pub(crate) fn close_due(&mut self, now: Duration) -> Vec<Closed<T>> {
        let due = self.open.iter().filter(|(_, open)| open.due <= now);
        let due: Vec<_> = due.map(|(namespace, _)| namespace.clone()).collect();
        due.iter().filter_map(|name| self.close(name)).collect()
    }

    /// Closes all.
    pub(crate) fn close_all(&mut self) -> Vec<Closed<T>> {
        let all = mem::take(&mut self.open).into_iter();
        all.map(|(namespace, Open { items, .. })| Closed { namespace, items })
            .collect()
    }

    fn close(&mut self, namespace: &str) -> Option<Closed<T>> {
        let (namespace, open) = self.open.remove_entry(namespace)?;
        let items = open.items;
        Some(Closed { namespace, items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn limits(batch_items: usize, batch_bytes: usize) -> BatcherOptions {
        BatcherOptions {
            batch_items,
            batch_bytes,
            linger: 5 * MS,
            ..BatcherOptions::default()
        }
    }

    #[test]
    fn a_batch_closes_when_it_is_full_or_has_lingered() {
        let mut gathering = Gathering::new(limits(2, 100));
        assert_eq!(gathering.push("a", 1, 10, MS), None);
        assert_eq!(gathering.push("b", 2, 10, 3 * MS), None);
        let full = gathering.push("a", 3, 10, 4 * MS).unwrap();
        assert_eq!((full.namespace.as_str(), full.items), ("a", vec![1, 3]));
        assert_eq!(gathering.next_due(), Some(8 * MS));
        assert!(gathering.close_due(7 * MS).is_empty());
        assert_eq!(gathering.close_due(8 * MS)[0].items, [2]);
        assert_eq!(gathering.next_due(), None);
    }

    #[test]
    fn an_item_larger_than_a_batch_goes_alone_and_at_once() {
        let mut gathering = Gathering::new(limits(10, 100));
        gathering.push("a", 1, 10, MS);
        assert_eq!(gathering.push("a", 2, 500, MS).unwrap().items, [1]);
        assert_eq!(gathering.close_due(MS)[0].items, [2]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u8, usize),
        Pass(u64),
        CloseAll,
    }

    proptest! {
        #[test]
        fn every_item_leaves_once_in_order_in_time_and_within_the_limits(
            steps in prop::collection::vec(prop_oneof![
                (0_u8..3, 1_usize..60).prop_map(|(name, bytes)| Step::Push(name, bytes)),
                (0_u64..9).prop_map(Step::Pass),
                Just(Step::CloseAll),
            ], 0..200)
        ) {
            let mut gathering = Gathering::new(limits(4, 100));
            let mut now = Duration::ZERO;
            let mut pushed: BTreeMap<String, Vec<(usize, usize, Duration)>> = BTreeMap::new();
            let mut left: BTreeMap<String, Vec<(usize, usize, Duration)>> = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                let closed: Vec<_> = match step {
                    Step::Push(name, bytes) => {
                        let item = (number, bytes, now);
                        pushed.entry(name.to_string()).or_default().push(item);
                        gathering.push(&name.to_string(), item, bytes, now).into_iter().collect()
                    }
                    Step::Pass(millis) => {
                        now += MS * u32::try_from(millis).unwrap();
                        gathering.close_due(now)
                    }
                    Step::CloseAll => gathering.close_all(),
                };
                for batch in closed {
                    prop_assert!((1..=4).contains(&batch.items.len()));
                    prop_assert!(batch.items.iter().map(|item| item.1).sum::<usize>() <= 100);
                    left.entry(batch.namespace).or_default().extend(batch.items);
                }
                let waits = gathering.next_due().map_or(0, |due| due.saturating_sub(now).as_millis());
                prop_assert!(waits <= 5);
            }
            for batch in gathering.close_all() {
                left.entry(batch.namespace).or_default().extend(batch.items);
            }
            prop_assert_eq!(left, pushed);
        }
    }
}
