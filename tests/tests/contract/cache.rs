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
        the_newest_of_racing_checkpoints_stays
    ]
);

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
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("built");
            for step in 0..300 {
                let time = (start + step * 7) % 1_000;
                let checkpoints = vec![(counter("a"), checkpoint(0, time.into(), time))];
                runtime
                    .block_on(cache.set_if_newer(checkpoints))
                    .expect("set");
                let seen = runtime.block_on(cache.get(&counter("a"))).expect("read");
                assert!(
                    seen.is_some_and(|seen| seen.last_rollup.get() >= time),
                    "it went back"
                );
            }
        }
    };
    let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(set(n * 250))).collect();
    for thread in threads {
        thread.join().expect("no thread saw the cache go back");
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
