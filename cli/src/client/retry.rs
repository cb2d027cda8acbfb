//! When to ask again. Pure: time and randomness come in as values.

use super::verdict::Failure;
use std::time::Duration;
use uuid::Uuid;

/// Random bits for one decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entropy(u128);

impl Entropy {
    /// From the operating system.
    pub(crate) fn draw() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// Fixed, for tests.
    #[cfg(test)]
    pub(crate) fn fixed(bits: u128) -> Self {
        Self(bits)
    }

    /// A random UUID.
    pub(crate) fn uuid(self) -> Uuid {
        uuid::Builder::from_random_bytes(self.0.to_be_bytes()).into_uuid()
    }

    /// Somewhere in `[0, 1)`.
    fn fraction(self) -> f64 {
        // The lowest 32 bits are random in a version 4 UUID.
        f64::from(u32::try_from(self.0 & 0xffff_ffff).expect("32 bits")) / 4_294_967_296.0
    }
}

/// Exponential back-off with jitter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(3);

    /// How long to wait after one more failure: at least as long as the server asks.
    pub(crate) fn after_failure(&mut self, failure: &Failure, entropy: Entropy) -> Duration {
        let doubled = Self::FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        let full = doubled.min(Self::MOST);
        // Between half and the whole, so that clients that failed together come back apart.
        let jittered = full.mul_f64(0.5 + entropy.fraction() / 2.0);
        match failure {
            Failure::Unsettled {
                retry_after: Some(asked),
                ..
            } => jittered.max(*asked),
            _ => jittered,
        }
    }
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait, then send the same again, with the same token.
    Retry(Duration),
    /// The failure is definitive.
    Settled,
    /// There is no time for another attempt.
    GiveUp,
}

/// The attempts of one call, up to its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    timeout: Duration,
    deadline: Duration,
    backoff: Backoff,
    sent: bool,
}

impl Attempts {
    /// No single attempt waits longer than this for its answer.
    const ONE_ATTEMPT: Duration = Duration::from_secs(10);
    /// The last attempt gets at least this long.
    const LAST_ATTEMPT: Duration = Duration::from_millis(250);

    /// Attempts that end `timeout` after `now`, a time of the steady clock.
    pub(crate) fn new(now: Duration, timeout: Duration) -> Self {
        Self {
            timeout,
            deadline: now + timeout,
            backoff: Backoff::default(),
            sent: false,
        }
    }

    /// Notes that something is about to be sent. Returns how long to wait for the answer.
    pub(crate) fn send(&mut self, now: Duration) -> Duration {
        self.sent = true;
        self.patience(now)
    }

    /// How long one step may take from now on.
    pub(crate) fn patience(&self, now: Duration) -> Duration {
        self.deadline.saturating_sub(now).min(Self::ONE_ATTEMPT)
    }

    /// How long all of them may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many failed so far and were followed by another.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.failures
    }

    /// Whether anything was ever sent.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent
    }

    /// Decides after a failure.
    pub(crate) fn on_failure(
        &mut self,
        failure: &Failure,
        now: Duration,
        entropy: Entropy,
    ) -> Next {
        match failure {
            Failure::Unreachable { .. } | Failure::Unsettled { .. } => {
                let wait = self.backoff.after_failure(failure, entropy);
                // One last attempt fits before the deadline, even if it comes earlier than asked.
                let left = self.deadline.saturating_sub(now);
                match left.checked_sub(Self::LAST_ATTEMPT) {
                    Some(most) if !most.is_zero() => Next::Retry(wait.min(most)),
                    _ => Next::GiveUp,
                }
            }
            Failure::Late(_) | Failure::OutcomeUnknown(_) | Failure::Refused { .. } => {
                Next::Settled
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsettled(retry_after: Option<Duration>) -> Failure {
        Failure::Unsettled {
            code: String::new(),
            reason: String::new(),
            message: String::new(),
            retry_after,
        }
    }

    #[test]
    fn waits_double_up_to_a_limit_and_jitter_takes_at_most_half() {
        for (bits, share) in [(0, 0.5), (0xffff_ffff, 1.0)] {
            let mut backoff = Backoff::default();
            for full in [50, 100, 200, 400, 800, 1600, 3000, 3000] {
                let wait = backoff.after_failure(&unsettled(None), Entropy::fixed(bits));
                let expected = Duration::from_millis(full).mul_f64(share);
                assert!(
                    wait.abs_diff(expected) < Duration::from_micros(1),
                    "{wait:?} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn a_wait_is_at_least_as_long_as_the_server_asks() {
        let asked = Duration::from_secs(7);
        let wait = Backoff::default().after_failure(&unsettled(Some(asked)), Entropy::fixed(0));
        assert_eq!(wait, asked);
    }

    #[test]
    fn attempts_end_at_the_deadline_or_at_a_definitive_failure() {
        let start = Duration::from_secs(100);
        let mut attempts = Attempts::new(start, Duration::from_secs(1));
        let entropy = Entropy::fixed(0);
        let mut next = |failure: &Failure, at: Duration| attempts.on_failure(failure, at, entropy);
        assert_eq!(
            next(&unsettled(None), start),
            Next::Retry(Duration::from_millis(25))
        );
        assert_eq!(
            next(&unsettled(None), start + Duration::from_millis(990)),
            Next::GiveUp
        );
        let asked = unsettled(Some(Duration::from_secs(7)));
        assert_eq!(
            next(&asked, start + Duration::from_millis(150)),
            Next::Retry(Duration::from_millis(600)),
            "the last attempt begins while there is time for an answer"
        );
        assert_eq!(
            next(&asked, start + Duration::from_millis(750)),
            Next::GiveUp
        );
        assert_eq!(next(&Failure::Late(String::new()), start), Next::Settled);
        assert_eq!(
            next(&Failure::OutcomeUnknown(String::new()), start),
            Next::Settled
        );
    }
}
