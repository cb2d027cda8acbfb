//! The control plane in one process: a log of changes, of which the policy is the fold. All
//! versions are kept, with the time from which they held (R5).

mod check;
mod registry;

use super::log::{Change, EmbeddedProducer};
use crate::ports::{ControlError, ControlPlane, NamespaceRecord, StoreError};
use check::check;
use quipu_core::{name::Namespace, policy::PolicyBook};
use quipu_schemas::namespace::NamespaceDocument;
use registry::{Registry, What, encode};
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
    pub(super) fn new(registry: Registry, log: EmbeddedProducer, retention: Duration) -> Self {
        let policies = watch::Sender::new(Arc::new(registry.book.clone()));
        let shared = Shared {
            registry: Mutex::new(registry),
            policies,
        };
        Self {
            shared: Arc::new(shared),
            log,
            retention,
        }
    }

    /// Decides and makes a change at one moment of the log's time, so that changes follow one
    /// another even if a caller stops waiting. `decide` may find that there is nothing to change.
    async fn change(
        &self,
        name: Namespace,
        decide: impl FnOnce(&Registry) -> Result<Option<What>, ControlError> + Send + 'static,
    ) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
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
            let (key, value) = encode(registry.changes, name.as_str(), effective, &what);
            drop(registry);
            let entry = serde_json::from_slice(&value).expect("it was encoded just now");
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

    async fn apply(&self, document: NamespaceDocument) -> Result<NamespaceRecord, ControlError> {
        check(&document, self.retention).map_err(ControlError::Refused)?;
        let name = Namespace::new(&document.namespace)
            .map_err(|error| ControlError::Refused(error.to_string()))?;
        let asked = name.clone();
        let decide = move |registry: &Registry| {
            Ok(match registry.records.get(&asked) {
                Some(record) if record.document == document => None,
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
        let record = self.change(name.clone(), decide).await?;
        record.ok_or(ControlError::NotFound(name))
    }

    async fn delete(&self, name: &Namespace) -> Result<(), ControlError> {
        let asked = name.clone();
        let decide = move |registry: &Registry| match registry.records.get(&asked) {
            Some(_) => Ok(Some(What::Deleted)),
            None => Err(ControlError::NotFound(asked)),
        };
        self.change(name.clone(), decide).await.map(|_| ())
    }

    async fn show(&self, name: &Namespace) -> Result<NamespaceRecord, ControlError> {
        let record = self.shared.registry().records.get(name).cloned();
        record.ok_or_else(|| ControlError::NotFound(name.clone()))
    }

    async fn list(&self) -> Result<Vec<NamespaceRecord>, ControlError> {
        Ok(self.shared.registry().records.values().cloned().collect())
    }
}

fn unavailable(error: impl fmt::Display) -> ControlError {
    ControlError::Store(StoreError::Unavailable(error.to_string()))
}
