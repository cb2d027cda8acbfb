//! The control plane in one process: a log of changes, of which the policy is the fold. All
//! versions are kept, with the time from which they held (R5).

use super::{
    OpenError,
    log::{Change, EmbeddedProducer},
};
use crate::ports::{ControlError, ControlPlane, NamespaceRecord, StoreError};
use fjall::Keyspace;
use quipu_core::{
    event::NamespaceId,
    name::Namespace,
    policy::{Incarnation, NamespaceHistory, PolicyBook},
    time::Micros,
};
use quipu_schemas::namespace::{Mode, NamespaceDocument, Persistence, PersistenceId, StorageKind};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

const EVENTS_TOPIC: &str = "quipu-events";
const FORMAT: u32 = 1;

/// One change, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    format: u32,
    namespace: String,
    effective_micros: i64,
    change: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum What {
    Created {
        id: u32,
        document: NamespaceDocument,
    },
    Changed {
        document: NamespaceDocument,
    },
    Deleted,
}

/// The fold of all changes.
#[derive(Debug)]
pub(super) struct Registry {
    book: PolicyBook,
    /// Namespaces that are not deleted.
    records: BTreeMap<Namespace, NamespaceRecord>,
    /// How many changes there were.
    changes: u64,
    newest: Micros,
}

impl Registry {
    fn empty() -> Self {
        let book = PolicyBook::new([], Micros::MAX);
        Self {
            book,
            records: BTreeMap::new(),
            changes: 0,
            newest: Micros::MIN,
        }
    }

    /// The effective time of the newest change.
    pub(super) fn newest(&self) -> Micros {
        self.newest
    }

    /// Takes the next change.
    fn install(&mut self, entry: Entry) -> Result<(), String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        if entry.format != FORMAT {
            return Err(format!(
                "it has format {}, and {FORMAT} is known",
                entry.format
            ));
        }
        let name = Namespace::new(&entry.namespace).map_err(|error| text(&error))?;
        let at = Micros::new(entry.effective_micros);
        let before = self.records.remove(&name);
        let version = before.map_or(1, |record| record.version + 1);
        let known = self
            .book
            .history(name.as_str())
            .map(|history| (**history).clone());
        let (history, document) = match (entry.change, known) {
            (What::Created { id, document }, known) => {
                let life = Incarnation::new(NamespaceId(id), at, document.limits());
                let rollup = document.rollup_settings();
                let history = match known {
                    None => NamespaceHistory::new(EVENTS_TOPIC, rollup, life),
                    Some(mut history) => {
                        history.recreate(life).map_err(|error| text(&error))?;
                        history.set_rollup(rollup);
                        history
                    }
                };
                (history, Some(document))
            }
            (What::Changed { document }, Some(mut history)) => {
                let newest = history.newest_mut();
                if newest.limits_at(Micros::MAX) != document.limits() {
                    newest
                        .change(at, document.limits())
                        .map_err(|error| text(&error))?;
                }
                history.set_rollup(document.rollup_settings());
                (history, Some(document))
            }
            (What::Deleted, Some(mut history)) => {
                history
                    .newest_mut()
                    .delete(at)
                    .map_err(|error| text(&error))?;
                (history, None)
            }
            (_, None) => return Err(format!("namespace {name} was not created before")),
        };
        if let Some(document) = document {
            let record = NamespaceRecord {
                document,
                version,
                effective_from: at,
            };
            self.records.insert(name.clone(), record);
        }
        self.book.insert(name, history);
        self.book.note_in_effect(at);
        self.changes += 1;
        self.newest = self.newest.max(at);
        Ok(())
    }
}

/// The change that every directory begins with: the namespace `default`.
pub(super) fn first_change(now: Micros) -> (Vec<u8>, Vec<u8>) {
    let document = NamespaceDocument::with_defaults("default");
    encode(0, "default", now, &What::Created { id: 1, document })
}

fn encode(number: u64, namespace: &str, effective: Micros, change: &What) -> (Vec<u8>, Vec<u8>) {
    let entry = Entry {
        format: FORMAT,
        namespace: namespace.to_owned(),
        effective_micros: effective.get(),
        change: change.clone(),
    };
    let value = serde_json::to_vec(&entry).expect("a change is JSON");
    (number.to_be_bytes().to_vec(), value)
}

