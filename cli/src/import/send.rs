//! Sends blocks, a few calls at a time, and notes in the journal what it is about to send.

use super::{
    block::{ADDS_MOST, Block, Rejected},
    journal::{Journal, JournalError},
    plan::{Ended, Note, Plan},
    report::{Rejections, Tally},
    settle::{Pick, joined, settle},
    stopped::{Stopped, lines_of},
    target::{Answer, Job, Target},
    window::Window,
};
use futures::{StreamExt, stream::FuturesUnordered};
use quipu_adapters::clock::{Clock, Reading};
use quipu_client::{Backoff, Entropy, Failure};
use std::{collections::VecDeque, io, iter, mem, sync::Arc, time::Duration};
use tokio::{sync::mpsc::Receiver, time::sleep};

/// Fresh adds that are late this often in a row, and no other accepted, have a clock as cause.
const LATE_IN_A_ROW_MOST: u32 = 20;

/// An import under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) target: Target,
    pub(crate) clock: Clock,
    pub(crate) plan: Plan,
    /// None for standard input, which cannot be read again.
    pub(crate) journal: Option<Journal>,
    pub(crate) rejections: Rejections,
    pub(crate) tally: Tally,
    ready: VecDeque<Job>,
    window: Window,
    started: Reading,
    confirmed: Duration,
    late_in_a_row: u32,
    last_failure: Failure,
}

impl Transfer {
    /// A transfer that goes on with a plan.
    pub(crate) fn new(
        target: Target,
        clock: Clock,
        (journal, plan): (Option<Journal>, Plan),
        rejections: Rejections,
    ) -> Self {
        let started = clock.read();
        Self {
            target,
            clock,
            plan,
            journal,
            rejections,
            tally: Tally::default(),
            ready: VecDeque::new(),
            window: Window::default(),
            started,
            confirmed: started.steady,
            late_in_a_row: 0,
            last_failure: Failure::unsettled("no answer"),
        }
    }

    /// Sends all blocks. Returns once every add of them is finished.
    pub(crate) async fn run(&mut self, mut blocks: Receiver<Block>) -> Result<(), Stopped> {
        let mut calls = FuturesUnordered::new();
        let mut more = true;
        loop {
            while calls.len() < self.window.calls()
                && let Some(job) = self.ready.pop_front()
            {
                if calls.is_empty() {
                    self.confirmed = self.clock.read().steady;
                }
                calls.push(self.target.clone().send(job));
            }
            if !more && calls.is_empty() {
                return Ok(());
            }
            let silent_for = self.clock.read().steady.saturating_sub(self.confirmed);
            tokio::select! {
                Some((job, answer)) = calls.next() => self.answered(job, answer).await?,
                block = blocks.recv(), if more && self.ready.len() < self.window.calls() => match block {
                    Some(block) => self.take(block, &mut blocks).await?,
                    None => more = false,
                },
                () = sleep(self.target.patience.saturating_sub(silent_for)), if !calls.is_empty() => {
                    let failure = self.last_failure.clone();
                    return Err(Stopped::GaveUp(self.target.patience, failure));
                }
            }
        }
    }

    /// Takes up a block and those that wait behind it: one note, made durable once, covers them.
    async fn take(&mut self, first: Block, blocks: &mut Receiver<Block>) -> Result<(), Stopped> {
        let mut taken = vec![first];
        while taken.len() < self.window.blocks()
            && let Ok(block) = blocks.try_recv()
        {
            taken.push(block);
        }
        let templates = self.target.templates;
        let (mut unsent, mut done) = (Vec::new(), None);
        for block in &mut taken {
            self.tally.rows += block.rows.end - block.rows.start;
            for row in mem::take(&mut block.rejected) {
                self.reject(&row)?;
            }
            for hole in block.holes(templates) {
                done = self.plan.finish(hole).or(done);
            }
            if block.adds() > 0 {
                let adds = block.rows.start * templates..block.rows.end * templates;
                unsent.extend(self.plan.unsent(adds));
            }
        }
        if !unsent.is_empty() {
            let note = self.plan.begin(&joined(unsent), self.clock.now());
            self.note([note])?;
            self.make_durable().await?;
        }
        self.note(done)?;
        for block in taken {
            self.enqueue(block)?;
        }
        Ok(())
    }

    /// Makes a call of what is not finished of a block, under the attempts that the plan has.
    fn enqueue(&mut self, block: Block) -> Result<(), Stopped> {
        let mut picks = Vec::with_capacity(block.adds());
        for (place, add) in block.numbers(self.target.templates).enumerate() {
            if let Some(reason) = self.plan.refused().get(&add) {
                let row = rejected(&block, place, reason);
                self.reject(&row)?;
            } else if self.plan.is_finished(add) {
                self.tally.earlier += 1;
            } else {
                let attempt = self
                    .plan
                    .attempt(add)
                    .expect("everything taken up has an attempt");
                picks.push(Pick {
                    place,
                    add,
                    time: attempt.time,
                });
            }
        }
        if !picks.is_empty() {
            assert!(picks.len() <= ADDS_MOST, "{} adds in one call", picks.len());
            let block = Arc::new(block);
            self.ready.push_back(Job {
                block,
                picks,
                backoff: Backoff::default(),
                wait: Duration::ZERO,
            });
        }
        Ok(())
    }

