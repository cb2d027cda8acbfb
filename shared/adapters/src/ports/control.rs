//! The control plane: namespace documents and the policy that follows from them.

use super::StoreError;
use quipu_core::{event::NamespaceId, name::Namespace, policy::PolicyBook, time::Micros};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use std::sync::Arc;
use tokio::sync::watch;

/// A namespace as the control plane keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRecord {
    /// The document, with every default filled in.
    pub document: NamespaceDocument,
    /// 1 at the first creation, one more at each change and deletion: over all lives of the name,
    /// so that no two are alike.
    pub version: u64,
    /// When the newest change took effect, in the log's time.
    pub effective_from: Micros,
}

/// One version of a namespace, as it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceVersion {
    /// Its number, over all lives of the name.
    pub version: u64,
    /// The life that it belongs to (R10).
    pub id: NamespaceId,
    /// When it took effect, in the log's time.
    pub effective_from: Micros,
    /// When it was made, by the clock of the server that made it. Not known of versions that were
    /// made before this was kept.
    pub changed_at: Option<Micros>,
    /// Who made it, as they said.
    pub author: Author,
    /// The document; of a deletion, the last one.
    pub document: NamespaceDocument,
    /// Whether this version ended the life.
    pub deleted: bool,
}

/// The most versions that [`ControlPlane::history`] gives at once.
pub const HISTORY_PAGE: usize = 100;

/// How a change is asked for, besides what is to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Who asks.
    pub author: Author,
    /// The version that must be in force for the change to be made; 0 where there must be none.
    pub if_version: Option<u64>,
}

impl ChangeRequest {
    /// Refuses when another version is in force than was asked for.
    pub(crate) fn check(
        &self,
        name: &Namespace,
        in_force: Option<&NamespaceRecord>,
    ) -> Result<(), ControlError> {
        let in_force = in_force.map_or(0, |record| record.version);
        match self.if_version {
            Some(expected) if expected != in_force => Err(ControlError::VersionMoved {
                name: name.clone(),
                expected,
                in_force,
            }),
            _ => Ok(()),
        }
    }
}

/// Why the control plane did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ControlError {
    /// The change would break a promise, or asks for what this server does not have. The text
    /// says what and what to do.
    #[error("{0}")]
    Refused(String),
    /// No such namespace.
    #[error("namespace {0} does not exist")]
    NotFound(Namespace),
    /// Another version is in force than the one that the change was made for; 0 where there is
    /// none. Nothing changed.
    #[error(
        "version {expected} of namespace {name} was asked for, and version {in_force} is in force \
         (0: it does not exist); read it again, and make the change on what is in force"
    )]
    VersionMoved {
        /// The namespace.
        name: Namespace,
        /// What was asked for.
        expected: u64,
        /// What there is.
        in_force: u64,
    },
    /// Try again later.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps namespaces. A change returns once it is in effect for every role (R5).
pub trait ControlPlane: Clone + Send + Sync + 'static {
    /// The policy, as it changes.
    fn policies(&self) -> watch::Receiver<Arc<PolicyBook>>;

    /// Creates or changes a namespace. Applying what is already in force changes nothing, whatever
    /// version was asked for: so an attempt whose answer was lost may be made again.
    fn apply(
        &self,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> impl Future<Output = Result<NamespaceRecord, ControlError>> + Send;

    /// Deletes a namespace. Made again, it is a new one that starts at zero (R10).
    fn delete(
        &self,
        name: &Namespace,
        request: ChangeRequest,
    ) -> impl Future<Output = Result<(), ControlError>> + Send;

    /// One namespace.
    fn show(
        &self,
        name: &Namespace,
    ) -> impl Future<Output = Result<NamespaceRecord, ControlError>> + Send;

    /// All namespaces that are not deleted, by name.
    fn list(&self) -> impl Future<Output = Result<Vec<NamespaceRecord>, ControlError>> + Send;

    /// The versions of a name over all its lives, newest first: at most [`HISTORY_PAGE`], those
    /// below `before` where that is given.
    fn history(
        &self,
        name: &Namespace,
        before: Option<u64>,
    ) -> impl Future<Output = Result<Vec<NamespaceVersion>, ControlError>> + Send;
}

/// A page of versions that are in their order.
pub(crate) fn history_page(
    versions: impl DoubleEndedIterator<Item = NamespaceVersion>,
    before: Option<u64>,
) -> Vec<NamespaceVersion> {
    let below = versions
        .rev()
        .filter(|version| before.is_none_or(|before| version.version < before));
    below.take(HISTORY_PAGE).collect()
}
