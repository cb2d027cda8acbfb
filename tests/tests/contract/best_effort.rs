//! Counters that a cache alone keeps.

use crate::fixtures::counter;
use quipu_adapters::{
    clock::Clock,
    embedded::EmbeddedBestEffort,
    ports::{BestEffort, BestEffortError},
};
use quipu_core::time::Micros;
use std::{sync::Arc, time::Duration};

run_against!(
    [embedded = crate::fixtures::embedded_best_effort],
    [
        sums_are_exact_and_each_add_tells_its_own,
        a_sum_beyond_64_bits_is_refused_and_changes_nothing,
        a_deleted_counter_begins_at_zero,
        counters_of_other_names_and_namespaces_stay_apart,
        racing_adds_are_all_counted,
        a_counter_lives_for_its_time_from_its_last_add_on
    ]
);

#[cfg(feature = "cluster")]
mod redis;

const TTL: Duration = Duration::from_mins(1);

async fn add(counters: &dyn BestEffort, name: &str, delta: i64) -> Result<i64, BestEffortError> {
    counters.add(&counter(name), delta, TTL).await
}

async fn sums_are_exact_and_each_add_tells_its_own(counters: Arc<dyn BestEffort>) {
    assert_eq!(counters.get(&counter("a")).await, Ok(None));
    assert_eq!(add(&*counters, "a", 0).await, Ok(0));
    assert_eq!(counters.get(&counter("a")).await, Ok(Some(0)));
    // Numbers that a double takes for others.
    let large = (1 << 53) + 1;
    assert_eq!(add(&*counters, "a", large).await, Ok(large));
    assert_eq!(add(&*counters, "a", 2).await, Ok(large + 2));
    assert_eq!(
        add(&*counters, "a", i64::MIN).await,
        Ok(large + 2 + i64::MIN)
    );
    assert_eq!(add(&*counters, "a", -(large + 2)).await, Ok(i64::MIN));
    assert_eq!(counters.get(&counter("a")).await, Ok(Some(i64::MIN)));
}

async fn a_sum_beyond_64_bits_is_refused_and_changes_nothing(counters: Arc<dyn BestEffort>) {
    for (extreme, beyond) in [(i64::MAX, 1), (i64::MIN, -1)] {
        let name = format!("at {extreme}");
        assert_eq!(add(&*counters, &name, extreme).await, Ok(extreme));
        let refused = add(&*counters, &name, beyond).await;
        assert_eq!(refused, Err(BestEffortError::OutOfRange));
        assert_eq!(counters.get(&counter(&name)).await, Ok(Some(extreme)));
        assert_eq!(add(&*counters, &name, -beyond).await, Ok(extreme - beyond));
    }
}

async fn a_deleted_counter_begins_at_zero(counters: Arc<dyn BestEffort>) {
    assert_eq!(counters.delete(&counter("a")).await, Ok(()), "it never was");
    assert_eq!(add(&*counters, "a", 7).await, Ok(7));
    assert_eq!(counters.delete(&counter("a")).await, Ok(()));
    assert_eq!(counters.get(&counter("a")).await, Ok(None));
    assert_eq!(add(&*counters, "a", 2).await, Ok(2));
}

async fn counters_of_other_names_and_namespaces_stay_apart(counters: Arc<dyn BestEffort>) {
    let mut elsewhere = counter("a");
    elsewhere.namespace.0 += 1;
    let names = ["a", "b", "a{b}:1", "2:a", "\u{1f9ee}\n\""].map(counter);
    for (counter, delta) in names.iter().chain([&elsewhere]).zip(1..) {
        assert_eq!(
            counters.add(counter, delta, TTL).await,
            Ok(delta),
            "{counter:?}"
        );
    }
    counters.delete(&counter("b")).await.expect("deleted");
    assert_eq!(counters.get(&counter("a")).await, Ok(Some(1)));
    assert_eq!(counters.get(&elsewhere).await, Ok(Some(6)));
}

async fn racing_adds_are_all_counted(counters: Arc<dyn BestEffort>) {
    let run = |by: i64| {
        let counters = Arc::clone(&counters);
        async move {
            for _ in 0..200 {
                add(&*counters, "a", by).await.expect("added");
            }
        }
    };
    let racing: Vec<_> = [1, 10, 100, 1_000].map(|by| tokio::spawn(run(by))).into();
    for one in racing {
        one.await.expect("every add succeeded");
    }
    assert_eq!(counters.get(&counter("a")).await, Ok(Some(200 * 1_111)));
}

/// In real time, since Redis has no other.
async fn a_counter_lives_for_its_time_from_its_last_add_on(counters: Arc<dyn BestEffort>) {
    let (ttl, pause) = (Duration::from_secs(2), Duration::from_millis(1_200));
    let name = counter("a");
    counters.add(&name, 1, ttl).await.expect("added");
    tokio::time::sleep(pause).await;
    counters.add(&name, 1, ttl).await.expect("added");
    tokio::time::sleep(pause).await;
    assert_eq!(counters.get(&name).await, Ok(Some(2)), "it lives anew");
    tokio::time::sleep(pause).await;
    assert_eq!(counters.get(&name).await, Ok(None));
    assert_eq!(
        counters.add(&name, 5, ttl).await,
        Ok(5),
        "it begins at zero"
    );
}

#[tokio::test]
async fn an_embedded_counter_that_has_ended_cannot_overflow() {
    let (clock, hands) = Clock::manual(Micros::new(0));
    let counters = EmbeddedBestEffort::new(1 << 20, clock);
    assert_eq!(add(&counters, "a", i64::MAX).await, Ok(i64::MAX));
    let nearly = TTL.saturating_sub(Duration::from_micros(1));
    hands.advance(nearly);
    assert_eq!(
        add(&counters, "a", 1).await,
        Err(BestEffortError::OutOfRange)
    );
    // What was refused gave it no time.
    hands.advance(Duration::from_micros(1));
    assert_eq!(counters.get(&counter("a")).await, Ok(None));
    assert_eq!(add(&counters, "a", 1).await, Ok(1));
}

#[tokio::test]
async fn embedded_counters_stay_within_their_bytes_whatever_their_time() {
    let counters = EmbeddedBestEffort::new(100_000, Clock::system());
    let names: Vec<_> = (0..10_000)
        .map(|n| counter(&format!("counter-{n}")))
        .collect();
    for name in &names {
        let added = counters.add(name, 1, Duration::from_hours(24)).await;
        assert_eq!(added, Ok(1));
    }
    let mut kept = 0;
    for name in &names {
        kept += usize::from(counters.get(name).await.expect("read").is_some());
    }
    assert!(
        (100..=1_000).contains(&kept),
        "{kept} of 10,000 fit 100,000 bytes"
    );
}
