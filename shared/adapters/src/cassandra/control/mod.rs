//! The control plane (R5): the history of namespaces and partitions, which every role holds together
//! with the effective time through which it may rely on it.
//!
//! Times are granted and changes placed by the clocks of the roles, and used against the append
//! times of the log's brokers. That is safe whatever the clocks show, since a change always comes
//! after all that was granted; but a role whose clock is behind the brokers' pauses, and one whose
//! clock is ahead delays changes. So a role does not renew while its clock differs from the store's
//! by more than two seconds. A change is told to be in effect one second after its moment: the
//! brokers' clocks are assumed to be within that of the role's.

mod caps;
mod check;
mod claims;
mod refresh;
mod registry;
mod store;
mod topics;

pub use claims::Claims;
pub use topics::{RegisteredPartition, Topics};

use super::{
    clusters::Homes,
    connection::Cassandra,
    durable::Writes,
    error::{CassandraError, Failure},
    setup::{FirstNamespace, SetupPlan},
    slices::CassandraDataset,
};
use crate::{
    clock::Clock,
    ports::{
        ChangeRequest, ControlError, ControlPlane, NamespaceRecord, NamespaceVersion, StoreError,
        history_page,
    },
};
use quipu_core::{caps::CappedRange, name::Namespace, policy::PolicyBook, time::Micros};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use registry::{Registry, Version};
use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};
use store::Book;
use tokio::sync::{Mutex, watch};

/// What the cluster offers to namespaces.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The cluster's name, as namespaces give it.
    pub cluster: String,
    /// Who sees to it that a name lives in one cluster only.
    pub claims: Claims,
    /// The events topic of new namespaces (R6).
    pub events_topic: String,
    /// The dataset that events are kept in.
    pub dataset: CassandraDataset,
    /// How long the cache keeps a value, where that is limited.
    pub cache_ttl: Option<Duration>,
    /// How long before its window closes a gateway acknowledges an event at the latest (R7).
    pub append_guard: Duration,
}

/// Keeps the namespaces of a cluster. Cheap to clone; all clones are one, and while there is one it
/// renews what may be relied on.
#[derive(Clone)]
pub struct CassandraControlPlane {
    shared: Arc<Shared>,
}

struct Shared {
    book: Book,
    /// What was read or written of the book and may not be durable yet (R11).
    writes: Writes,
    clock: Clock,
    settings: ControlSettings,
    /// None where nobody makes namespaces.
    homes: Option<Homes>,
    /// The newest history, and the lock of those who bring a newer one.
    known: Mutex<Option<Registry>>,
    policies: watch::Sender<Arc<PolicyBook>>,
    topics: watch::Sender<Arc<Topics>>,
}

impl fmt::Debug for CassandraControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraControlPlane")
            .finish_non_exhaustive()
    }
}

/// A change may meet this many others in a row.
const ATTEMPTS: u32 = 20;
/// How far the brokers' clocks may be behind a role's.
const SKEW: Duration = Duration::from_secs(1);
/// How long new partitions are announced before they begin.
const PARTITION_LEAD: Duration = Duration::from_secs(10);
/// How long a change is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

impl Cassandra {
    /// Opens the control plane, which setup must have made, and starts to renew what may be relied
    /// on.
    ///
    /// # Errors
    /// When the store fails, or the clocks of this machine and of the store differ.
    pub async fn control(
        &self,
        settings: ControlSettings,
    ) -> Result<CassandraControlPlane, CassandraError> {
        let shared = Shared {
            homes: settings.claims.open(self).await?,
            book: Book::prepare(self).await?,
            writes: Writes::new(self.durable().await?),
            clock: self.clock().clone(),
            settings,
            known: Mutex::default(),
            policies: watch::Sender::new(Arc::default()),
            topics: watch::Sender::new(Arc::default()),
        };
        shared.refresh().await?;
        let shared = Arc::new(shared);
        tokio::spawn(refresh::run(Arc::downgrade(&shared)));
        Ok(CassandraControlPlane { shared })
    }

