//! What a producer attempts next. Pure: time comes in as a value, randomness from a seed.

use crate::{entry::Entry, poison};
use fastrand::Rng;
use quipu_core::{
    event::{EventKey, Mutation},
    key::{key_bytes, partition, route},
    name::{CounterName, ItemKey, Namespace, Token},
    time::Micros,
};
use std::time::Duration;

/// Deltas are below this: 40 random bits name the event that a wrong sum lacks or has twice.
const DELTAS: i64 = 1 << 40;
const HOUR: i64 = 3_600_000_000;

/// How many of a thousand attempts are something special. The others are adds, made now and sent
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Straight to the log, past the gateway.
    pub direct: u16,
    /// Sent again, to where it was sent before.
    pub again: u16,
    /// Sent again, straight to a partition of the log that is not the counter's.
    pub elsewhere: u16,
    /// Clears, half of them at the very microsecond of the add before.
    pub clears: u16,
    /// As old as the accept limit, or a millisecond older or younger.
    pub at_limit: u16,
    /// By a producer whose clock is an hour off.
    pub hour_off: u16,
    /// No events at all, straight to the log.
    pub poison: u16,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            direct: 100,
            again: 30,
            elsewhere: 10,
            clears: 5,
            at_limit: 0,
            hour_off: 0,
            poison: 0,
        }
    }
}

/// What is attempted of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Its name.
    pub(crate) namespace: Namespace,
    /// How many counters.
    pub(crate) counters: u32,
    /// The partitions of the events topic.
    pub(crate) partitions: u32,
    /// The namespace's accept limit.
    pub(crate) accept_limit: Duration,
    /// What is special.
    pub(crate) mix: Mix,
}

/// One way to send an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Gateway,
    /// To a partition of the events topic.
    Log(u32),
}

/// Something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// An event, and the ways that it is sent, one after the other.
    Event(Entry, Vec<Way>),
    /// What is no event, to a partition.
    Poison(poison::Record, u32),
}

/// Makes attempts up.
#[derive(Debug)]
pub(crate) struct Generator {
    plan: Plan,
    names: Vec<CounterName>,
    rng: Rng,
    made: u64,
    /// The last add, which a clear may coincide with.
    last: Option<(usize, Micros)>,
}

