//! Roles that stand still for longer than their group waits, and then go on as if nothing had
//! happened: zombies, whose partitions others own by now.

use super::turns::Turn;
use crate::{
    client::{Address, seed, under_load},
    ledger::Answer,
};
use rustix::process::Signal;
use std::{thread::sleep, time::Duration};

/// Twice the session timeout.
const FROZEN: Duration = Duration::from_secs(12);

#[test]
fn an_ingest_and_a_worker_that_come_back_after_others_took_over_change_nothing() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let api = cluster.api();
    api.put_namespace("frozen", "2s");
    let installation = &cluster.installation;
    cluster.ingests.push(installation.start("ingest"));
    cluster.workers.push(installation.start("rollup-worker"));
    // The oldest ones: they own partitions for certain.
    let (ingest, worker) = (&cluster.ingests[0], &cluster.workers[0]);
    let tell = |signal| {
        for role in [ingest, worker] {
            role.running.tell(signal);
        }
    };
    let address = Address::new(&cluster.gateway);
    let ledger = under_load("frozen", seed(), &address, |_| {
        sleep(Duration::from_secs(3));
        tell(Signal::STOP);
        sleep(FROZEN);
        tell(Signal::CONT);
        sleep(Duration::from_secs(5));
    });
    assert!(ledger.heard(Answer::Accepted) > 100);
    ledger.check(&api);
    let said = installation.logs();
    for lost in [
        "ingest lost partitions",
        "the worker lost signal partitions",
    ] {
        assert!(said.contains(lost), "nobody became a zombie:\n{said}");
    }
    installation.assert_no_panic();
}
