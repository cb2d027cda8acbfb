//! Frontiers on their way to being committed: one commit under way at a time, the newest frontier
//! of each partition next, and what failed again, until it succeeds or the partition is gone.

use crate::{
    ports::{Committed, Consumer, LogError},
    retry::Backoff,
};
use futures::{FutureExt, future::BoxFuture};
use std::{collections::BTreeMap, fmt, future};

/// Frontiers to commit, and the commit under way.
pub struct Commits {
    waiting: BTreeMap<u32, Committed>,
    under_way: BTreeMap<u32, Committed>,
    work: Option<BoxFuture<'static, Result<(), LogError>>>,
    backoff: Option<Backoff>,
    what: &'static str,
}

impl fmt::Debug for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commits")
            .field("waiting", &self.waiting)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

impl Commits {
    /// Nothing to commit. `what` reads well behind "could not", such as "commit offsets".
    pub fn new(what: &'static str) -> Self {
        Self {
            waiting: BTreeMap::new(),
            under_way: BTreeMap::new(),
            work: None,
            backoff: None,
            what,
        }
    }

    /// Adds frontiers that moved.
    pub fn add(&mut self, frontiers: impl IntoIterator<Item = (u32, Committed)>) {
        self.waiting.extend(frontiers);
    }

    /// Starts a commit of everything that waits, unless one is under way.
    pub fn start<C: Consumer>(&mut self, consumer: &mut C) {
        if self.work.is_some() || self.waiting.is_empty() {
            return;
        }
        self.under_way = std::mem::take(&mut self.waiting);
        let commit = consumer.commit(self.under_way.clone().into_iter().collect());
        let pause = self.backoff.as_ref().map(Backoff::last_pause);
        let work = async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            commit.await
        };
        self.work = Some(work.boxed());
    }

    /// Resolves when the commit under way has ended, with what is committed now; never, while none
    /// is under way. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Only for what no retry can mend.
    pub async fn done(&mut self) -> Result<BTreeMap<u32, Committed>, LogError> {
        let Some(work) = &mut self.work else {
            return future::pending().await;
        };
        let result = work.await;
        self.work = None;
        let tried = std::mem::take(&mut self.under_way);
        match result {
            Ok(()) => {
                self.backoff = None;
                Ok(tried)
            }
            Err(error @ (LogError::Unavailable(_) | LogError::ClockJumped(_))) => {
                self.backoff
                    .get_or_insert_with(|| Backoff::new(self.what))
                    .failed(&error);
                for (partition, frontier) in tried {
                    self.waiting.entry(partition).or_insert(frontier);
                }
                Ok(BTreeMap::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets a partition that is no longer owned: whatever becomes of its commit, nobody is told.
    pub fn forget(&mut self, partition: u32) {
        self.waiting.remove(&partition);
        self.under_way.remove(&partition);
    }

    /// Whether all that was added of a partition is committed.
    pub fn is_settled(&self, partition: u32) -> bool {
        !self.waiting.contains_key(&partition) && !self.under_way.contains_key(&partition)
    }

    /// Whether everything is committed.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.work.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Polled;
    use quipu_core::time::Micros;
    use std::collections::VecDeque;

    /// Answers commits as told.
    struct Answers(VecDeque<Result<(), LogError>>, Vec<Vec<(u32, u64)>>);

    impl Consumer for Answers {
        async fn poll(&mut self) -> Result<Polled, LogError> {
            future::pending().await
        }
        fn commit(
            &mut self,
            frontiers: Vec<(u32, Committed)>,
        ) -> BoxFuture<'static, Result<(), LogError>> {
            let offsets = frontiers.into_iter().map(|(id, to)| (id, to.next_offset));
            self.1.push(offsets.collect());
            future::ready(self.0.pop_front().expect("an answer")).boxed()
        }
        fn release(&mut self, _: Vec<u32>) {}
        fn seek(&mut self, _: u32, _: u64) {}
        fn pause(&mut self, _: u32) {}
        fn resume(&mut self, _: u32) {}
    }

    fn at(next_offset: u64) -> Committed {
        Committed {
            next_offset,
            effective_time: Micros::new(0),
        }
    }

    #[tokio::test]
    async fn what_failed_is_committed_again_with_what_moved_meanwhile() {
        let away = Err(LogError::Unavailable("away".to_owned()));
        let mut consumer = Answers([away, Ok(())].into(), Vec::new());
        let mut commits = Commits::new("commit");
        commits.add([(0, at(1)), (1, at(1)), (2, at(1))]);
        commits.start(&mut consumer);
        commits.add([(1, at(5))]);
        commits.forget(2);
        assert_eq!(
            commits.done().await.expect("it is tried again"),
            BTreeMap::new()
        );
        assert!(!commits.is_settled(0) && commits.is_settled(2));
        commits.start(&mut consumer);
        let committed = commits.done().await.expect("committed");
        assert_eq!(committed, BTreeMap::from([(0, at(1)), (1, at(5))]));
        assert_eq!(consumer.1[1], [(0, 1), (1, 5)]);
        assert!(commits.is_empty());
    }

    #[tokio::test]
    async fn a_partition_that_is_gone_is_not_reported_as_committed() {
        let mut consumer = Answers([Ok(())].into(), Vec::new());
        let mut commits = Commits::new("commit");
        commits.add([(0, at(1)), (1, at(1))]);
        commits.start(&mut consumer);
        commits.forget(0);
        let committed = commits.done().await.expect("committed");
        assert_eq!(committed, BTreeMap::from([(1, at(1))]));
    }

    #[tokio::test]
    async fn a_log_that_is_damaged_ends_it() {
        let mut consumer = Answers([Err(LogError::Damaged("x".to_owned()))].into(), Vec::new());
        let mut commits = Commits::new("commit");
        commits.add([(0, at(1))]);
        commits.start(&mut consumer);
        assert!(commits.done().await.is_err());
    }
}
