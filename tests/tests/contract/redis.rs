//! The cache on a real Redis, and on one of the test's own that fails.

use crate::fixtures::{checkpoint, counter, redis_address, redis_cache, redis_settings};
use quipu_adapters::{
    ports::{Cache, StoreError},
    redis::RedisCache,
};
use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

macro_rules! run_on_redis {
    ([$($test:ident),+ $(,)?]) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $test() {
            super::$test(redis_cache(redis_settings(redis_address())).await).await;
        })+
    };
}

run_on_redis!([
    an_older_checkpoint_is_never_set,
    the_newest_of_racing_checkpoints_stays,
    every_value_comes_back_as_it_was_set,
    many_are_set_and_read_at_once,
]);

/// A Redis that ends with the test.
pub(crate) struct OwnRedis {
    port: u16,
    process: Child,
}

impl OwnRedis {
    pub(crate) fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Self::start_on(port)
    }

    fn start_on(port: u16) -> Self {
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Self { port, process }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn tell(&self, words: &[&str]) {
        self.ask(words);
    }

    /// What it answers.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let told = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(words)
            .output()
            .expect("redis-cli is installed");
        assert!(told.status.success(), "{told:?}");
        String::from_utf8_lossy(&told.stdout).trim().to_owned()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it is ours");
        self.process.wait().expect("it is ours");
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn set(cache: &RedisCache, time: i64) -> Result<(), StoreError> {
    let checkpoints = vec![(counter("a"), checkpoint(0, time.into(), time))];
    cache.set_if_newer(checkpoints).await
}

async fn through(cache: &RedisCache) -> Option<i64> {
    let found = cache.get(&counter("a")).await.expect("read");
    found.map(|found| found.last_rollup.get())
}

#[tokio::test]
async fn a_flushed_redis_heals_by_the_next_set() {
    let redis = OwnRedis::start();
    let cache = redis_cache(redis_settings(redis.address())).await;
    set(&cache, 5).await.expect("set");
    redis.tell(&["FLUSHALL"]);
    assert_eq!(through(&cache).await, None);
    set(&cache, 6).await.expect("set");
    assert_eq!(through(&cache).await, Some(6));
}

#[tokio::test]
async fn an_old_checkpoint_never_wins_also_when_redis_forgot_the_script() {
    let redis = OwnRedis::start();
    let cache = redis_cache(redis_settings(redis.address())).await;
    for time in [5, 4, 6, 3] {
        redis.tell(&["SCRIPT", "FLUSH"]);
        set(&cache, time).await.expect("set");
    }
    assert_eq!(through(&cache).await, Some(6));
}

#[tokio::test]
async fn what_another_wrote_under_the_key_is_replaced() {
    let redis = OwnRedis::start();
    let settings = redis_settings(redis.address());
    let key = format!("{}{{}}:1:a", settings.key_prefix);
    let cache = redis_cache(settings).await;
    redis.tell(&["SET", &key, "99999999999999999999999999:1"]);
    assert_eq!(through(&cache).await, None);
    set(&cache, 1).await.expect("set");
    assert_eq!(through(&cache).await, Some(1));
}

#[tokio::test]
async fn a_set_lives_for_its_time_anew() {
    let redis = OwnRedis::start();
    let mut settings = redis_settings(redis.address());
    settings.ttl = Duration::from_secs(1);
    let cache = redis_cache(settings).await;
    let pause = || tokio::time::sleep(Duration::from_millis(600));
    set(&cache, 1).await.expect("set");
    pause().await;
    set(&cache, 1).await.expect("set again");
    pause().await;
    assert_eq!(
        through(&cache).await,
        Some(1),
        "it lives from the last set on"
    );
    pause().await;
    assert_eq!(through(&cache).await, None);
}

#[tokio::test]
async fn a_killed_redis_fails_fast_and_is_used_again_within_ten_seconds() {
    let mut redis = OwnRedis::start();
    let cache = redis_cache(redis_settings(redis.address())).await;
    set(&cache, 5).await.expect("set");
    redis.kill();
    let down = Instant::now();
    // Long enough for several attempts to connect.
    while down.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        let error = cache.get(&counter("a")).await.expect_err("nobody is there");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        set(&cache, 6).await.expect_err("nobody is there");
        assert!(
            asked.elapsed() < Duration::from_millis(600),
            "{:?}",
            asked.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _again = OwnRedis::start_on(redis.port);
    let back = Instant::now();
    while set(&cache, 7).await.is_err() {
        assert!(
            back.elapsed() < Duration::from_secs(10),
            "it is not used again"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(through(&cache).await, Some(7));
}

#[tokio::test]
async fn a_redis_that_hangs_costs_a_call_no_more_than_its_time() {
    let redis = OwnRedis::start();
    let cache = redis_cache(redis_settings(redis.address())).await;
    redis.tell(&["CLIENT", "PAUSE", "5000", "ALL"]);
    let asked = Instant::now();
    let name = counter("a");
    let many = (0..1_000).map(|_| cache.get(&name));
    let answers = futures::future::join_all(many).await;
    assert!(answers.iter().all(Result::is_err));
    assert!(
        asked.elapsed() < Duration::from_millis(1_500),
        "{:?}",
        asked.elapsed()
    );
    while set(&cache, 1).await.is_err() {
        assert!(
            asked.elapsed() < Duration::from_secs(15),
            "it is not used again"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
