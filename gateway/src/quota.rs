//! What namespaces have used up of their quotas, in this process: it knows nothing of others.

use crate::{
    call::MutationRequest,
    failure::{Failure, reason},
    gateway::{Gateway, View},
    names,
};
use ::metrics::counter;
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::{
    name::{CounterName, Namespace},
    quota::{ActiveCounters, Quota, WriteBucket},
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tonic::Code;

/// What the namespaces with a quota have used up. One without has no entry, and costs nothing.
#[derive(Default)]
pub(crate) struct Quotas {
    namespaces: Mutex<BTreeMap<Namespace, Arc<Mutex<Used>>>>,
    /// Seeded by the process, so that nobody chooses names of one hash.
    hasher: RandomState,
}

#[derive(Default)]
struct Used {
    writes: WriteBucket,
    active: ActiveCounters,
}

/// The quotas, as metrics and messages name them.
#[derive(Clone, Copy)]
enum Kind {
    WritesPerSecond,
    ActiveCounters,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Self::WritesPerSecond => "writes_per_second",
            Self::ActiveCounters => "active_counters",
        }
    }
}

impl Quotas {
    fn of(&self, namespace: &Namespace) -> Arc<Mutex<Used>> {
        let mut namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = namespaces.get(namespace) {
            return Arc::clone(used);
        }
        Arc::clone(namespaces.entry(namespace.clone()).or_default())
    }

    /// Forgets the namespaces that have no quota any more, or are gone.
    fn retain(&self, keep: impl Fn(&Namespace) -> bool) {
        let mut namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        namespaces.retain(|name, _| keep(name));
    }

    fn knows(&self, namespace: &Namespace) -> bool {
        let namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        namespaces.contains_key(namespace)
    }
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Charges a mutation to its namespace's quotas, before it does anything.
    pub(crate) fn charge(&self, view: &View, counter_name: &str) -> Result<(), Failure> {
        let Some(used) = self.used(view) else {
            return Ok(());
        };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.read().steady;
        take(&mut used, view, 1, now)?;
        self.note(&mut used, view, counter_name, now)
    }

    /// The same for a batch. Its writes are taken together or not at all; an item whose counter is
    /// one too many fails alone.
    pub(crate) fn charge_batch<'r>(
        &self,
        view: &View,
        items: Vec<Result<MutationRequest<'r>, Failure>>,
    ) -> Result<Vec<Result<MutationRequest<'r>, Failure>>, Failure> {
        let Some(used) = self.used(view) else {
            return Ok(items);
        };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.read().steady;
        let writes = u32::try_from(items.len()).unwrap_or(u32::MAX);
        take(&mut used, view, writes, now)?;
        let charged = items.into_iter().map(|item| {
            let item = item?;
            self.note(&mut used, view, item.counter_name, now)?;
            Ok(item)
        });
        Ok(charged.collect())
    }

    /// What a namespace has used up, if it has a quota.
    fn used(&self, view: &View) -> Option<Arc<Mutex<Used>>> {
        if view.life.history().quota() == Quota::default() {
            return None;
        }
        if !self.quotas.knows(&view.namespace) {
            let book = self.book();
            self.quotas.retain(|name| {
                let history = book.history(name.as_str());
                history.is_some_and(|h| h.current().is_some() && h.quota() != Quota::default())
            });
        }
        Some(self.quotas.of(&view.namespace))
    }

    fn note(
        &self,
        used: &mut Used,
        view: &View,
        counter_name: &str,
        now: Duration,
    ) -> Result<(), Failure> {
        let Some(most) = view.life.history().quota().active_counters else {
            return Ok(());
        };
        // What is no name takes no place.
        let name = CounterName::new(counter_name)?;
        let hash = self.quotas.hasher.hash_one(name.as_str());
        let noted = used.active.note(hash, most, now);
        noted.map_err(|wait| {
            let why = format!(
                "{most} counters were written within an hour, and {counter_name:?} is not one of \
                 them"
            );
            exceeded(view, Kind::ActiveCounters, &why, wait)
        })
    }
}

fn take(used: &mut Used, view: &View, writes: u32, now: Duration) -> Result<(), Failure> {
    let Some(rate) = view.life.history().quota().writes_per_second else {
        return Ok(());
    };
    let taken = used.writes.take(writes, rate, now);
    taken.map_err(|wait| exceeded(view, Kind::WritesPerSecond, &too_fast(rate), wait))
}

fn too_fast(rate: NonZeroU32) -> String {
    format!("there are more than {rate} writes a second")
}

/// Nothing was written, and the same may be tried again after this long.
fn exceeded(view: &View, kind: Kind, why: &str, wait: Duration) -> Failure {
    counter!(names::QUOTA_REFUSED, "quota" => kind.label()).increment(1);
    let (namespace, quota) = (&view.namespace, kind.label());
    let message = format!(
        "the quota {quota} of namespace {namespace} is used up: {why}; nothing was written: retry \
         with the same token"
    );
    let failure = Failure::new(Code::ResourceExhausted, reason::QUOTA_EXCEEDED, message);
    Failure {
        retry_after: Some(wait),
        exhausted: Some(format!("namespaces/{namespace}/quota/{quota}")),
        ..failure
    }
}