    /// Makes the control plane's first history: the partitions of the events topic and, where it is
    /// asked for, the namespace `default`, both from now on. One that is there stays, with the
    /// partitions that were added to it.
    pub(super) async fn begin_control(&self, plan: &SetupPlan) -> Result<(), CassandraError> {
        let (events_topic, partitions) = (plan.events_topic.as_str(), plan.event_partitions);
        let book = Book::prepare(self).await?;
        let now = self.clock().now();
        let mut topics = Topics::default();
        topics.extend(events_topic, partitions, now);
        book.begin(now, &topics).await?;
        for _ in 0..ATTEMPTS {
            let registry = book.registry(book.heading().await?.heading).await?;
            let registered = registry.heading.topics.partitions(events_topic).len();
            // More may have been added since: what is configured is what a new topic gets.
            if registered < partitions as usize {
                return Err(CassandraError::Refused(format!(
                    "topic {events_topic} has {registered} registered partitions, and \
                     kafka.event_partitions = {partitions}, which only a new topic gets; configure \
                     {registered}, or add some with `quipu admin add-partitions --total \
                     {partitions}`"
                )));
            }
            // Deleted, it stays deleted.
            if plan.first_namespace == FirstNamespace::Leave || !registry.names.is_empty() {
                return Ok(());
            }
            let name = Namespace::new("default").expect("it is a valid name");
            let document = NamespaceDocument::with_defaults("default");
            let by = (now, &Author::setup());
            let first = registry.next_version(&name, &document, events_topic, by);
            if book.add(&registry.heading, &first).await? {
                return Ok(());
            }
        }
        Err(StoreError::from(contended()).into())
    }
}

fn contended() -> Failure {
    Failure::Unavailable(format!(
        "others changed the control plane {ATTEMPTS} times meanwhile; try again"
    ))
}

impl CassandraControlPlane {
    /// The registered partitions of the events topics, as they change (R12).
    pub fn topics(&self) -> watch::Receiver<Arc<Topics>> {
        self.shared.topics.subscribe()
    }

    /// Registers partitions of a topic until it has `count`, the new ones from a moment that every
    /// role will know of before it comes. Only after this may they be made in the log. All
    /// partitions of the topic.
    ///
    /// # Errors
    /// When the topic is not registered or has more, or when the store fails.
    pub async fn add_partitions(
        &self,
        topic: &str,
        count: u32,
    ) -> Result<Vec<RegisteredPartition>, ControlError> {
        for _ in 0..ATTEMPTS {
            let registry = self.shared.fresh().await?;
            let mut topics = registry.heading.topics.clone();
            let registered = topics.partitions(topic).len();
            if registered == 0 || registered > count as usize {
                return Err(ControlError::Refused(format!(
                    "topic {topic} has {registered} registered partitions; it cannot be given \
                     {count}: ask for a topic that setup made, and for more partitions"
                )));
            }
            let from = registry.next_moment(self.shared.clock.now()) + PARTITION_LEAD;
            let is_new = topics.extend(topic, count, from);
            if !is_new || self.shared.set_topics(&registry, &topics).await? {
                self.shared.refresh().await?;
                return Ok(topics.partitions(topic));
            }
        }
        Err(StoreError::from(contended()).into())
    }

    /// Caps the append times of some records of a partition (R3): those that are later than any role
    /// was allowed to decide before. Returns once every role that decides further knows of it. Call
    /// it for records that are in the log already.
    ///
    /// # Errors
    /// When there are no offsets or too many stretches, or when the store fails.
    pub async fn cap_time(
        &self,
        topic: &str,
        partition: u32,
        offsets: RangeInclusive<u64>,
        time: Micros,
    ) -> Result<CappedRange, ControlError> {
        for _ in 0..ATTEMPTS {
            let registry = self.shared.fresh().await?;
            let range = CappedRange {
                partition,
                first: *offsets.start(),
                last: *offsets.end(),
                time,
                above: registry.heading.granted,
            };
            let mut caps = registry.heading.caps.clone();
            let added = caps.entry(topic.to_owned()).or_default().add(range);
            added.map_err(|error| ControlError::Refused(error.to_string()))?;
            let set = self.shared.book.set_caps(&registry.heading, &caps).await;
            if set.map_err(StoreError::from)? {
                self.shared.wait_until_in_effect(range.above.succ()).await?;
                return Ok(range);
            }
        }
        Err(StoreError::from(contended()).into())
    }