/// Reads all changes.
pub(super) fn load(changes: &Keyspace) -> Result<Registry, OpenError> {
    let mut registry = Registry::empty();
    for stored in changes.iter() {
        let (key, value) = stored.into_inner()?;
        let number = registry.changes;
        let damage = |what: &dyn fmt::Display| {
            OpenError::Damaged(format!("change {number} of the control plane: {what}"))
        };
        if *key != number.to_be_bytes() {
            return Err(damage(&format!("it is missing, {key:?} follows")));
        }
        let entry = serde_json::from_slice(&value).map_err(|error| damage(&error))?;
        registry.install(entry).map_err(|error| damage(&error))?;
    }
    Ok(registry)
}

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
                Some(_) => Some(What::Changed { document }),
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

/// Refuses what an embedded node does not have. The text names the field and says what to change.
fn check(document: &NamespaceDocument, retention: Duration) -> Result<(), String> {
    document.check().map_err(|error| error.to_string())?;
    if document.mode != Mode::EventuallyConsistent {
        return Err("type: this server offers EVENTUALLY_CONSISTENT only; use that".to_owned());
    }
    if document.accept_limit > retention {
        let [limit, kept] = [document.accept_limit, retention];
        return Err(format!(
            "accept_limit: events are accepted for {limit:?} but kept for {kept:?} only; lower it \
             or let the server keep events longer"
        ));
    }
    let entries = document.persistence.iter().enumerate();
    for (at, entry) in entries.clone() {
        check_persistence(at, entry)?;
        if entries
            .clone()
            .take(at)
            .any(|(_, earlier)| earlier.id == entry.id)
        {
            return Err(format!(
                "persistence[{at}].id: there is one of this kind already"
            ));
        }
    }
    Ok(())
}

fn check_persistence(at: usize, entry: &Persistence) -> Result<(), String> {
    let storage = &entry.physical_storage;
    let field = format!("persistence[{at}].physical_storage");
    if storage.kind != StorageKind::Embedded {
        return Err(format!(
            "{field}.type: this server keeps everything EMBEDDED; use that"
        ));
    }
    if storage.cluster != "default" {
        return Err(format!(
            "{field}.cluster: this server has no {:?}; leave it out, or use \"default\"",
            storage.cluster
        ));
    }
    let dataset = storage.dataset.as_deref().unwrap_or("default");
    if dataset != "default" || (storage.dataset.is_some() && entry.id != PersistenceId::EventStore)
    {
        return Err(format!(
            "{field}.dataset: this server has one dataset, \"default\", for the EVENT_STORE; \
             leave it out"
        ));
    }
    if entry.ttl.is_some() {
        return Err(format!(
            "persistence[{at}].ttl: the embedded cache is bounded by its size; leave ttl out"
        ));
    }
    Ok(())
}

fn unavailable(error: impl fmt::Display) -> ControlError {
    ControlError::Store(StoreError::Unavailable(error.to_string()))
}

#[cfg(test)]
mod check_tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let document = NamespaceDocument::from_json(json.as_bytes()).unwrap();
        check(&document, Duration::from_mins(1)).unwrap_err()
    }

    #[test]
    fn what_the_server_does_not_have_is_refused_by_the_field_s_name() {
        for (fields, named) in [
            (r#""type": "ACCURATE""#, "type"),
            (r#""type": "BEST_EFFORT""#, "type"),
            (r#""accept_limit": "61s""#, "accept_limit"),
            (
                r#""persistence": [{"id": "CACHE", "physical_storage": {"type": "REDIS"}}]"#,
                "persistence[0].physical_storage.type",
            ),
            (
                r#""persistence": [{"id": "CACHE",
                    "physical_storage": {"type": "EMBEDDED", "cluster": "x"}}]"#,
                "persistence[0].physical_storage.cluster",
            ),
            (
                r#""persistence": [{"id": "CACHE", "ttl": "1d",
                    "physical_storage": {"type": "EMBEDDED"}}]"#,
                "persistence[0].ttl",
            ),
        ] {
            let text = refusal(&format!(r#"{{"namespace": "a", {fields}}}"#));
            assert!(text.starts_with(&format!("{named}: ")), "{text}");
        }
    }
}
