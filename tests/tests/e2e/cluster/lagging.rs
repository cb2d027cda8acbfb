//! An ingest that is away for longer than the accept limit.

use super::{
    mutations::{add_of, dead_tokens, send},
    turns::Turn,
};
use crate::ledger::{Answer, Ledger};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

const AWAY: Duration = Duration::from_secs(10);

#[test]
fn what_is_added_while_no_ingest_runs_is_counted_and_nothing_is_dead_lettered() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let api = cluster.api();
    api.put_namespace("lagging", "2s");
    for ingest in cluster.ingests.drain(..) {
        let (status, _) = ingest.running.terminate();
        assert_eq!(status.code(), Some(0), "{}", cluster.installation.logs());
    }
    let mut ledger = Ledger {
        namespace: "lagging".to_owned(),
        ..Ledger::default()
    };
    let stopped = Instant::now();
    while stopped.elapsed() < AWAY {
        let number = ledger.entries.len();
        let counter = format!("c/{}", number % 20);
        let mut entry = add_of(&counter, &format!("t{number}"), 1);
        send(&api, "lagging", &mut entry);
        ledger.entries.push(entry);
        sleep(Duration::from_millis(5));
    }
    cluster.ingests.push(cluster.installation.start("ingest"));
    let accepted = ledger.heard(Answer::Accepted);
    let sent = ledger.entries.len();
    eprintln!("{accepted} of {sent} accepted");
    // A machine that stood still for as long as the limit cannot accept.
    assert!(
        accepted > 100 && accepted * 10 > sent * 9,
        "{accepted} of {sent}"
    );
    let dead = dead_after(cluster, &mut ledger);
    for entry in &ledger.entries {
        let acknowledged = entry.answers.contains(&Answer::Accepted);
        assert!(
            !(acknowledged && dead.contains(&entry.token)),
            "refused: {entry:?}"
        );
    }
    ledger.check(&api);
    cluster.installation.assert_no_panic();
}

/// Settles what is open, waits until everything is decided, and returns what was refused.
fn dead_after(cluster: &super::turns::Cluster, ledger: &mut Ledger) -> Vec<String> {
    let (api, started) = (cluster.api(), Instant::now());
    for entry in &mut ledger.entries {
        while entry.answers.last() == Some(&Answer::Unsettled) {
            assert!(started.elapsed() < Duration::from_mins(1), "{entry:?}");
            send(&api, "lagging", entry);
            sleep(Duration::from_millis(20));
        }
    }
    let through = super::mutations::now().get();
    api.count_through("lagging", "c/0", through);
    dead_tokens(&cluster.installation, "lagging")
}
