//! The cases.

use super::case::{
    Action::{self, Churn, DropSignals, Flush, Forge, Freeze, Kill, More, Restart},
    Case, Step,
    Target::{self, Cassandra, Gateway, Ingest, Kafka, Redis, RollupWorker},
};
use quipu_certify::Mix;
use std::time::Duration;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A supervisor starts what died again.
const SOON: Duration = s(1);
/// So long without a poll and a group takes a consumer's partitions away: ten sessions.
const BEYOND_POLL: Duration = s(60);
const LIMIT: Duration = s(2);

fn step(after: u64, target: Target, action: Action) -> Step {
    Step {
        after: s(after),
        target,
        action,
    }
}

fn case(name: &'static str, about: &'static str, steps: Vec<Step>) -> Case {
    Case {
        name,
        about,
        mix: Mix::default(),
        accept_limit: LIMIT,
        tracks: vec![steps],
        lasts: Duration::ZERO,
    }
}

fn mixed(name: &'static str, about: &'static str, mix: Mix) -> Case {
    Case {
        mix,
        lasts: s(10),
        ..case(name, about, Vec::new())
    }
}

/// Every case, in the order in which the suite runs them.
pub fn all() -> Vec<Case> {
    [
        vec![quick()],
        roles(),
        servers(),
        loads(),
        members(),
        together(),
    ]
    .concat()
}

/// A little of everything, in half a minute.
fn quick() -> Case {
    Case {
        mix: Mix {
            direct: 300,
            again: 100,
            elsewhere: 50,
            clears: 20,
            at_limit: 20,
            hour_off: 20,
            poison: 20,
        },
        ..case(
            "quick",
            "Kills one of each role once, under every kind of load.",
            vec![
                step(0, Ingest, Kill(SOON)),
                step(1, RollupWorker, Kill(SOON)),
                step(1, Gateway, Kill(SOON)),
            ],
        )
    }
}

/// Deaths at random moments of the loop from poll to commit.
fn roles() -> Vec<Case> {
    let killed = |role, back| {
        let kill = |after| step(after, role, Kill(back));
        vec![kill(0), kill(3), kill(4), kill(2), kill(5)]
    };
    vec![
        case(
            "kill-gateway",
            "Kills the gateway five times under load and starts it again.",
            killed(Gateway, SOON),
        ),
        case(
            "kill-ingest",
            "Kills ingest five times, between any two of poll, write, signal and commit.",
            killed(Ingest, SOON),
        ),
        case(
            "kill-rollup-worker",
            "Kills the rollup worker five times, between any two of fold, checkpoint, cache and commit.",
            killed(RollupWorker, SOON),
        ),
        case(
            "ingest-away",
            "Stops every ingest for ten accept limits: lag delays counts and loses none.",
            vec![step(0, Ingest, Restart(s(20)))],
        ),
        case(
            "ingest-frozen",
            "Freezes ingest beyond its session beside another one, and lets the zombie go on.",
            vec![
                step(0, Ingest, More(1, s(4))),
                step(0, Ingest, Freeze(s(15))),
            ],
        ),
        case(
            "worker-beyond-poll",
            "Freezes the rollup worker for longer than its group waits for a poll.",
            vec![step(0, RollupWorker, Freeze(BEYOND_POLL))],
        ),
    ]
}

fn servers() -> Vec<Case> {
    vec![
        case(
            "kafka-frozen",
            "Freezes the broker for 30 s.",
            vec![step(0, Kafka, Freeze(s(30)))],
        ),
        case(
            "kill-kafka",
            "Kills the broker and starts it again.",
            vec![step(0, Kafka, Kill(s(3)))],
        ),
        case(
            "cassandra-frozen-5",
            "Freezes Cassandra for 5 s.",
            vec![step(0, Cassandra, Freeze(s(5)))],
        ),
        case(
            "cassandra-frozen-30",
            "Freezes Cassandra for 30 s.",
            vec![step(0, Cassandra, Freeze(s(30)))],
        ),
        case(
            "cassandra-frozen-120",
            "Freezes Cassandra for 2 min.",
            vec![step(0, Cassandra, Freeze(s(120)))],
        ),
        case(
            "kill-cassandra",
            "Kills Cassandra, which forgets what it had not synced, and starts it again.",
            vec![step(0, Cassandra, Kill(SOON))],
        ),
        case(
            "restart-cassandra",
            "Asks Cassandra to end, and starts it again.",
            vec![step(0, Cassandra, Restart(SOON))],
        ),
        case(
            "cassandra-forged",
            "Says that writes timed out which were done, and that Cassandra has too much to do.",
            vec![step(0, Cassandra, Forge(s(20)))],
        ),
        case(
            "redis-flushed",
            "Empties the cache eight times.",
            (0..8).map(|_| step(2, Redis, Flush)).collect(),
        ),
        case(
            "kill-redis",
            "Kills Redis twice and starts it again.",
            vec![step(0, Redis, Kill(SOON)), step(5, Redis, Kill(s(5)))],
        ),
        case(
            "redis-frozen",
            "Freezes Redis for 10 s, in mid-write.",
            vec![step(0, Redis, Freeze(s(10)))],
        ),
    ]
}

