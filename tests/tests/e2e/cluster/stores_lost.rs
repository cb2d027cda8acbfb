//! Stores that lose what they had, under load.

use super::{installation::redis, turns::Turn};
use crate::{
    client::{Address, seed, under_load},
    ledger::Answer,
};
use std::{thread::sleep, time::Duration};

#[test]
fn a_cache_that_is_emptied_again_and_again_changes_no_count() {
    let mut turn = Turn::take();
    let (cluster, _) = turn.fragile();
    let api = cluster.api();
    api.put_namespace("flushed", "2s");
    let cache = &cluster.installation.addresses.redis;
    let address = Address::new(&cluster.gateway);
    let ledger = under_load("flushed", seed(), &address, |rng| {
        for _ in 0..8 {
            sleep(Duration::from_millis(rng.u64(500..1_500)));
            let answer = redis(cache, "FLUSHALL").expect("Redis answers");
            assert_eq!(answer, "+OK\r\n");
        }
    });
    assert!(ledger.heard(Answer::Accepted) > 100);
    ledger.check(&api);
    let cached = redis(cache, "DBSIZE").expect("Redis answers");
    assert_ne!(cached, ":0\r\n", "nothing is cached any more");
    cluster.installation.assert_no_panic();
}

#[test]
fn a_cassandra_that_is_killed_under_load_loses_nothing_acknowledged() {
    let mut turn = Turn::take();
    let (cluster, stack) = turn.fragile();
    let api = cluster.api();
    api.put_namespace("restarted", "2s");
    let address = Address::new(&cluster.gateway);
    let ledger = under_load("restarted", seed(), &address, |_| {
        sleep(Duration::from_secs(4));
        stack.kill("cassandra");
        sleep(Duration::from_secs(1));
        stack.up();
        sleep(Duration::from_secs(8));
    });
    assert!(ledger.heard(Answer::Accepted) > 100);
    ledger.check(&api);
    let rewinds: f64 = cluster
        .ingests
        .iter()
        .map(|ingest| ingest.metric("quipu_ingest_rewinds_total"))
        .sum();
    eprintln!("ingest went back {rewinds} times");
    cluster.installation.assert_no_panic();
}
