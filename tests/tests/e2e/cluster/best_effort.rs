//! Counters that Redis alone keeps, beside those that are exact.

use super::turns::Turn;
use crate::best_effort::{count_and_clear, make};

#[test]
fn a_best_effort_namespace_counts_in_redis_alone() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let api = cluster.api();
    make(&api, "views");
    count_and_clear(&api, "views");
    cluster.installation.assert_no_panic();
}
