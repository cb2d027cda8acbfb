//! Signals that must not be forgotten.

use crate::fixtures::{ACCEPT_LIMIT, NAMESPACE, SECOND, coalescing, counter, settings, signal};
use quipu_adapters::ports::Parked;
use quipu_core::{event::NamespaceId, policy::PolicyBook, time::Micros};
use quipu_rollup_worker::{
    machine::{Finished, Limits, Machine, Rolled, closed_times},
    pending::SignalAt,
};
use quipu_schemas::signal::CheckedSignal;
use std::{collections::BTreeMap, time::Duration};

const AT: Micros = Micros::new(1_000_000_000);

/// Where nothing circulates.
fn limits() -> Limits {
    Limits {
        circulating: 0,
        park_after: SECOND,
        ..settings().limits
    }
}

/// Every write is aggregated by itself.
fn book() -> PolicyBook {
    coalescing(Duration::ZERO)
}

/// What is closed once the only namespace is, through a time.
fn closed(through: Micros) -> BTreeMap<NamespaceId, Micros> {
    let closed = closed_times(&book(), through + ACCEPT_LIMIT);
    assert_eq!(closed[&NAMESPACE], through);
    closed
}

/// Rolls the one counter up that is due, and finishes what was waiting for that.
fn roll_up(machine: &mut Machine, through: Micros) -> Finished {
    assert_eq!(machine.next_batch(&closed(through)), [counter("hits")]);
    let rolled = Rolled {
        through,
        noted: None,
    };
    let results = vec![(counter("hits"), Some(rolled))];
    machine.on_batch(results, Duration::ZERO, &book());
    machine.begin_sync().expect("it finished signals")
}

fn commits(machine: &mut Machine) -> BTreeMap<u32, u64> {
    let finished = machine.begin_sync();
    finished
        .map(|finished| machine.on_durable(finished).commits)
        .unwrap_or_default()
}

fn at(offset: u64) -> SignalAt {
    SignalAt {
        partition: 0,
        offset,
    }
}

fn hit(last_write: Micros) -> CheckedSignal {
    signal(counter("hits"), last_write)
}

#[test]
fn a_signal_of_a_namespace_that_the_policy_does_not_know_yet_waits_until_it_does() {
    let mut machine = Machine::new(limits());
    machine.assign(0, 0);
    let old = PolicyBook::new([], Micros::MAX);
    machine.on_signal(AT, at(0), hit(AT), &old);
    machine.forget_deleted(&old);
    assert_eq!(commits(&mut machine), BTreeMap::new());
    assert_eq!(machine.next_batch(&closed(AT + SECOND)), [counter("hits")]);
}

#[test]
fn parking_an_earlier_write_does_not_finish_the_row_of_a_later_one() {
    let mut machine = Machine::new(limits());
    let later = AT + Duration::from_mins(1);
    machine.assign(0, 0);
    for (offset, write) in [(0, later), (1, AT)] {
        let read = AT + Duration::from_secs(10 * offset);
        machine.on_signal(read, at(offset), hit(write), &book());
        let rows = machine.to_park(read + Duration::from_secs(5));
        machine.on_parked(&rows);
    }
    let finished = roll_up(&mut machine, AT + SECOND);
    assert_eq!(machine.on_durable(finished).unpark, BTreeMap::new());
    let finished = roll_up(&mut machine, later + SECOND);
    let row = Parked {
        counter: counter("hits"),
        last_write: later,
    };
    assert_eq!(
        machine.on_durable(finished).unpark,
        BTreeMap::from([(0, vec![row])])
    );
}

#[test]
fn a_sync_that_began_before_a_partition_was_lost_finishes_nothing_of_it_not_even_when_it_is_back() {
    let mut machine = Machine::new(limits());
    machine.assign(0, 4);
    machine.on_signal(AT, at(4), hit(AT), &book());
    let before = roll_up(&mut machine, AT + SECOND);
    machine.revoke(&[0]);
    machine.assign(0, 4);
    machine.on_signal(AT, at(4), hit(AT), &book());
    assert_eq!(machine.on_durable(before.clone()).commits, BTreeMap::new());
    machine.sync_failed(before);
    assert!(!machine.has_finished(), "nothing of it is synced again");
    let after = roll_up(&mut machine, AT + SECOND);
    assert_eq!(machine.on_durable(after).commits, BTreeMap::from([(0, 5)]));
}

#[test]
fn a_counter_that_fails_waits_for_as_long_as_its_write_has_been_closed() {
    let mut machine = Machine::new(Limits {
        batch_sizes: (2, 10),
        ..limits()
    });
    machine.assign(0, 0);
    let of_a_read = CheckedSignal {
        counter: counter("read"),
        last_write: None,
    };
    machine.on_signal(AT, at(0), of_a_read, &book());
    let closed_for = |seconds| closed(AT + Duration::from_secs(seconds));
    assert_eq!(machine.longest_wait(&closed_for(9)), Duration::ZERO);
    machine.on_signal(AT, at(1), hit(AT), &book());
    assert_eq!(machine.longest_wait(&closed_for(3)), Duration::from_secs(3));
    let batch = machine.next_batch(&closed_for(3));
    assert!(batch.contains(&counter("hits")), "{batch:?}");
    let failed = batch.into_iter().map(|counter| (counter, None)).collect();
    machine.on_batch(failed, Duration::ZERO, &book());
    assert_eq!(machine.longest_wait(&closed_for(5)), Duration::from_secs(5));
    assert!(
        machine
            .next_batch(&closed_for(3))
            .contains(&counter("hits")),
        "it is tried again at once"
    );
}
