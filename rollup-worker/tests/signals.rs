//! Signals that must not be forgotten.

use quipu_adapters::ports::Parked;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::{CounterName, Namespace},
    policy::{
        Cardinality, Incarnation, Limits as AcceptLimits, NamespaceHistory, PolicyBook,
        RollupSettings,
    },
    time::Micros,
};
use quipu_rollup_worker::{
    machine::{Limits, Machine, Rolled, closed_times},
    pending::SignalAt,
};
use quipu_schemas::signal::CheckedSignal;
use std::{collections::BTreeMap, time::Duration};

const LIMITS: Limits = Limits {
    pending: 100,
    circulating: 0,
    park_after: Duration::from_secs(1),
    batch_target: Duration::from_secs(1),
    batch_sizes: (1, 10),
};
const AT: Micros = Micros::new(1_000_000_000);

fn counter() -> CounterKey {
    let name = CounterName::new("hits").expect("a valid name");
    CounterKey {
        namespace: NamespaceId(1),
        name,
    }
}

fn signal(last_write: Micros) -> CheckedSignal {
    CheckedSignal {
        counter: counter(),
        last_write: Some(last_write),
    }
}

fn book() -> PolicyBook {
    let second = Duration::from_secs(1);
    let limits = AcceptLimits {
        accept_limit: second,
        max_future: second,
    };
    let rollup = RollupSettings {
        coalesce: Duration::ZERO,
        cardinality: Cardinality::High,
    };
    let life = Incarnation::new(NamespaceId(1), Micros::new(0), limits);
    let name = Namespace::new("site").expect("a valid name");
    PolicyBook::new(
        [(name, NamespaceHistory::new("quipu-events", rollup, life))],
        Micros::MAX,
    )
}

fn commits(machine: &mut Machine) -> BTreeMap<u32, u64> {
    let finished = machine.begin_sync();
    finished
        .map(|finished| machine.on_durable(finished).commits)
        .unwrap_or_default()
}

#[test]
fn a_signal_of_a_namespace_that_the_policy_does_not_know_yet_waits_until_it_does() {
    let mut machine = Machine::new(LIMITS);
    machine.assign(0, 0);
    let old = PolicyBook::new([], Micros::MAX);
    machine.on_signal(
        AT,
        SignalAt {
            partition: 0,
            offset: 0,
        },
        signal(AT),
        &old,
    );
    machine.forget_deleted(&old);
    assert_eq!(commits(&mut machine), BTreeMap::new());
    let closed = closed_times(&book(), AT + Duration::from_secs(2));
    assert_eq!(machine.next_batch(&closed), vec![counter()]);
}

#[test]
fn parking_an_earlier_write_does_not_finish_the_row_of_a_later_one() {
    let (mut machine, book) = (Machine::new(LIMITS), book());
    let later = AT + Duration::from_mins(1);
    machine.assign(0, 0);
    for (offset, write) in [(0, later), (1, AT)] {
        let read = AT + Duration::from_secs(10 * offset);
        machine.on_signal(
            read,
            SignalAt {
                partition: 0,
                offset,
            },
            signal(write),
            &book,
        );
        let rows = machine.to_park(read + Duration::from_secs(5));
        machine.on_parked(&rows);
    }
    let closed = closed_times(&book, AT + Duration::from_secs(2));
    assert_eq!(machine.next_batch(&closed), vec![counter()]);
    let rolled = Rolled {
        through: closed[&NamespaceId(1)],
        noted: None,
    };
    machine.on_batch(vec![(counter(), Some(rolled))], Duration::ZERO, &book);
    let finished = machine.begin_sync().expect("both signals were parked");
    assert_eq!(machine.on_durable(finished).unpark, BTreeMap::new());
    let closed = closed_times(&book, later + Duration::from_secs(2));
    assert_eq!(machine.next_batch(&closed), vec![counter()]);
    let rolled = Rolled {
        through: closed[&NamespaceId(1)],
        noted: None,
    };
    machine.on_batch(vec![(counter(), Some(rolled))], Duration::ZERO, &book);
    let finished = machine.begin_sync().expect("the parked row is finished");
    let row = Parked {
        counter: counter(),
        last_write: later,
    };
    assert_eq!(
        machine.on_durable(finished).unpark,
        BTreeMap::from([(0, vec![row])])
    );
}

#[test]
fn a_sync_that_began_before_a_partition_was_lost_finishes_nothing_of_it_not_even_when_it_is_back() {
    let (mut machine, book) = (Machine::new(LIMITS), book());
    let read = |machine: &mut Machine| {
        let (partition, offset) = (0, 4);
        let at = SignalAt { partition, offset };
        machine.on_signal(AT, at, signal(AT), &book);
    };
    let roll = |machine: &mut Machine| {
        let closed = closed_times(&book, AT + Duration::from_secs(2));
        assert_eq!(machine.next_batch(&closed), vec![counter()]);
        let rolled = Rolled {
            through: closed[&NamespaceId(1)],
            noted: None,
        };
        machine.on_batch(vec![(counter(), Some(rolled))], Duration::ZERO, &book);
        machine.begin_sync().expect("the signal is finished")
    };
    machine.assign(0, 4);
    read(&mut machine);
    let before = roll(&mut machine);
    machine.revoke(&[0]);
    machine.assign(0, 4);
    read(&mut machine);
    assert_eq!(machine.on_durable(before.clone()).commits, BTreeMap::new());
    machine.sync_failed(before);
    assert!(!machine.has_finished(), "nothing of it is synced again");
    let after = roll(&mut machine);
    assert_eq!(machine.on_durable(after).commits, BTreeMap::from([(0, 5)]));
}

#[test]
fn a_counter_that_fails_waits_for_as_long_as_its_write_has_been_closed() {
    let limits = Limits {
        batch_sizes: (2, 10),
        ..LIMITS
    };
    let (mut machine, book) = (Machine::new(limits), book());
    machine.assign(0, 0);
    let at = |offset| SignalAt {
        partition: 0,
        offset,
    };
    let of_a_read = CheckedSignal {
        counter: CounterKey {
            name: CounterName::new("read").expect("a valid name"),
            ..counter()
        },
        last_write: None,
    };
    machine.on_signal(AT, at(0), of_a_read, &book);
    let closed = |seconds: u64| closed_times(&book, AT + Duration::from_secs(1 + seconds));
    assert_eq!(machine.longest_wait(&closed(9)), Duration::ZERO);
    machine.on_signal(AT, at(1), signal(AT), &book);
    assert_eq!(machine.longest_wait(&closed(3)), Duration::from_secs(3));
    let batch = machine.next_batch(&closed(3));
    assert!(batch.contains(&counter()), "{batch:?}");
    let failed = batch.into_iter().map(|counter| (counter, None)).collect();
    machine.on_batch(failed, Duration::ZERO, &book);
    assert_eq!(machine.longest_wait(&closed(5)), Duration::from_secs(5));
    assert!(
        machine.next_batch(&closed(3)).contains(&counter()),
        "it is tried again at once"
    );
}