fn loads() -> Vec<Case> {
    let plain = Mix::default();
    vec![
        mixed(
            "duplicates",
            "Sends every third event again, to the same partition, through the gateway, or to another partition.",
            Mix {
                direct: 400,
                again: 200,
                elsewhere: 200,
                ..plain
            },
        ),
        mixed(
            "clocks-hour-off",
            "Every fifth event comes from a producer whose clock is an hour off.",
            Mix {
                hour_off: 200,
                direct: 300,
                ..plain
            },
        ),
        mixed(
            "at-the-limit",
            "Every third event is as old as the accept limit, give or take a millisecond.",
            Mix {
                at_limit: 300,
                direct: 400,
                ..plain
            },
        ),
        mixed(
            "clears",
            "Clears race adds, half of them at the very microsecond of an add.",
            Mix {
                clears: 200,
                direct: 300,
                ..plain
            },
        ),
        mixed(
            "poison",
            "Every twelfth record is no event, of every kind that a producer may get wrong.",
            Mix {
                poison: 80,
                ..plain
            },
        ),
    ]
}

fn members() -> Vec<Case> {
    vec![
        Case {
            tracks: vec![
                vec![step(0, Ingest, Churn(10))],
                vec![step(1, RollupWorker, Churn(10))],
            ],
            ..case(
                "rebalances",
                "A process of both groups joins and another leaves every 2 s.",
                Vec::new(),
            )
        },
        Case {
            tracks: vec![
                vec![step(0, Ingest, More(3, s(12)))],
                vec![step(0, RollupWorker, More(3, s(12)))],
            ],
            ..case(
                "one-four-one",
                "One of each role, four, and one again.",
                Vec::new(),
            )
        },
        case(
            "signals-dropped",
            "Deletes all signals three times: the sweep and the circulation make up for them.",
            (0..3).map(|_| step(3, Kafka, DropSignals)).collect(),
        ),
    ]
}

/// Every track begins again until the time is over.
fn together() -> Vec<Case> {
    vec![Case {
        mix: Mix {
            direct: 300,
            again: 100,
            elsewhere: 50,
            clears: 20,
            at_limit: 20,
            hour_off: 10,
            poison: 20,
        },
        tracks: vec![
            vec![step(7, Gateway, Kill(SOON))],
            vec![step(5, Ingest, Kill(SOON)), step(9, Ingest, Freeze(s(9)))],
            vec![
                step(6, RollupWorker, Kill(SOON)),
                step(8, RollupWorker, Freeze(s(9))),
            ],
            vec![
                step(10, Cassandra, Freeze(s(5))),
                step(10, Cassandra, Forge(s(5))),
                step(15, Cassandra, Kill(SOON)),
            ],
            vec![step(20, Kafka, Freeze(s(8))), step(25, Kafka, Kill(SOON))],
            vec![
                step(4, Redis, Flush),
                step(8, Redis, Kill(SOON)),
                step(6, Redis, Freeze(s(3))),
            ],
        ],
        lasts: s(60),
        ..case(
            "everything",
            "Everything at once, again and again.",
            Vec::new(),
        )
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own_and_does_something() {
        let cases = all();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in cases {
            let breaks = case.tracks.iter().any(|steps| !steps.is_empty());
            assert!(breaks || case.mix != Mix::default(), "{}", case.name);
        }
    }

    #[test]
    fn no_two_tracks_of_a_case_share_a_target() {
        for case in all() {
            let mut taken = BTreeSet::new();
            for steps in &case.tracks {
                let targets: BTreeSet<_> = steps.iter().map(|step| step.target).collect();
                for target in targets {
                    assert!(taken.insert(target), "{}: {target:?}", case.name);
                }
            }
        }
    }
}
