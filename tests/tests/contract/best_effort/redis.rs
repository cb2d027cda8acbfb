//! The same on a real Redis, and on some of the test's own that fail.

use super::add;
use crate::{
    cache::redis::OwnRedis,
    fixtures::{
        checkpoint, counter, redis_address, redis_best_effort, redis_cache, redis_settings,
    },
};
use quipu_adapters::{
    ports::{BestEffortError, Cache},
    redis::RedisSettings,
};
use std::time::Duration;

macro_rules! run_on_redis {
    ([$($test:ident),+ $(,)?]) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $test() {
            super::$test(redis_best_effort(&redis_settings(redis_address())).await).await;
        })+
    };
}

run_on_redis!([
    sums_are_exact_and_each_add_tells_its_own,
    a_sum_beyond_64_bits_is_refused_and_changes_nothing,
    a_deleted_counter_begins_at_zero,
    counters_of_other_names_and_namespaces_stay_apart,
    racing_adds_are_all_counted,
    a_counter_lives_for_its_time_from_its_last_add_on,
]);

fn unavailable<T>(result: &Result<T, BestEffortError>) -> bool {
    matches!(result, Err(BestEffortError::Unavailable(_)))
}

#[tokio::test]
async fn a_best_effort_counter_and_a_cached_checkpoint_of_one_name_stay_apart() {
    let settings = redis_settings(redis_address());
    let counters = redis_best_effort(&settings).await;
    let cache = redis_cache(settings).await;
    let cached = checkpoint(1, 9, 9);
    let set = cache.set_if_newer(vec![(counter("a"), cached)]);
    set.await.expect("set");
    assert_eq!(counters.get(&counter("a")).await, Ok(None));
    assert_eq!(add(&*counters, "a", 3).await, Ok(3));
    assert_eq!(cache.get(&counter("a")).await.expect("read"), Some(cached));
}

#[tokio::test]
async fn an_add_is_counted_once_also_when_redis_forgot_the_script() {
    let redis = OwnRedis::start();
    let counters = redis_best_effort(&redis_settings(redis.address())).await;
    for sum in 1..5 {
        redis.tell(&["SCRIPT", "FLUSH"]);
        assert_eq!(add(&*counters, "a", 1).await, Ok(sum));
    }
}

#[tokio::test]
async fn what_another_wrote_under_a_counter_s_key_is_told_and_can_be_deleted() {
    let redis = OwnRedis::start();
    let settings = redis_settings(redis.address());
    let key = format!("{}{{}}best_effort:1:a", settings.key_prefix);
    let counters = redis_best_effort(&settings).await;
    for write in [["SET", &key, "text"], ["RPUSH", &key, "text"]] {
        redis.tell(&write);
        let added = add(&*counters, "a", 1).await;
        assert!(
            matches!(added, Err(BestEffortError::Damaged(_))),
            "{added:?}"
        );
        let read = counters.get(&counter("a")).await;
        assert!(matches!(read, Err(BestEffortError::Damaged(_))), "{read:?}");
        assert_eq!(counters.delete(&counter("a")).await, Ok(()));
    }
    assert_eq!(add(&*counters, "a", 1).await, Ok(1));
}

#[tokio::test]
async fn a_delete_reaches_every_replica_or_fails() {
    let (primary, mut replica) = (OwnRedis::start(), OwnRedis::start());
    let settings = RedisSettings {
        replicas: vec![replica.address()],
        ..redis_settings(primary.address())
    };
    let key = format!("{}{{}}best_effort:1:a", settings.key_prefix);
    let counters = redis_best_effort(&settings).await;
    replica.tell(&["SET", &key, "7"]);
    assert_eq!(add(&*counters, "a", 7).await, Ok(7));
    let mut deleted = counters.delete(&counter("a")).await;
    for _ in 0..100 {
        if deleted.is_ok() {
            break;
        }
        // Its connection is made in the background.
        tokio::time::sleep(Duration::from_millis(20)).await;
        deleted = counters.delete(&counter("a")).await;
    }
    assert_eq!(deleted, Ok(()));
    assert_eq!(replica.ask(&["EXISTS", &key]), "0");
    replica.kill();
    assert_eq!(add(&*counters, "a", 7).await, Ok(7));
    let deleted = counters.delete(&counter("a")).await;
    assert!(unavailable(&deleted), "{deleted:?}");
    assert_eq!(counters.get(&counter("a")).await, Ok(None), "it tried both");
}

#[tokio::test]
async fn an_add_that_lost_its_connection_is_never_sent_again() {
    let redis = OwnRedis::start();
    let counters = redis_best_effort(&redis_settings(redis.address())).await;
    assert_eq!(add(&*counters, "a", 1).await, Ok(1));
    // Redis takes the next add, and keeps it waiting until its connection is gone.
    redis.tell(&["CLIENT", "PAUSE", "1500", "WRITE"]);
    let lose = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        redis.tell(&["CLIENT", "KILL", "TYPE", "normal"]);
    };
    let (added, ()) = tokio::join!(add(&*counters, "a", 10), lose);
    assert!(unavailable(&added), "{added:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        add(&*counters, "a", 100).await,
        Ok(101),
        "it came once more"
    );
}

#[tokio::test]
async fn a_redis_that_hangs_or_is_gone_costs_an_add_no_more_than_its_time() {
    let mut redis = OwnRedis::start();
    let counters = redis_best_effort(&redis_settings(redis.address())).await;
    redis.tell(&["CLIENT", "PAUSE", "2000", "ALL"]);
    let many = (0..1_000).map(|_| add(&*counters, "a", 1));
    let all = futures::future::join_all(many);
    let answers = tokio::time::timeout(Duration::from_millis(1_500), all).await;
    assert!(answers.expect("in time").iter().all(unavailable));
    redis.kill();
    let gone = add(&*counters, "a", 1);
    let gone = tokio::time::timeout(Duration::from_millis(600), gone).await;
    assert!(unavailable(&gone.expect("in time")));
}
