//! The control plane: namespace documents and the policy that follows from them.

use super::StoreError;
use quipu_core::{name::Namespace, policy::PolicyBook, time::Micros};
use quipu_schemas::namespace::NamespaceDocument;
use std::sync::Arc;
use tokio::sync::watch;

/// A namespace as the control plane keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRecord {
    /// The document, with every default filled in.
    pub document: NamespaceDocument,
    /// 1 at the creation, one more at each change.
    pub version: u64,
    /// When the newest change took effect, in the log's time.
    pub effective_from: Micros,
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
    /// Try again later.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps namespaces. A change returns once it is in effect for every role (R5).
pub trait ControlPlane: Clone + Send + Sync + 'static {
    /// The policy, as it changes.
    fn policies(&self) -> watch::Receiver<Arc<PolicyBook>>;

    /// Creates or changes a namespace. Applying what is already in force changes nothing.
    fn apply(
        &self,
        document: NamespaceDocument,
    ) -> impl Future<Output = Result<NamespaceRecord, ControlError>> + Send;

    /// Deletes a namespace. Made again, it is a new one that starts at zero (R10).
    fn delete(&self, name: &Namespace) -> impl Future<Output = Result<(), ControlError>> + Send;

    /// One namespace.
    fn show(
        &self,
        name: &Namespace,
    ) -> impl Future<Output = Result<NamespaceRecord, ControlError>> + Send;

    /// All namespaces that are not deleted, by name.
    fn list(&self) -> impl Future<Output = Result<Vec<NamespaceRecord>, ControlError>> + Send;
}
