//! Clients and producers.
//!
//! Fault model. Client clocks are off, some by an hour. Clients retry what was not answered, with
//! the same token, at any time later. Producers that write to the log themselves may use any
//! partition, send one identity several times with different deltas, send garbage, and send to
//! the wrong topic or to a namespace that does not exist, or begin a transaction.

use super::{
    bug::Bug,
    oracle::Told,
    port::Port,
    world::{Sim, World, log::Stamper},
};
use quipu_adapters::ports::{Body, EventStore, NewRecord, Producer, Topic};
use quipu_core::{
    event::{CounterKey, EventKey, Mutation},
    key,
    name::{CounterName, ItemKey, Namespace, Token},
    policy::PolicyBook,
    time::Micros,
};
use quipu_gateway::machine::{self, AfterAppend, AfterLookup, Moment, Precheck};
use quipu_schemas::event::{self, CheckedEvent};
use std::{sync::Arc, time::Duration};

use super::faults::LogKind;

/// The gateway's guard on a broker (R7).
const GUARD: Duration = Duration::from_secs(1);

pub(super) const COUNTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One of several names.
pub(super) fn pick<'a>(world: &mut World, names: &[&'a str]) -> &'a str {
    names[world.rng.index(names.len())]
}

fn draw_event(world: &mut World) -> CheckedEvent {
    let namespace = pick(world, &["low", "low", "high"]);
    let counter = pick(world, &COUNTERS);
    let token = format!("t{}", world.trace.lines());
    let item = pick(world, &["", "", "", "x"]);
    let mutation = match world.rng.below(12) {
        0 => Mutation::Clear,
        1 => Mutation::Add(i64::MAX),
        _ => Mutation::Add(world.rng.around(100)),
    };
    CheckedEvent {
        namespace: Namespace::new(namespace).expect("a valid name"),
        counter: CounterName::new(counter).expect("a valid name"),
        key: EventKey {
            event_time: draw_time(world, namespace),
            event_id: Token::new(&token).expect("a short token"),
            item_key: ItemKey::new(item).expect("a short key"),
        },
        mutation,
    }
}

/// About now, or at the very edge of what is accepted, or far off.
fn draw_time(world: &mut World, namespace: &str) -> Micros {
    if world.strikes(|faults| faults.skewed_client) {
        return Micros::new(world.now.get() + world.rng.around(3_600_000_000));
    }
    let partition = world.rng.index(world.events_topic.partitions.len());
    let effective = world.events_topic.partitions[partition].effective();
    let life = world
        .control
        .truth()
        .history(namespace)
        .and_then(|history| history.at(effective).cloned());
    match (world.rng.below(6), life) {
        (0, Some(life)) => Micros::new(life.horizon(effective).get() + world.rng.around(1)),
        (1, Some(life)) => Micros::new(life.horizon(effective).get() + world.rng.around(300_000)),
        (2, Some(life)) => {
            Micros::new(life.newest_acceptable(effective).get() + world.rng.around(1))
        }
        _ => Micros::new(world.now.get() + world.rng.around(2_000_000)),
    }
}

/// A producer that writes to the log itself: one mutation, maybe several times.
pub(super) fn produce(world: &mut World) {
    let mut event = draw_event(world);
    if world.rng.chance(30) {
        let name = pick(world, &["other", "unknown"]);
        event.namespace = Namespace::new(name).expect("a valid name");
    }
    let copies = if world.strikes(|faults| faults.duplicate) {
        2 + world.rng.below(2)
    } else {
        1
    };
    let home = world.rng.index(world.events_topic.partitions.len());
    for copy in 0..copies {
        let elsewhere = copy > 0 && world.rng.chance(2);
        let partition = if elsewhere {
            world.rng.index(world.events_topic.partitions.len())
        } else {
            home
        };
        let body = if world.rng.chance(60) {
            Body::value("garbage")
        } else {
            Body::value(event::encode(&event))
        };
        let stamper = if world.strikes(|faults| faults.not_log_stamped) {
            Stamper::Producer
        } else {
            Stamper::Log
        };
        let id = u32::try_from(partition).expect("few partitions");
        let (offset, _) = world.append_event(id, stamper, body);
        let is_open = !world.events_topic.partitions[partition]
            .transaction
            .is_empty();
        let joins = is_open && world.rng.chance(2);
        if joins || (!is_open && world.strikes(|faults| faults.transaction)) {
            world.note(&format!("{partition}/{offset} is of a transaction"));
            world.events_topic.partitions[partition]
                .transaction
                .push(offset);
        }
        // The other copies claim something else.
        event.mutation = Mutation::Add(world.rng.around(100));
    }
}

