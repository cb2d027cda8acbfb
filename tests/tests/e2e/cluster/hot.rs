//! One counter that nearly everything goes to.

use super::{
    mutations::{add_of, now},
    turns::Turn,
};
use crate::{client::seed, judge::judge, ledger::Answer};
use serde_json::json;
use std::{collections::BTreeMap, thread::sleep, time::Duration};

const BATCHES: usize = 20;
const BATCH: usize = 1_000;

#[test]
fn a_counter_with_nine_tenths_of_the_traffic_is_exact_and_so_are_the_others() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let api = cluster.api();
    api.put_namespace("hot", "5s");
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut expected: BTreeMap<String, i128> = BTreeMap::new();
    for batch in 0..BATCHES {
        let mut items = Vec::with_capacity(BATCH);
        for item in 0..BATCH {
            let counter = match rng.u8(..10) {
                0 => format!("cold/{}", rng.u8(..100)),
                _ => "hot".to_owned(),
            };
            let delta = rng.i64(1..100);
            let entry = add_of(&counter, &format!("{batch}-{item}"), delta);
            *expected.entry(counter).or_default() += i128::from(delta);
            items.push(json!({
                "counter_name": entry.counter,
                "delta": delta,
                "idempotency_token": entry.token_json(),
            }));
        }
        let settled = (0..300).any(|_| {
            let path = "/v1/namespaces/hot/counters:batchAdd";
            let answer = api
                .post(path, &json!({ "items": items }))
                .expect("it answers");
            let results = answer.1["results"].as_array().expect("results");
            let answers = results.iter().map(judge);
            items = answers
                .zip(&items)
                .filter_map(|(answer, item)| {
                    assert_ne!(answer, Answer::Late, "{item}");
                    (answer == Answer::Unsettled).then(|| item.clone())
                })
                .collect();
            if !items.is_empty() {
                sleep(Duration::from_millis(100));
            }
            items.is_empty()
        });
        assert!(settled, "batch {batch} is never settled");
    }
    let through = now().get();
    for (counter, expected) in expected {
        let count = api.count_through("hot", &counter, through);
        assert_eq!(count, expected, "{counter}");
    }
    cluster.installation.assert_no_panic();
}