    /// Decides on the newest history and makes the change, until no other comes in between; then
    /// waits until it is in effect. `decide` may find that there is nothing to change.
    async fn change(
        &self,
        decide: impl Fn(&Registry, Micros) -> Result<Option<Version>, ControlError> + Send + Sync,
    ) -> Result<Registry, ControlError> {
        for _ in 0..ATTEMPTS {
            let registry = self.shared.fresh().await?;
            let Some(version) = decide(&registry, self.shared.clock.now())? else {
                // An earlier call may have made it, and not have waited to the end.
                self.shared.wait_until_in_effect(registry.newest).await?;
                return Ok(registry);
            };
            let added = self.shared.book.add(&registry.heading, &version).await;
            if added.map_err(StoreError::from)? {
                self.shared
                    .wait_until_in_effect(version.effective_from)
                    .await?;
                return Ok(self.shared.fresh().await?);
            }
        }
        Err(StoreError::from(contended()).into())
    }
}

impl Shared {
    /// The history as it is stored now.
    async fn fresh(&self) -> Result<Registry, StoreError> {
        let heading = self.book.heading().await?.heading;
        Ok(self.book.registry(heading).await?)
    }

    async fn set_topics(&self, registry: &Registry, topics: &Topics) -> Result<bool, StoreError> {
        Ok(self.book.set_topics(&registry.heading, topics).await?)
    }

    /// Waits until the log's time has passed a moment, and this role may rely on a history that
    /// reaches it.
    async fn wait_until_in_effect(&self, moment: Micros) -> Result<(), StoreError> {
        self.refresh().await?;
        let mut policies = self.policies.subscribe();
        let in_effect = async {
            let known = policies.wait_for(|book| book.valid_through() >= moment);
            known.await.expect("the sender lives as long as this");
            loop {
                let left = (moment + SKEW).since(self.clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_millis(200))).await;
            }
        };
        tokio::time::timeout(PATIENCE, in_effect).await.map_err(|_| {
            StoreError::Unavailable(format!(
                "the change is made and takes effect at {moment}, but that time has not come for \
                 {PATIENCE:?}; compare the clocks of all roles"
            ))
        })
    }
}

impl ControlPlane for CassandraControlPlane {
    fn policies(&self) -> watch::Receiver<Arc<PolicyBook>> {
        self.shared.policies.subscribe()
    }

    async fn apply(
        &self,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> Result<NamespaceRecord, ControlError> {
        check::check(&document, &self.shared.settings).map_err(ControlError::Refused)?;
        let name = Namespace::new(&document.namespace)
            .map_err(|error| ControlError::Refused(error.to_string()))?;
        self.claim(&name, &request).await?;
        let topic = &self.shared.settings.events_topic;
        let registry = self
            .change(|registry, now| {
                let known = registry.record(&name);
                if known.is_some_and(|known| known.document == document) {
                    return Ok(None);
                }
                request.check(&name, known)?;
                if let Some(known) = known {
                    let allowed = document.check_change(&known.document);
                    allowed.map_err(|error| ControlError::Refused(error.to_string()))?;
                }
                let by = (now, &request.author);
                Ok(Some(registry.next_version(&name, &document, topic, by)))
            })
            .await?;
        let record = registry.record(&name).cloned();
        record.ok_or(ControlError::NotFound(name))
    }

    async fn delete(&self, name: &Namespace, request: ChangeRequest) -> Result<(), ControlError> {
        let topic = &self.shared.settings.events_topic;
        let decide = |registry: &Registry, now| {
            let known = registry.record(name);
            let known = known.ok_or_else(|| ControlError::NotFound(name.clone()))?;
            request.check(name, Some(known))?;
            let by = (now, &request.author);
            Ok(Some(Version {
                deleted: true,
                ..registry.next_version(name, &known.document, topic, by)
            }))
        };
        self.change(decide).await.map(|_| ())
    }

    async fn show(&self, name: &Namespace) -> Result<NamespaceRecord, ControlError> {
        let registry = self.shared.fresh().await?;
        let record = registry.record(name).cloned();
        record.ok_or_else(|| ControlError::NotFound(name.clone()))
    }

    async fn list(&self) -> Result<Vec<NamespaceRecord>, ControlError> {
        let registry = self.shared.fresh().await?;
        let records = registry.names.into_values();
        Ok(records.filter_map(|name| name.record).collect())
    }

    async fn history(
        &self,
        name: &Namespace,
        before: Option<u64>,
    ) -> Result<Vec<NamespaceVersion>, ControlError> {
        let versions = self.shared.book.history(name).await;
        let versions = versions.map_err(StoreError::from)?;
        if versions.is_empty() {
            return Err(ControlError::NotFound(name.clone()));
        }
        Ok(history_page(versions.into_iter(), before))
    }
}
