//! When to ask again. Pure: time and randomness come in as values.

use crate::{failure::Failure, modes::Repeats};
use std::time::Duration;
use uuid::Uuid;

/// Random bits for one decision.
#[derive(Clone, Copy, Debug)]
pub struct Entropy(u128);

impl Entropy {
    /// From the operating system.
    pub fn draw() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// Fixed, for tests.
    #[cfg(test)]
    pub(crate) fn fixed(bits: u128) -> Self {
        Self(bits)
    }

    /// A random UUID.
    pub fn uuid(self) -> Uuid {
        uuid::Builder::from_random_bytes(self.0.to_be_bytes()).into_uuid()
    }

    /// Somewhere in `[0, 1)`.
    fn fraction(self) -> f64 {
        // The lowest 32 bits are random in a version 4 UUID.
        f64::from(u32::try_from(self.0 & 0xffff_ffff).expect("32 bits")) / 4_294_967_296.0
    }
}

/// Exponential back-off with full jitter: clients that failed together come back apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(3);

    /// How long to wait after one more failure: anything up to a time that doubles, on top of what
    /// the server asks.
    pub fn after_failure(&mut self, failure: &Failure, entropy: Entropy) -> Duration {
        let doubled = Self::FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        let jittered = doubled.min(Self::MOST).mul_f64(entropy.fraction());
        failure.retry_after().unwrap_or_default() + jittered
    }
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait, then send the same again, with the same token.
    Retry(Duration),
    /// There is to be no other attempt.
    Stop,
}

/// The attempts of one call, up to its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    timeout: Duration,
    deadline: Duration,
    one_attempt: Duration,
    backoff: Backoff,
    open: bool,
}

impl Attempts {
    /// No single attempt waits longer than this for its answer, unless the server is asked to wait.
    pub(crate) const ONE_ATTEMPT: Duration = Duration::from_secs(10);
    /// The last attempt gets at least this long.
    const LAST_ATTEMPT: Duration = Duration::from_millis(250);

    /// Attempts that end `timeout` after `now`, a time of the steady clock.
    pub(crate) fn new(now: Duration, timeout: Duration) -> Self {
        Self {
            timeout,
            deadline: now.saturating_add(timeout),
            one_attempt: Self::ONE_ATTEMPT,
            backoff: Backoff::default(),
            open: false,
        }
    }

    /// The same, each of which may take all the time that is left: the server is asked to wait.
    pub(crate) fn waiting(self) -> Self {
        let one_attempt = Duration::MAX;
        Self {
            one_attempt,
            ..self
        }
    }

    /// How long one step may take from now on.
    pub(crate) fn patience(&self, now: Duration) -> Duration {
        self.deadline.saturating_sub(now).min(self.one_attempt)
    }

