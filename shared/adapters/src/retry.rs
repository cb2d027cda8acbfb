//! Waiting between attempts of work that must be done, however long its store is away.

use std::{fmt::Display, time::Duration};

/// A back-off that doubles up to five seconds, and logs the first failure and then few.
#[derive(Debug)]
pub struct Backoff {
    what: &'static str,
    attempt: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(5);

    /// For work that reads well behind "could not", such as "write events".
    pub fn new(what: &'static str) -> Self {
        Self { what, attempt: 0 }
    }

    /// Waits before the next attempt.
    pub async fn wait(&mut self, error: &impl Display) {
        self.failed(error);
        tokio::time::sleep(self.last_pause()).await;
    }

    /// Notes an attempt that failed, for callers that wait in their own way.
    pub fn failed(&mut self, error: &impl Display) {
        self.attempt += 1;
        if self.attempt.is_power_of_two() {
            let (what, attempt, pause) = (self.what, self.attempt, self.last_pause());
            tracing::warn!(%error, attempt, ?pause, "could not {what}; trying again");
        }
    }

    /// The work succeeded: what fails next is told again.
    pub fn succeeded(&mut self) {
        self.attempt = 0;
    }

    /// How long to wait after the last attempt that failed.
    pub fn last_pause(&self) -> Duration {
        Self::pause(self.attempt.saturating_sub(1))
    }

    /// How long to wait after this many attempts have failed before.
    fn pause(attempt: u32) -> Duration {
        Self::FIRST
            .saturating_mul(2_u32.saturating_pow(attempt))
            .min(Self::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn pauses_double_and_stay_within_five_seconds() {
        assert_eq!(Backoff::pause(0), Duration::from_millis(20));
        assert_eq!(Backoff::pause(1), Duration::from_millis(40));
        assert_eq!(Backoff::pause(60), Duration::from_secs(5));
    }
}
