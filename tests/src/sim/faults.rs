//! How hostile a schedule is: drawn from the seed, so that some seeds concentrate on a few faults
//! and others mix all.

use super::rng::Rng;
use std::time::Duration;

/// What a log answers an append with, and how far its clocks may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogKind {
    /// The embedded log answers with the effective time itself; its clock may step by any amount.
    Embedded,
    /// A broker answers with the append time; its clock stays within the gateway's guard (R7).
    Broker,
}

/// Rates of faults, each as "once in so many times"; zero is never.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// The log.
    pub log: LogKind,
    /// A store or log call fails without effect.
    pub fail: u64,
    /// A store or log call fails although it took effect.
    pub fail_applied: u64,
    /// A call waits before it takes effect, or before it answers.
    pub pause: u64,
    /// A step crashes a process.
    pub crash: u64,
    /// A step restarts the event store.
    pub event_store_restart: u64,
    /// A step restarts the rollup store.
    pub rollup_store_restart: u64,
    /// A step loses the cache.
    pub cache_loss: u64,
    /// A step moves a partition, gracefully or not.
    pub rebalance: u64,
    /// A step steps the clock of a partition's log.
    pub clock_step: u64,
    /// A step changes a policy.
    pub policy_change: u64,
    /// A signal is lost.
    pub signal_lost: u64,
    /// A record's stamp is not the log's.
    pub not_log_stamped: u64,
    /// The clients' clocks are off by an hour.
    pub skewed_client: u64,
    /// A mutation is appended again somewhere.
    pub duplicate: u64,
    /// A producer's mutation begins a transaction. Only a broker has them.
    pub transaction: u64,
    /// A commit's metadata is lost: it tells no effective time. Only a broker has them.
    pub metadata_lost: u64,
    /// A step adds a partition.
    pub partition_added: u64,
    /// The worker's memory: this many counters.
    pub pending: usize,
    /// Signals are parked after this long.
    pub park_after: Duration,
    /// How far a log's clock steps.
    pub step_micros: i64,
}

impl Faults {
    /// The faults of a seed.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let log = if rng.chance(2) {
            LogKind::Embedded
        } else {
            LogKind::Broker
        };
        let broker = u64::from(log == LogKind::Broker);
        let mut rate = |usual: u64| match rng.below(4) {
            0 => 0,
            1 => usual * 4,
            2 => usual,
            _ => (usual / 4).max(2),
        };
        Self {
            log,
            fail: rate(40),
            fail_applied: rate(40),
            pause: rate(4),
            crash: rate(200),
            event_store_restart: rate(300),
            rollup_store_restart: rate(300),
            cache_loss: rate(300),
            rebalance: rate(200),
            clock_step: rate(60),
            policy_change: rate(300),
            signal_lost: rate(20),
            not_log_stamped: rate(200),
            skewed_client: rate(40),
            duplicate: rate(6),
            transaction: broker * rate(12),
            metadata_lost: broker * rate(3),
            partition_added: rate(500),
            pending: if rng.chance(3) { 4 } else { 1_000 },
            park_after: Duration::from_millis(if rng.chance(2) { 1_000 } else { 30_000 }),
            step_micros: if log == LogKind::Embedded {
                8_000_000
            } else {
                400_000
            },
        }
    }

    /// The faults that a schedule can do without, by name, and their rates.
    fn rates(&mut self) -> [(&'static str, &mut u64); 17] {
        [
            ("fail", &mut self.fail),
            ("fail-applied", &mut self.fail_applied),
            ("pause", &mut self.pause),
            ("crash", &mut self.crash),
            ("event-store-restart", &mut self.event_store_restart),
            ("rollup-store-restart", &mut self.rollup_store_restart),
            ("cache-loss", &mut self.cache_loss),
            ("rebalance", &mut self.rebalance),
            ("clock-step", &mut self.clock_step),
            ("policy-change", &mut self.policy_change),
            ("signal-lost", &mut self.signal_lost),
            ("not-log-stamped", &mut self.not_log_stamped),
            ("skewed-client", &mut self.skewed_client),
            ("duplicate", &mut self.duplicate),
            ("transaction", &mut self.transaction),
            ("metadata-lost", &mut self.metadata_lost),
            ("partition-added", &mut self.partition_added),
        ]
    }

    /// The names of the faults that strike at all.
    pub(super) fn names(mut self) -> Vec<&'static str> {
        let rates = self.rates().into_iter();
        rates
            .filter(|(_, rate)| **rate > 0)
            .map(|(name, _)| name)
            .collect()
    }

    /// The same without some faults.
    pub(super) fn without(mut self, names: &[String]) -> Self {
        for (name, rate) in self.rates() {
            if names.iter().any(|it| it == name) {
                *rate = 0;
            }
        }
        self
    }

    /// No faults any more: what was broken heals.
    pub(super) fn quiet(&self) -> Self {
        Self {
            fail: 0,
            fail_applied: 0,
            crash: 0,
            event_store_restart: 0,
            rollup_store_restart: 0,
            cache_loss: 0,
            rebalance: 0,
            clock_step: 0,
            policy_change: 0,
            signal_lost: 0,
            not_log_stamped: 0,
            skewed_client: 0,
            duplicate: 0,
            transaction: 0,
            metadata_lost: 0,
            partition_added: 0,
            ..self.clone()
        }
    }
}
