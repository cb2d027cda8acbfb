//! SIGKILL at any moment.

use crate::{
    client::{Address, seed, under_load},
    http::Api,
    ledger::Answer,
    process::Place,
};
use std::{thread::sleep, time::Duration};

const KILLS: usize = 20;

#[test]
fn twenty_kills_under_load_lose_nothing_acknowledged_and_count_nothing_twice() {
    let place = Place::new();
    let mut server = place.start();
    Api::new(&server.http).put_namespace("crash", "1s");
    let address = Address::new(&server);
    let ledger = under_load("crash", seed(), &address, |rng| {
        for _ in 0..KILLS {
            sleep(Duration::from_millis(rng.u64(50..900)));
            server.running.kill();
            match rng.u8(..4) {
                // Until tokens of calls without an answer are too old.
                0 => sleep(Duration::from_millis(1_200)),
                // Again, while it recovers.
                1 => {
                    let mut starting = place.spawn("127.0.0.1:0", "127.0.0.1:0");
                    sleep(Duration::from_millis(rng.u64(..150)));
                    starting.kill();
                }
                _ => {}
            }
            server = place.start();
            address.set(&server);
        }
        sleep(Duration::from_millis(500));
    });
    assert!(ledger.heard(Answer::Accepted) > 1_000);
    assert!(ledger.heard(Answer::AlreadyApplied) > 0);
    assert!(ledger.heard(Answer::Late) > 0);
    assert!(ledger.heard(Answer::Unsettled) > 0);
    let counts = ledger.check(&Api::new(&server.http));

    // What is durable is the same after one more, and is there at once.
    server.running.kill();
    let server = place.start();
    let api = Api::new(&server.http);
    for (counter, expected) in counts {
        let (count, _) = api.count("crash", &counter).expect("the server answers");
        assert_eq!(count, expected, "{counter}");
    }
    place.assert_no_panic();
}