impl Generator {
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let names = (0..plan.counters).map(|number| format!("c/{number}"));
        let names = names.map(|name| CounterName::new(&name).expect("a short name"));
        Self {
            names: names.collect(),
            plan,
            rng: Rng::with_seed(seed),
            made: 0,
            last: None,
        }
    }

    /// The names of all counters.
    pub(crate) fn names(&self) -> &[CounterName] {
        &self.names
    }

    pub(crate) fn next(&mut self, now: Micros) -> Planned {
        let mix = self.plan.mix;
        if self.is(mix.poison) {
            let record = poison::record(&mut self.rng);
            return Planned::Poison(record, self.rng.u32(..self.plan.partitions));
        }
        let mut counter = self.rng.usize(..self.names.len());
        let mut time = self.time(now);
        let clears = self.is(mix.clears);
        if clears && self.rng.bool() {
            (counter, time) = self.last.unwrap_or((counter, time));
        }
        let mutation = if clears {
            Mutation::Clear
        } else {
            self.last = Some((counter, time));
            Mutation::Add(self.delta())
        };
        self.made += 1;
        // Tokens in no order, so that a clear comes before or after the add of its microsecond.
        let token = format!("{:08x}-{}", self.rng.u32(..), self.made);
        let item_key = if self.rng.bool() { "" } else { "item" };
        let key = EventKey {
            event_time: time,
            event_id: Token::new(&token).expect("a short token"),
            item_key: ItemKey::new(item_key).expect("a short key"),
        };
        let entry = Entry::new(self.names[counter].clone(), key, mutation);
        Planned::Event(entry, self.ways(counter))
    }

    fn ways(&mut self, counter: usize) -> Vec<Way> {
        let mix = self.plan.mix;
        let key = key_bytes(&self.plan.namespace, &self.names[counter]);
        let home = partition(route(&key), self.plan.partitions);
        let first = if self.is(mix.direct) {
            Way::Log(home)
        } else {
            Way::Gateway
        };
        let mut ways = vec![first];
        if self.is(mix.again) {
            ways.push(first);
        }
        if self.is(mix.elsewhere) {
            let other = home + self.rng.u32(1..self.plan.partitions.max(2));
            ways.push(Way::Log(other % self.plan.partitions));
        }
        ways
    }

    fn time(&mut self, now: Micros) -> Micros {
        let mix = self.plan.mix;
        if self.is(mix.at_limit) {
            let limit = i64::try_from(self.plan.accept_limit.as_micros()).expect("a short limit");
            return Micros::new(now.get() - limit + self.rng.i64(-1..=1) * 1_000);
        }
        if self.is(mix.hour_off) {
            let off = if self.rng.bool() { HOUR } else { -HOUR };
            return Micros::new(now.get() + off);
        }
        now
    }

    fn delta(&mut self) -> i64 {
        let delta = self.rng.i64(1..DELTAS);
        if self.rng.u8(..5) == 0 { -delta } else { delta }
    }

    fn is(&mut self, of_a_thousand: u16) -> bool {
        self.rng.u16(..1_000) < of_a_thousand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::new(1_000_000_000_000_000);

    fn made(mix: Mix) -> Vec<Planned> {
        let plan = Plan {
            namespace: Namespace::new("n").unwrap(),
            counters: 5,
            partitions: 4,
            accept_limit: Duration::from_secs(2),
            mix,
        };
        let mut generator = Generator::new(plan, 7);
        (0..2_000).map(|_| generator.next(NOW)).collect()
    }

    fn none() -> Mix {
        Mix {
            direct: 0,
            again: 0,
            elsewhere: 0,
            clears: 0,
            ..Mix::default()
        }
    }

    fn events(planned: &[Planned]) -> impl Iterator<Item = (&Entry, &[Way])> {
        planned.iter().filter_map(|planned| match planned {
            Planned::Event(entry, ways) => Some((entry, &ways[..])),
            Planned::Poison(..) => None,
        })
    }

    #[test]
    fn identities_are_distinct_and_the_same_seed_makes_the_same() {
        let planned = made(Mix::default());
        let keys = events(&planned).map(|(entry, _)| (&entry.counter, &entry.key));
        let distinct: std::collections::BTreeSet<_> = keys.collect();
        assert_eq!(distinct.len(), 2_000);
        assert_eq!(planned, made(Mix::default()));
    }

    #[test]
    fn each_kind_is_made_as_often_as_asked_and_else_never() {
        let plain = made(none());
        assert!(events(&plain).all(|(entry, ways)| {
            ways == [Way::Gateway]
                && entry.key.event_time == NOW
                && entry.mutation != Mutation::Clear
        }));
        let all = |mix| events(&made(mix)).count();
        assert_eq!(
            all(Mix {
                poison: 1_000,
                ..none()
            }),
            0
        );
        let elsewhere = made(Mix {
            direct: 1_000,
            elsewhere: 1_000,
            ..none()
        });
        assert!(events(&elsewhere).all(|(_, ways)| ways.len() == 2 && ways[0] != ways[1]));
        let again = made(Mix {
            again: 1_000,
            ..none()
        });
        assert!(events(&again).all(|(_, ways)| ways == [Way::Gateway; 2]));
        let off = made(Mix {
            hour_off: 1_000,
            ..none()
        });
        assert!(
            events(&off)
                .all(|(entry, _)| entry.key.event_time.get().abs_diff(NOW.get()) == 3_600_000_000)
        );
        let old = made(Mix {
            at_limit: 1_000,
            ..none()
        });
        let ages = events(&old).map(|(entry, _)| NOW.get() - entry.key.event_time.get());
        let ages: std::collections::BTreeSet<_> = ages.collect();
        assert_eq!(Vec::from_iter(ages), [1_999_000, 2_000_000, 2_001_000]);
    }
}