/// One write to every counter, now.
pub(super) fn write_every_counter(world: &mut World) {
    for namespace in ["low", "high"] {
        for counter in COUNTERS {
            let mut event = draw_event(world);
            event.namespace = Namespace::new(namespace).expect("a valid name");
            event.counter = CounterName::new(counter).expect("a valid name");
            event.key.event_time = world.now;
            let partition = world.rng.below(world.events_topic.partitions.len() as u64);
            let partition = u32::try_from(partition).expect("few partitions");
            world.append_event(partition, Stamper::Log, Body::value(event::encode(&event)));
        }
    }
}

/// One call through the gateway, retried until it has an answer or its client gives up.
pub(super) async fn call(sim: Sim) {
    let port = Port::connect(&sim);
    let (event, attempts, policy) = {
        let mut world = sim.lock();
        let now = world.now;
        (
            draw_event(&mut world),
            1 + world.rng.below(8),
            world.control.lease(now),
        )
    };
    let mut policy = policy;
    for _ in 0..attempts {
        if attempt(&sim, &port, &policy, &event).await {
            return;
        }
        rest(&sim, 300).await;
        let mut world = sim.lock();
        if !world.rng.chance(4) {
            let now = world.now;
            policy = world.control.lease(now);
        }
    }
}

/// One attempt. Returns whether the client needs no other.
async fn attempt(sim: &Sim, port: &Port, policy: &Arc<PolicyBook>, event: &CheckedEvent) -> bool {
    let moment = moment(sim);
    let Ok(life) = machine::find(policy, event.namespace.as_str(), moment) else {
        return false;
    };
    let counter = CounterKey {
        namespace: life.id(),
        name: event.counter.clone(),
    };
    let time = event.key.event_time;
    match machine::precheck(&life, moment, time) {
        Precheck::TooFarAhead => true,
        Precheck::RefusedLate => {
            sim.lock().tell(counter, event.key.clone(), Told::Refused);
            true
        }
        Precheck::Append => append(sim, port, policy, event).await,
        Precheck::LookUp => {
            let Ok(found) = port.lookup(&counter, &event.key).await else {
                return false;
            };
            // The answer may be slow to arrive.
            rest(sim, 100).await;
            let bug = sim.lock().bug;
            let moment = if bug == Some(Bug::LookUpBeforeClosed) {
                self::moment(sim)
            } else {
                moment
            };
            let closed = if bug == Some(Bug::LateIsRefusedAtOnce) {
                time
            } else {
                machine::closed(&life, moment)
            };
            let told = match machine::after_lookup(&found, closed, time) {
                AfterLookup::AlreadyApplied => Told::Applied,
                AfterLookup::RefusedLate => Told::Refused,
                AfterLookup::RetryLater => return false,
                AfterLookup::OutcomeUnknown => return true,
            };
            sim.lock().tell(counter, event.key.clone(), told);
            true
        }
    }
}

/// Lets up to so many steps pass.
pub(super) async fn rest(sim: &Sim, most: u64) {
    let until = {
        let mut world = sim.lock();
        world.step + world.rng.below(most)
    };
    while sim.lock().step < until {
        sim.turn().await;
    }
}

/// What a process believes now of time, and of how far all is decided.
pub(super) fn moment(sim: &Sim) -> Moment {
    let mut world = sim.lock();
    let clock = Micros::new(world.now.get() + world.rng.around(300_000));
    Moment::new(clock, sim.board.low())
}

async fn append(sim: &Sim, port: &Port, policy: &Arc<PolicyBook>, event: &CheckedEvent) -> bool {
    let (partition, guard) = {
        let mut world = sim.lock();
        let partitions =
            u32::try_from(world.events_topic.partitions.len()).expect("few partitions");
        let route = key::route(&key::key_bytes(&event.namespace, &event.counter));
        let by_chance = world.rng.chance(3);
        let partition = if by_chance {
            u32::try_from(world.rng.below(partitions.into())).expect("few")
        } else {
            key::partition(route, partitions)
        };
        (
            partition,
            if world.faults.log == LogKind::Embedded {
                Duration::ZERO
            } else {
                GUARD
            },
        )
    };
    let record = NewRecord {
        partition,
        body: Body::value(event::encode(event)),
    };
    let Ok(appended) = port.append(Topic::Events, vec![record]).await else {
        return false;
    };
    let after = machine::after_append(
        policy,
        event.namespace.as_str(),
        appended[0].append_time,
        guard,
        event.key.event_time,
    );
    let AfterAppend::Accepted(namespace) = after else {
        return false;
    };
    let counter = CounterKey {
        namespace,
        name: event.counter.clone(),
    };
    sim.lock().tell(counter, event.key.clone(), Told::Applied);
    true
}
