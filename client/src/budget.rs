//! How many retries and hedges a client may add to its calls. Pure: time comes in as a value.
//!
//! When a server fails, retries of all its clients multiply the load it fails under. The budget
//! bounds that: a share of the calls, and a few each second so that a quiet client may retry too.

use std::time::Duration;

/// What a client may send beyond the first attempt of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries and hedges for each hundred calls.
    pub percent: u32,
    /// Retries and hedges each second, however few calls there are. Up to ten seconds' worth is
    /// saved up.
    pub per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            percent: 20,
            per_second: 10,
        }
    }
}

/// What is left of a budget, in millionths of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    limits: RetryBudget,
    left: u64,
    counted_at: Duration,
}

const ATTEMPT: u64 = 1_000_000;

impl Budget {
    /// A full one.
    pub(crate) fn new(limits: RetryBudget, now: Duration) -> Self {
        Self {
            limits,
            left: Self::most(limits),
            counted_at: now,
        }
    }

    fn most(limits: RetryBudget) -> u64 {
        (u64::from(limits.per_second) * 10).max(u64::from(limits.percent.min(1))) * ATTEMPT
    }

    /// Takes up the first attempt of a call.
    pub(crate) fn call(&mut self) {
        let share = u64::from(self.limits.percent) * ATTEMPT / 100;
        self.left = (self.left + share).min(Self::most(self.limits));
    }

    /// Whether one more attempt may be made; if so, it is taken off.
    pub(crate) fn withdraw(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.counted_at);
        let micros = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        let earned = micros.saturating_mul(u64::from(self.limits.per_second));
        self.left = self
            .left
            .saturating_add(earned)
            .min(Self::most(self.limits));
        self.counted_at = self.counted_at.max(now);
        let enough = self.left >= ATTEMPT;
        if enough {
            self.left -= ATTEMPT;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn time_alone_gives_so_many_a_second() {
        let limits = RetryBudget {
            percent: 0,
            per_second: 3,
        };
        let mut budget = Budget::new(limits, SECOND);
        while budget.withdraw(SECOND) {}
        let granted = (1..=1_000).filter(|step| budget.withdraw(SECOND + SECOND * *step / 100));
        assert_eq!(granted.count(), 30, "in ten seconds");
    }

    #[test]
    fn without_time_only_a_share_of_the_calls_is_tried_again() {
        let limits = RetryBudget {
            percent: 20,
            per_second: 0,
        };
        let mut budget = Budget::new(limits, SECOND);
        while budget.withdraw(SECOND) {}
        let granted = (0..1_000).filter(|_| {
            budget.call();
            budget.withdraw(SECOND)
        });
        assert_eq!(granted.count(), 200);
    }

    proptest! {
        #[test]
        fn no_schedule_gets_more_than_what_was_saved_and_earned(
            percent in 0_u32..200,
            per_second in 0_u32..50,
            steps in prop::collection::vec((0_u64..300, 0_u32..4, 0_u32..20), 0..100),
        ) {
            let limits = RetryBudget { percent, per_second };
            let (mut now, mut calls, mut granted) = (Duration::ZERO, 0_u64, 0_u64);
            let mut budget = Budget::new(limits, now);
            for (millis, more_calls, wanted) in steps {
                now += Duration::from_millis(millis);
                for _ in 0..more_calls {
                    budget.call();
                    calls += 1;
                }
                for _ in 0..wanted {
                    granted += u64::from(budget.withdraw(now));
                }
            }
            let seconds = u64::try_from(now.as_millis()).unwrap();
            let earned = seconds * u64::from(per_second) / 1_000;
            let share = calls * u64::from(percent) / 100;
            let saved = u64::from(per_second) * 10 + u64::from(percent.min(1));
            prop_assert!(granted <= saved + earned + share + 1);
        }
    }
}
