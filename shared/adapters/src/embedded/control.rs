//! The control plane in one process: a log of changes, of which the policy is the fold. All
//! versions are kept, with the time from which they held (R5).

mod check;
mod registry;

use super::log::{Change, EmbeddedProducer};
use crate::{
    clock::Clock,
    ports::{
        ChangeRequest, ControlError, ControlPlane, NamespaceRecord, NamespaceVersion, StoreError,
        history_page,
    },
};
use check::check;
use quipu_core::{name::Namespace, policy::PolicyBook};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use registry::{Entry, Registry, What};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

pub(super) use registry::{first_change, load};

/// Keeps the namespaces of an embedded node. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct EmbeddedControlPlane {
    shared: Arc<Shared>,
    log: EmbeddedProducer,
    retention: Duration,
    clock: Clock,
}

struct Shared {
    registry: Mutex<Registry>,
    policies: watch::Sender<Arc<PolicyBook>>,
}

impl fmt::Debug for EmbeddedControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedControlPlane")
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Outcome = Result<Option<NamespaceRecord>, ControlError>;

impl EmbeddedControlPlane {
    pub(super) fn new(
        registry: Registry,
        log: EmbeddedProducer,
        retention: Duration,
        clock: Clock,
    ) -> Self {
        let policies = watch::Sender::new(Arc::new(registry.book.clone()));
        let shared = Shared {
            registry: Mutex::new(registry),
            policies,
        };
        Self {
            shared: Arc::new(shared),
            log,
            retention,
            clock,
        }
    }

    /// Decides and makes a change at one moment of the log's time, so that changes follow one
    /// another even if a caller stops waiting. `decide` may find that there is nothing to change.
    async fn change(
        &self,
        name: Namespace,
        author: Author,
        decide: impl FnOnce(&Registry) -> Result<Option<What>, ControlError> + Send + 'static,
    ) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let (shared, clock) = (Arc::clone(&self.shared), self.clock.clone());
        let make = Box::new(move |effective| {
            let registry = shared.registry();
            let what = match decide(&registry) {
                Ok(Some(what)) => what,
                Ok(None) => {
                    answer.send(Ok(registry.records.get(&name).cloned())).ok();
                    return None;
                }
                Err(error) => {
                    answer.send(Err(error)).ok();
                    return None;
                }
            };
            let entry = Entry::new(name.as_str(), effective, clock.now(), author, what);
            let (key, value) = entry.encode(registry.changes);
            drop(registry);
            let install = Box::new(move || {
                let mut registry = shared.registry();
                registry
                    .install(entry)
                    .expect("changes are decided on what is installed");
                shared
                    .policies
                    .send_replace(Arc::new(registry.book.clone()));
                answer.send(Ok(registry.records.get(&name).cloned())).ok();
            });
            Some(Change {
                key,
                value,
                install,
            })
        });
        self.log.change(make).await.map_err(unavailable)?;
        answered
            .await
            .map_err(|_| unavailable("the log is closing"))?
    }
}

impl ControlPlane for EmbeddedControlPlane {
    fn policies(&self) -> watch::Receiver<Arc<PolicyBook>> {
        self.shared.policies.subscribe()
    }

    async fn apply(
        &self,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> Result<NamespaceRecord, ControlError> {
        check(&document, self.retention).map_err(ControlError::Refused)?;
        let name = Namespace::new(&document.namespace)
            .map_err(|error| ControlError::Refused(error.to_string()))?;
        let (asked, author) = (name.clone(), request.author.clone());
        let decide = move |registry: &Registry| {
            let known = registry.records.get(&asked);
            if known.is_some_and(|record| record.document == document) {
                return Ok(None);
            }
            request.check(&asked, known)?;
            Ok(match known {
                Some(record) => {
                    let allowed = document.check_change(&record.document);
                    allowed.map_err(|error| ControlError::Refused(error.to_string()))?;
                    Some(What::Changed { document })
                }
                None => Some(What::Created {
                    id: registry.book.next_id().0,
                    document,
                }),
            })
        };
        let record = self.change(name.clone(), author, decide).await?;
        record.ok_or(ControlError::NotFound(name))
    }

    async fn delete(&self, name: &Namespace, request: ChangeRequest) -> Result<(), ControlError> {
        let (asked, author) = (name.clone(), request.author.clone());
        let decide = move |registry: &Registry| match registry.records.get(&asked) {
            Some(record) => {
                request.check(&asked, Some(record))?;
                Ok(Some(What::Deleted))
            }
            None => Err(ControlError::NotFound(asked)),
        };
        let deleted = self.change(name.clone(), author, decide).await;
        deleted.map(|_| ())
    }

    async fn show(&self, name: &Namespace) -> Result<NamespaceRecord, ControlError> {
        let record = self.shared.registry().records.get(name).cloned();
        record.ok_or_else(|| ControlError::NotFound(name.clone()))
    }

    async fn list(&self) -> Result<Vec<NamespaceRecord>, ControlError> {
        Ok(self.shared.registry().records.values().cloned().collect())
    }

    async fn history(
        &self,
        name: &Namespace,
        before: Option<u64>,
    ) -> Result<Vec<NamespaceVersion>, ControlError> {
        let registry = self.shared.registry();
        let versions = registry.versions.get(name);
        let versions = versions.ok_or_else(|| ControlError::NotFound(name.clone()))?;
        Ok(history_page(versions.iter().cloned(), before))
    }
}

fn unavailable(error: impl fmt::Display) -> ControlError {
    ControlError::Store(StoreError::Unavailable(error.to_string()))
}
