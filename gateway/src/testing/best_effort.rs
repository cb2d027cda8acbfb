//! Best-effort counters that fail when the world is down, and a namespace that uses them.

use super::{START, World};
use futures::{FutureExt, future::BoxFuture};
use quipu_adapters::ports::{BestEffort, BestEffortError, BestEffortResult};
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::Namespace,
    policy::{Incarnation, Mode, NamespaceHistory, PolicyBook},
};
use quipu_schemas::namespace::NamespaceDocument;
use std::{fmt, sync::Arc, time::Duration};

/// The namespace whose counters live in the cache alone, for [`TTL`].
pub(crate) const VIEWS: &str = "views";
pub(crate) const VIEWS_ID: NamespaceId = NamespaceId(2);
pub(crate) const TTL: Duration = Duration::from_mins(10);

impl World {
    /// A world that has [`VIEWS`] too.
    pub(crate) fn with_best_effort() -> Self {
        let world = Self::new();
        let document = NamespaceDocument::with_defaults(VIEWS);
        let created = START - Duration::from_hours(1);
        let life =
            Incarnation::new(VIEWS_ID, created, document.limits()).with_mode(Mode::BestEffort);
        let rollup = document.rollup_settings();
        let mut history = NamespaceHistory::new("quipu-events", rollup, life);
        history.set_counter_ttl(TTL);
        let mut book = PolicyBook::clone(&world.policies.borrow());
        book.insert(Namespace::new(VIEWS).unwrap(), history);
        world.policies.send_replace(Arc::new(book));
        world
    }
}

/// The best-effort counters of a world.
pub(super) struct Breakable(pub(super) World);

impl fmt::Debug for Breakable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakable").finish_non_exhaustive()
    }
}

impl Breakable {
    fn up(&self) -> BestEffortResult<()> {
        let up = self.0.up();
        up.map_err(|error| BestEffortError::Unavailable(error.to_string()))
    }
}

impl BestEffort for Breakable {
    fn add<'a>(
        &'a self,
        counter: &'a CounterKey,
        delta: i64,
        ttl: Duration,
    ) -> BoxFuture<'a, BestEffortResult<i64>> {
        let add = async move {
            self.up()?;
            self.0.best_effort.add(counter, delta, ttl).await
        };
        add.boxed()
    }

    fn get<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<Option<i64>>> {
        let get = async move {
            self.up()?;
            self.0.best_effort.get(counter).await
        };
        get.boxed()
    }

    fn delete<'a>(&'a self, counter: &'a CounterKey) -> BoxFuture<'a, BestEffortResult<()>> {
        let delete = async move {
            self.up()?;
            self.0.best_effort.delete(counter).await
        };
        delete.boxed()
    }
}
