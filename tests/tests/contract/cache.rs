//! The cache never goes back.

use crate::fixtures::{checkpoint, counter};
use quipu_adapters::{embedded::EmbeddedCache, ports::Cache};
use quipu_core::checkpoint::Checkpoint;

run_against!(
    [
        memory = crate::fixtures::memory_cache,
        embedded = crate::fixtures::embedded_cache
    ],
    [
        an_older_checkpoint_is_never_set,
        the_newest_of_racing_checkpoints_stays,
        every_value_comes_back_as_it_was_set,
        many_are_set_and_read_at_once
    ]
);

#[cfg(feature = "cluster")]
#[path = "redis.rs"]
pub(crate) mod redis;

async fn set<C: Cache>(cache: &C, checkpoint: Checkpoint) -> Option<Checkpoint> {
    cache
        .set_if_newer(vec![(counter("a"), checkpoint)])
        .await
        .expect("set");
    cache.get(&counter("a")).await.expect("read")
}

async fn an_older_checkpoint_is_never_set<C: Cache>(cache: C) {
    assert_eq!(cache.get(&counter("a")).await.expect("read"), None);
    let (old, new, recount) = (
        checkpoint(0, 1, 1),
        checkpoint(0, 2, 2),
        checkpoint(1, 0, 0),
    );
    assert_eq!(set(&cache, new).await, Some(new));
    assert_eq!(set(&cache, old).await, Some(new));
    assert_eq!(set(&cache, recount).await, Some(recount));
    assert_eq!(set(&cache, new).await, Some(recount));
    assert_eq!(cache.get(&counter("b")).await.expect("read"), None);
}

async fn the_newest_of_racing_checkpoints_stays<C: Cache>(cache: C) {
    let set = |start: i64| {
        let cache = cache.clone();
        async move {
            for step in 0..300 {
                let time = (start + step * 7) % 1_000;
                let checkpoints = vec![(counter("a"), checkpoint(0, time.into(), time))];
                cache.set_if_newer(checkpoints).await.expect("set");
                let seen = cache.get(&counter("a")).await.expect("read");
                assert!(
                    seen.is_some_and(|seen| seen.last_rollup.get() >= time),
                    "it went back"
                );
            }
        }
    };
    let racing: Vec<_> = (0..4).map(|n| tokio::spawn(set(n * 250))).collect();
    for one in racing {
        one.await.expect("nobody saw the cache go back");
    }
}

async fn every_value_comes_back_as_it_was_set<C: Cache>(cache: C) {
    let extremes = [
        ("a", checkpoint(0, i128::MAX, i64::MIN)),
        ("a{b}c", checkpoint(2_047, i128::MIN, i64::MAX)),
        ("\u{1f9ee}\n:\"", checkpoint(7, -1, -1)),
        // Two that a number of 53 bits takes for one.
        ("d", checkpoint(1, 1, 1_700_000_000_000_001)),
        ("d", checkpoint(1, 2, 1_700_000_000_000_002)),
        ("d", checkpoint(1, 1, 1_700_000_000_000_001)),
    ];
    for (name, checkpoint) in extremes {
        let checkpoints = vec![(counter(name), checkpoint)];
        cache.set_if_newer(checkpoints).await.expect("set");
    }
    for (name, checkpoint) in &extremes[..3] {
        let found = cache.get(&counter(name)).await.expect("read");
        assert_eq!(found, Some(*checkpoint), "{name:?}");
    }
    let found = cache.get(&counter("d")).await.expect("read");
    assert_eq!(found, Some(extremes[4].1));
}

async fn many_are_set_and_read_at_once<C: Cache>(cache: C) {
    let names: Vec<_> = (0..2_000).map(|n| counter(&format!("c{n}"))).collect();
    let numbered = || names.iter().cloned().zip(1..);
    let checkpoints = numbered().map(|(name, n)| (name, checkpoint(0, n.into(), n)));
    cache
        .set_if_newer(checkpoints.collect())
        .await
        .expect("set");
    let reads = names.iter().map(|name| cache.get(name));
    let read = futures::future::try_join_all(reads).await.expect("read");
    for ((name, n), found) in numbered().zip(read) {
        assert_eq!(found, Some(checkpoint(0, n.into(), n)), "{name:?}");
    }
}

#[tokio::test]
async fn an_embedded_cache_stays_within_its_bytes() {
    let cache = EmbeddedCache::new(100_000);
    let names: Vec<_> = (0..10_000)
        .map(|n| counter(&format!("counter-{n}")))
        .collect();
    for name in &names {
        let checkpoints = vec![(name.clone(), checkpoint(0, 1, 1))];
        cache.set_if_newer(checkpoints).await.expect("set");
    }
    let mut kept = 0;
    for name in &names {
        kept += usize::from(cache.get(name).await.expect("read").is_some());
    }
    assert!(
        (100..=1_000).contains(&kept),
        "{kept} of 10,000 fit 100,000 bytes"
    );
}
