//! The quick part of the fault suite. `scripts/faults` runs all of it.

use super::{binary::binary, installation::Addresses, turns::Turn};
use quipu_certify::Volume;
use quipu_tests::faults::{self, Options};

#[test]
fn nothing_is_lost_or_counted_twice_while_each_role_dies_under_every_kind_of_load() {
    let _turn = Turn::take();
    let Addresses {
        kafka,
        cassandra,
        redis,
    } = Addresses::shared();
    let addresses = faults::Addresses {
        kafka,
        cassandra,
        redis,
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let options = Options {
        binary: binary().to_owned(),
        volume: Volume {
            rate: 200,
            events: 3_000,
        },
        counters: 20,
        directory: place.path().to_owned(),
    };
    let quick = faults::all().into_iter().find(|case| case.name == "quick");
    let quick = quick.expect("there is a quick one");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let done = runtime.block_on(faults::run(&quick, 1, &options, (&addresses, None)));
    let done = done.expect("there is a verdict");
    eprintln!("{}", done.summary());
    assert!(done.survived, "{:#?}", done.first_violations);
    assert!(done.tally.acknowledged > 500, "{:?}", done.tally);
    assert!(done.tally.poison > 0 && done.tally.dead_letters.contains_key("malformed"));
    assert_eq!(done.injected.len(), 3);
}