    /// How long all of them may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many failed so far and were followed by another.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.failures
    }

    /// Whether an attempt was sent whose outcome no answer has settled.
    pub(crate) fn are_open(&self) -> bool {
        self.open
    }

    /// Takes up how an attempt failed. A refusal as late, alone, speaks of all attempts before it.
    pub(crate) fn take_up(&mut self, failure: &Failure) {
        match failure {
            Failure::Unsettled { .. } | Failure::OutcomeUnknown(_) => self.open = true,
            Failure::Late(_) => self.open = false,
            Failure::Unreachable { .. } | Failure::Refused(_) | Failure::Denied(_) => {}
        }
    }

    /// Decides after a failure. What may have been applied is sent again only where the same token
    /// counts once.
    pub(crate) fn on_failure(
        &mut self,
        failure: &Failure,
        repeats: Option<Repeats>,
        now: Duration,
        entropy: Entropy,
    ) -> Next {
        if !failure.is_transient() || (self.open && repeats == Some(Repeats::CountTwice)) {
            return Next::Stop;
        }
        let wait = self.backoff.after_failure(failure, entropy);
        // One last attempt fits before the deadline, even if it comes earlier than asked.
        let left = self.deadline.saturating_sub(now);
        match left.checked_sub(Self::LAST_ATTEMPT) {
            Some(most) if !most.is_zero() => Next::Retry(wait.min(most)),
            _ => Next::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Said;
    use Repeats::{CountOnce, CountTwice};
    use proptest::prelude::*;

    fn asking(retry_after: Option<Duration>) -> Failure {
        Failure::Unsettled {
            said: Said::default(),
            retry_after,
        }
    }

    #[test]
    fn waits_double_up_to_a_limit_and_jitter_takes_any_share() {
        for (bits, share) in [(0, 0.0), (0x8000_0000, 0.5), (0xffff_ffff, 1.0)] {
            let mut backoff = Backoff::default();
            for full in [50, 100, 200, 400, 800, 1600, 3000, 3000] {
                let wait = backoff.after_failure(&asking(None), Entropy::fixed(bits));
                let expected = Duration::from_millis(full).mul_f64(share);
                assert!(
                    wait.abs_diff(expected) < Duration::from_micros(1),
                    "{wait:?} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn attempts_end_at_the_deadline_or_at_a_definitive_failure() {
        let start = Duration::from_secs(100);
        let mut attempts = Attempts::new(start, Duration::from_secs(1));
        let entropy = Entropy::fixed(0x8000_0000);
        let mut next = |failure: &Failure, at| attempts.on_failure(failure, None, at, entropy);
        assert_eq!(
            next(&asking(None), start),
            Next::Retry(Duration::from_millis(25))
        );
        assert_eq!(
            next(&asking(None), start + Duration::from_millis(990)),
            Next::Stop
        );
        let asked = asking(Some(Duration::from_secs(7)));
        assert_eq!(
            next(&asked, start + Duration::from_millis(150)),
            Next::Retry(Duration::from_millis(600)),
            "the last attempt begins while there is time for an answer"
        );
        assert_eq!(next(&asked, start + Duration::from_millis(750)), Next::Stop);
        for definitive in [Failure::Late, Failure::OutcomeUnknown, Failure::Refused] {
            assert_eq!(next(&definitive(Said::default()), start), Next::Stop);
        }
    }

    #[test]
    fn what_would_count_twice_is_sent_again_only_when_nothing_was_sent() {
        let unreachable = Failure::Unreachable {
            server: String::new(),
            cause: String::new(),
        };
        for (failure, repeats, again) in [
            (asking(None), Some(CountTwice), false),
            (asking(None), Some(CountOnce), true),
            (asking(None), None, true),
            (unreachable, Some(CountTwice), true),
        ] {
            let mut attempts = Attempts::new(Duration::ZERO, Duration::from_secs(9));
            attempts.take_up(&failure);
            let next = attempts.on_failure(&failure, repeats, Duration::ZERO, Entropy::fixed(0));
            assert_eq!(
                matches!(next, Next::Retry(_)),
                again,
                "{failure:?} {repeats:?}"
            );
        }
    }

    #[test]
    fn a_refusal_settles_only_its_own_attempt_and_late_settles_all() {
        let mut attempts = Attempts::new(Duration::ZERO, Duration::from_secs(9));
        attempts.take_up(&Failure::Refused(Said::default()));
        assert!(!attempts.are_open());
        attempts.take_up(&asking(None));
        attempts.take_up(&Failure::Refused(Said::default()));
        assert!(attempts.are_open());
        attempts.take_up(&Failure::Late(Said::default()));
        assert!(!attempts.are_open());
    }

    proptest! {
        #[test]
        fn a_wait_is_as_long_as_the_server_asks_and_never_passes_the_deadline(
            bits in any::<u128>(),
            asked in 0_u64..9_000,
            timeout in 1_u64..60_000,
            steps in prop::collection::vec(0_u64..5_000, 1..30),
        ) {
            let asked = Duration::from_millis(asked);
            let timeout = Duration::from_millis(timeout);
            let mut attempts = Attempts::new(Duration::ZERO, timeout);
            let mut now = Duration::ZERO;
            for step in steps {
                let failure = asking(Some(asked));
                match attempts.on_failure(&failure, Some(CountOnce), now, Entropy::fixed(bits)) {
                    Next::Stop => {
                        prop_assert!(now + Attempts::LAST_ATTEMPT >= timeout);
                        break;
                    }
                    Next::Retry(wait) => {
                        let end = now + wait + Attempts::LAST_ATTEMPT;
                        prop_assert!(end <= timeout);
                        prop_assert!(wait >= asked || end == timeout);
                        now += wait + Duration::from_millis(step);
                    }
                }
            }
        }
    }
}
