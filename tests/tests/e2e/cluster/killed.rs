//! Roles that die and join under load.

use super::turns::Turn;
use crate::{
    client::{Address, seed, under_load},
    ledger::Answer,
};
use std::{thread::sleep, time::Duration};

#[test]
fn an_ingest_and_a_worker_that_are_killed_and_replaced_lose_nothing() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let api = cluster.api();
    api.put_namespace("killed", "2s");
    let (ingests, workers) = (&mut cluster.ingests, &mut cluster.workers);
    let installation = &cluster.installation;
    ingests.push(installation.start("ingest"));
    workers.push(installation.start("rollup-worker"));
    let address = Address::new(&cluster.gateway);
    let ledger = under_load("killed", seed(), &address, |_| {
        sleep(Duration::from_secs(3));
        // The oldest ones: they own partitions for certain.
        ingests.remove(0).running.kill();
        workers.remove(0).running.kill();
        sleep(Duration::from_secs(2));
        ingests.push(installation.start("ingest"));
        workers.push(installation.start("rollup-worker"));
        // The dead are noticed after the session timeout.
        sleep(Duration::from_secs(8));
    });
    assert!(ledger.heard(Answer::Accepted) > 100);
    ledger.check(&api);
    installation.assert_no_panic();
}
