//! Renews what may be relied on, about every second: a role that cannot keeps its old time, and so
//! pauses when it comes.

use super::{Shared, registry::Heading};
use crate::{
    cassandra::error::Failure,
    ports::{Durability, StoreError},
};
use quipu_core::time::Micros;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

const EVERY: Duration = Duration::from_secs(1);
/// How far ahead time is granted, besides what it takes until that is durable.
const AHEAD: Duration = Duration::from_secs(5);
/// It is granted anew when less than this is left. Of many roles one grants, and all read.
const LEAST: Duration = Duration::from_secs(4);
/// How much the clocks of a role and of the store may differ.
const SKEW: Duration = Duration::from_secs(2);
/// Others may grant at the same time; what they granted serves as well.
const ATTEMPTS: u32 = 5;

/// Renews until the last user is gone.
pub(super) async fn run(shared: Weak<Shared>) {
    let mut turns = tokio::time::interval(EVERY);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        turns.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match shared.refresh().await {
            Ok(()) => {
                if std::mem::take(&mut is_failing) {
                    tracing::info!("the policy is renewed again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let through = shared.policies.borrow().valid_through();
                    let message = "cannot renew the policy; nothing is decided beyond what was \
                                   granted";
                    tracing::error!(%error, %through, message);
                }
            }
        }
    }
}

impl Shared {
    /// Brings the newest history, and time to rely on it: only once both are durable, or a storage
    /// node that restarts could take back what was decided by.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        // What is read counts as written at the moment of the read, as checkpoints do (R17).
        let read = self.writes.begin();
        let heading = self.granted().await?;
        let registry = match known.take() {
            // Whoever knows as many changes knows the history through what was granted since.
            Some(mut registry) if registry.heading.changes == heading.changes => {
                registry.heading = heading;
                registry
            }
            _ => self.book.registry(heading).await?,
        };
        self.writes.acknowledged(&read);
        if self.writes.sync().await? == Durability::Lost {
            let problem = "the storage node restarted and may have lost changes of the control \
                           plane; reading it again";
            return Err(StoreError::Unavailable(problem.to_owned()));
        }
        let valid_through = registry.heading.granted;
        // What was granted only rises, and so does what is told of it.
        self.policies.send_replace(Arc::new(registry.book()));
        let mut topics = registry.heading.topics.clone();
        topics.valid_through = valid_through;
        self.topics.send_replace(Arc::new(topics));
        *known = Some(registry);
        Ok(())
    }

    /// A heading that grants enough time.
    async fn granted(&self) -> Result<Heading, StoreError> {
        for _ in 0..ATTEMPTS {
            let before = self.clock.now();
            let read = self.book.heading().await?;
            let now = self.clock.now();
            check_clock(before, read.store_now, now)?;
            let mut heading = read.heading;
            // Twice: this renewal has to become durable, and the next one before this one ends.
            let until_durable = 2 * self.writes.wait();
            if heading.granted >= now + LEAST + until_durable {
                return Ok(heading);
            }
            let through = now + AHEAD + until_durable;
            if self.book.grant(&heading, through).await? {
                heading.granted = through;
                return Ok(heading);
            }
        }
        let problem = format!("others granted time or made changes {ATTEMPTS} times meanwhile");
        Err(Failure::Unavailable(problem).into())
    }
}

/// The store read its clock between `before` and `after` of ours.
fn check_clock(before: Micros, store: Micros, after: Micros) -> Result<(), StoreError> {
    if before - SKEW <= store && store <= after + SKEW {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "this machine's clock shows {after} and Cassandra's {store}; they may differ by {SKEW:?}: \
         set the clocks, by NTP for example"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_by_more_than_two_seconds_are_told() {
        let at = |millis: i64| Micros::new(millis * 1_000);
        assert!(check_clock(at(5_000), at(3_000), at(5_100)).is_ok());
        assert!(check_clock(at(5_000), at(7_100), at(5_100)).is_ok());
        assert!(check_clock(at(5_000), at(2_999), at(5_100)).is_err());
        assert!(check_clock(at(5_000), at(7_101), at(5_100)).is_err());
        assert!(
            check_clock(at(5_000), at(4_000), at(9_000)).is_ok(),
            "a slow read is no skew"
        );
    }
}
