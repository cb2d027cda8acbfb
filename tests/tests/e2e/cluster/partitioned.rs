//! Producers that know nothing of routes, and send what they have sent before to wherever.

use super::{
    cassandra::stored_events,
    kafka::Publisher,
    mutations::{dead_tokens, now, record},
    turns::Turn,
};
use crate::client::seed;
use std::collections::BTreeMap;

const ADDS: usize = 100_000;
const COUNTERS: usize = 200;
/// How many of the newest events are sent again.
const RECENT: usize = 1_000;

#[test]
fn duplicates_in_other_partitions_are_counted_once() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let (api, installation) = (cluster.api(), &cluster.installation);
    api.put_namespace("partitioned", "10s");
    let mut rng = fastrand::Rng::with_seed(seed());
    let topic = installation.topic("events");
    let publisher = Publisher::new(&installation.addresses.kafka, &topic);
    let mut expected: BTreeMap<String, i128> = BTreeMap::new();
    let (mut recent, mut distinct) = (Vec::new(), 0);
    for _ in 0..ADDS {
        let is_again = !recent.is_empty() && rng.u8(..100) < 30;
        if !is_again {
            let counter = format!("c/{}", rng.usize(..COUNTERS));
            let delta = rng.i64(-1_000..1_000);
            let value = record("partitioned", &counter, &format!("t{distinct}"), delta);
            *expected.entry(counter).or_default() += i128::from(delta);
            if recent.len() < RECENT {
                recent.push(value);
            } else {
                recent[distinct % RECENT] = value;
            }
            distinct += 1;
        }
        let event = if is_again {
            &recent[rng.usize(..recent.len())]
        } else {
            &recent[(distinct - 1) % RECENT]
        };
        publisher.publish(rng.i32(0..4), event, &[]);
    }
    publisher.flush();
    eprintln!("{distinct} distinct events of {ADDS}");
    let through = now().get();
    for (counter, expected) in expected {
        let count = api.count_through("partitioned", &counter, through);
        assert_eq!(count, expected, "{counter}");
    }
    let dead = dead_tokens(installation, "partitioned");
    assert!(dead.is_empty(), "{} are dead letters", dead.len());
    let node = &installation.addresses.cassandra;
    let stored = stored_events(node, &installation.name, "partitioned");
    assert_eq!(usize::try_from(stored), Ok(distinct));
    installation.assert_no_panic();
}
