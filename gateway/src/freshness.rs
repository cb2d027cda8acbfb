//! Reads that wait for a count that is complete through a given time.

use crate::{
    call::Count,
    deadline::{Deadline, Pauses},
    failure::{Failure, reason},
    gateway::{Gateway, View},
    read,
};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::{policy::Mode, time::Micros};
use quipu_schemas::timestamp::to_rfc3339;
use tonic::Code;

/// What one look at a counter found.
enum Look {
    Fresh(Count),
    /// Complete through this time only.
    Stale(Micros),
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// What [`Self::get`] answers, once it is complete through `min_freshness`. It asks for a
    /// rollup once, as soon as one can reach that far.
    ///
    /// # Errors
    /// Besides those of [`Self::get`], when that time cannot be reached by the deadline, or was not.
    pub async fn get_at_least(
        &self,
        namespace: &str,
        counter_name: &str,
        min_freshness: Micros,
        deadline: Deadline,
    ) -> Result<Count, Failure> {
        let view = self.view(namespace)?;
        view.counter(counter_name)?;
        if !view.life.mode().keeps_events() {
            return Err(Failure::never_fresh(&view));
        }
        let reach = view
            .life
            .horizon(view.moment.effective + deadline.remaining());
        if min_freshness > reach {
            return Err(Failure::out_of_reach(reach));
        }
        let (mut is_signalled, mut pauses) = (false, Pauses::until(deadline));
        loop {
            let view = self.view(namespace)?;
            let look = self.look(&view, counter_name, min_freshness, &mut is_signalled);
            let through = match look.await? {
                Look::Fresh(count) => return Ok(count),
                Look::Stale(through) => through,
            };
            if !pauses.pause().await {
                return Err(Failure::not_fresh(through));
            }
        }
    }

    async fn look(
        &self,
        view: &View,
        counter_name: &str,
        min: Micros,
        is_signalled: &mut bool,
    ) -> Result<Look, Failure> {
        let closed = view.closed();
        if view.life.mode() == Mode::Accurate {
            // Closed, so that a scan finds all of it, however old the checkpoint is.
            return if closed < min {
                Ok(Look::Stale(closed))
            } else {
                self.read(view, counter_name).await.map(Look::Fresh)
            };
        }
        let counter = view.counter(counter_name)?;
        let mut checkpoint = self.checkpoint_or_origin(view, &counter).await?;
        if checkpoint.last_rollup < min && closed >= min {
            // The cache gets a checkpoint after the store has it, and may have missed it.
            let stored = self.stored_checkpoint(&counter).await?;
            let newer = stored.filter(|stored| stored.supersedes(&checkpoint));
            checkpoint = newer.unwrap_or(checkpoint);
        }
        if checkpoint.last_rollup >= min {
            return read::answer(checkpoint.count, checkpoint.last_rollup).map(Look::Fresh);
        }
        if closed >= min && !*is_signalled {
            let now = self.clock.read().steady;
            *is_signalled = self.signals.stale(&view.namespace, &counter, now);
        }
        Ok(Look::Stale(checkpoint.last_rollup))
    }
}

const FIELD: &str = "min_freshness";

impl Failure {
    fn never_fresh(view: &View) -> Self {
        let message = format!(
            "namespace {} is BEST_EFFORT: its counts are never complete through any time; leave \
             min_freshness out",
            view.namespace
        );
        Self::invalid(reason::FRESHNESS_OUT_OF_REACH, message).at(FIELD)
    }

    fn out_of_reach(reach: Micros) -> Self {
        let message = format!(
            "counts can be complete through {} at most by this call's deadline, since events are \
             accepted until they are as old as the namespace's accept_limit; ask for no later \
             time, or give the call longer",
            to_rfc3339(reach)
        );
        Self::invalid(reason::FRESHNESS_OUT_OF_REACH, message).at(FIELD)
    }

    fn not_fresh(through: Micros) -> Self {
        let message = format!(
            "the count is complete through {} only; try again, or give the call longer",
            to_rfc3339(through)
        );
        Self::new(Code::DeadlineExceeded, reason::NOT_FRESH, message)
    }
}
