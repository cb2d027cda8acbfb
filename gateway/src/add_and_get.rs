//! Adds that answer with a count, and say whether they are in it.

use crate::{
    call::{AddedCount, Count, MutationRequest},
    deadline::{Deadline, Pauses},
    failure::Failure,
    gateway::{Gateway, View},
    mutate::count_refused,
};
use quipu_adapters::ports::{
    Cache, ControlPlane, EventStore, Lookup, Producer, RollupStore, StoreError,
};
use quipu_core::{event::CounterKey, policy::Mode};
use quipu_schemas::event::CheckedEvent;

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Adds a delta, then reads what [`Self::get`] would. In an accurate namespace it waits, up to
    /// the deadline, until the add is stored, so that the count includes it.
    pub async fn add_and_get(
        &self,
        namespace: &str,
        request: MutationRequest<'_>,
        deadline: Deadline,
    ) -> Result<AddedCount, Failure> {
        let view = self.view(namespace)?;
        let charged = self.charge(&view, request.counter_name);
        charged.inspect_err(count_refused)?;
        if let Some(counters) = self.best_effort(&view) {
            let added = counters.mutate_and_get(request).await;
            let (applied, count) = added.inspect_err(count_refused)?;
            return Ok(AddedCount {
                applied,
                count,
                includes_add: true,
            });
        }
        let (applied, event) = self.mutate_one(&view, request).await?;
        match self.count_with(&view, &event, deadline).await {
            Ok((count, includes_add)) => Ok(AddedCount {
                applied,
                count,
                includes_add,
            }),
            Err(mut failure) => {
                failure
                    .message
                    .insert_str(0, "the delta was taken, but the count not read: ");
                Err(failure)
            }
        }
    }

    /// The count after an add that was taken, and whether the add is in it.
    async fn count_with(
        &self,
        added: &View,
        event: &CheckedEvent,
        deadline: Deadline,
    ) -> Result<(Count, bool), Failure> {
        let waits = added.life.mode() == Mode::Accurate;
        let is_stored = waits && self.wait_until_stored(added, event, deadline).await?;
        // As of now: what is read may have moved to another mode, or to another life.
        let view = self.view(added.namespace.as_str())?;
        let count = self.read(&view, event.counter.as_str()).await?;
        let is_closed = count
            .complete_through
            .is_some_and(|through| event.key.event_time <= through);
        let is_scanned = is_stored && view.life.mode() == Mode::Accurate;
        let is_same = view.life.id() == added.life.id();
        Ok((count, is_same && (is_closed || is_scanned)))
    }

    /// Whether an accepted event is stored, at the latest at the deadline.
    async fn wait_until_stored(
        &self,
        added: &View,
        event: &CheckedEvent,
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        let counter = CounterKey {
            namespace: added.life.id(),
            name: event.counter.clone(),
        };
        let mut pauses = Pauses::until(deadline);
        loop {
            match self.ports.events.lookup(&counter, &event.key).await {
                // What was dropped was rolled up before.
                Ok(Lookup::Stored(_) | Lookup::Dropped) => return Ok(true),
                Ok(Lookup::Absent) | Err(StoreError::SliceNotReady(_)) => {}
                Err(error) => return Err(error.into()),
            }
            if !pauses.pause().await {
                return Ok(false);
            }
        }
    }
}