    async fn answered(&mut self, job: Job, answer: Answer) -> Result<(), Stopped> {
        let Job {
            block,
            picks,
            backoff,
            ..
        } = job;
        let verdicts = match answer {
            Ok(verdicts) => verdicts,
            Err(failure @ (Failure::Unsettled { .. } | Failure::Unreachable { .. })) => {
                iter::repeat_n(Err(failure), picks.len()).collect()
            }
            Err(failure) => return Err(Stopped::Call(failure)),
        };
        let settled = settle(&mut self.plan, &picks, verdicts);
        self.note(settled.notes)?;
        self.tally.accepted += settled.accepted;
        self.tally.already_applied += settled.already_applied;
        if settled.again.len() < picks.len() {
            self.confirmed = self.clock.read().steady;
        }
        for (pick, reason) in &settled.refused {
            let row = rejected(&block, pick.place, reason);
            self.reject(&row)?;
        }
        if let Some(failure) = settled.stop {
            return Err(Stopped::At {
                lines: lines_of(&block, &settled.stopped),
                failure,
            });
        }
        if let Some(failure) = settled.unsettled {
            self.retry(Arc::clone(&block), settled.again, backoff, &failure);
        }
        self.watch_lateness(&picks, settled.late.len())?;
        if !settled.late.is_empty() {
            self.try_anew(block, settled.late).await?;
        }
        self.rejections.progress.update(&self.tally);
        Ok(())
    }

    /// Sends the same attempt again, later.
    fn retry(
        &mut self,
        block: Arc<Block>,
        picks: Vec<Pick>,
        mut backoff: Backoff,
        failure: &Failure,
    ) {
        let wait = backoff.after_failure(failure, Entropy::draw());
        tracing::info!(
            "{} adds: {failure}; trying again in {wait:.1?}",
            picks.len()
        );
        self.last_failure = failure.clone();
        self.ready.push_front(Job {
            block,
            picks,
            backoff,
            wait,
        });
    }

    /// Makes the next attempt at adds that were refused as late, for good (R16).
    async fn try_anew(&mut self, block: Arc<Block>, mut picks: Vec<Pick>) -> Result<(), Stopped> {
        for pick in &picks {
            let current = self.plan.attempt(pick.add).map(|attempt| attempt.time);
            assert_eq!(
                current,
                Some(pick.time),
                "only the current attempt can be refused"
            );
        }
        let note = self.plan.begin(
            &joined(picks.iter().map(|pick| pick.add..pick.add + 1)),
            self.clock.now(),
        );
        let Note::Send { attempt, .. } = note else {
            unreachable!("an attempt begins with a send")
        };
        tracing::info!(
            "{} adds were late: attempt {attempt} with a new time",
            picks.len()
        );
        self.note([note])?;
        self.make_durable().await?;
        for pick in &mut picks {
            pick.time = self.plan.attempt(pick.add).expect("it was just begun").time;
        }
        self.ready.push_front(Job {
            block,
            picks,
            backoff: Backoff::default(),
            wait: Duration::ZERO,
        });
        Ok(())
    }

    /// Keeps fewer calls under way when adds get late on their way to the server.
    fn watch_lateness(&mut self, picks: &[Pick], late: usize) -> Result<(), Stopped> {
        let fresh = picks.iter().all(|pick| pick.time >= self.started.wall);
        if late == 0 {
            self.window.grow();
        } else if fresh {
            self.window.shrink();
        }
        self.late_in_a_row = match (late == picks.len(), fresh) {
            (true, true) => self.late_in_a_row + 1,
            (true, false) => self.late_in_a_row,
            (false, _) => 0,
        };
        if self.late_in_a_row > LATE_IN_A_ROW_MOST {
            Err(Stopped::AlwaysLate)
        } else {
            Ok(())
        }
    }

    fn reject(&mut self, row: &Rejected) -> io::Result<()> {
        self.tally.rejected += 1;
        self.rejections.add(row)
    }

    fn note(&mut self, notes: impl IntoIterator<Item = Note>) -> Result<(), JournalError> {
        self.journal
            .as_mut()
            .map_or(Ok(()), |journal| journal.append(notes))
    }

    async fn make_durable(&mut self) -> Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => journal.sync().await,
            None => Ok(()),
        }
    }

    /// Notes that all rows are finished.
    ///
    /// # Panics
    /// When they are not.
    pub(crate) async fn end(&mut self, rows: u64) -> Result<(), JournalError> {
        assert_eq!(
            self.plan.frontier(),
            rows * self.target.templates,
            "an add is unfinished"
        );
        let Tally { rejected, .. } = self.tally;
        let adds = self.tally.adds();
        self.note([Note::Finished(Ended {
            rows,
            adds,
            rejected,
        })])?;
        self.make_durable().await
    }
}

/// A row that the server refused. Its text is no longer at hand, so its counter stands for it.
fn rejected(block: &Block, place: usize, reason: &str) -> Rejected {
    let (line, counter) = block.describe(place);
    Rejected {
        line,
        reason: reason.to_owned(),
        original: counter.to_owned(),
    }
}
