//! The ends of a consumer's partitions, asked for now and then: how much is there to read is told
//! by metrics, and decides nothing.

use crate::ports::Consumer;
use futures::future::BoxFuture;
use std::{collections::BTreeMap, fmt, future, time::Duration};
use tokio::time::Instant;

/// Where each partition ends, by partition.
pub type Offsets = BTreeMap<u32, u64>;

/// From one question to the next.
const PACE: Duration = Duration::from_secs(5);

/// The question under way, if there is one.
#[derive(Default)]
pub struct Ends {
    asked: Option<BoxFuture<'static, Offsets>>,
    last: Option<Instant>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Ends {
    /// Asks, unless the last question is unanswered or was just asked.
    pub fn ask<C: Consumer>(&mut self, consumer: &C) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= PACE);
        if self.asked.is_none() && is_due {
            self.last = Some(Instant::now());
            self.asked = Some(consumer.ends());
        }
    }

    /// Resolves to the answer; never, while nothing is asked. Dropping the future loses nothing.
    pub async fn answered(&mut self) -> Offsets {
        let Some(asked) = &mut self.asked else {
            return future::pending().await;
        };
        let ends = asked.await;
        self.asked = None;
        ends
    }
}
