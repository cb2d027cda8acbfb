//! Which clusters are declared beside the server's own, and where each namespace lives.

use super::{ChangeRequest, StoreError};
use futures::future::BoxFuture;
use quipu_core::{name::Namespace, time::Micros};
use quipu_schemas::{cluster::ClusterDocument, namespace::Author};
use std::fmt;

/// A declared cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterRecord {
    /// The document, as it was given.
    pub document: ClusterDocument,
    /// 1 at the declaration, one more at each change.
    pub version: u64,
    /// When the newest change was made, by the clock of the server that made it.
    pub changed_at: Micros,
    /// Who made it, as they said.
    pub author: Author,
}

/// Why a cluster was not declared or changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClusterError {
    /// The change would strand data or let two clusters share it, or asks for what this server
    /// does not have. The text says what and what to do.
    #[error("{0}")]
    Refused(String),
    /// Another version is in force than the one that the change was made for; 0 where there is
    /// none. Nothing changed.
    #[error(
        "version {expected} of cluster {name} was asked for, and version {in_force} is in force \
         (0: it is not declared); read it again, and make the change on what is in force"
    )]
    VersionMoved {
        /// The cluster.
        name: String,
        /// What was asked for.
        expected: u64,
        /// What there is.
        in_force: u64,
    },
    /// Try again later.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps the declarations. Shared by all that use it.
pub trait Clusters: fmt::Debug + Send + Sync {
    /// Declares or changes a cluster. What is in force already changes nothing.
    fn declare(
        &self,
        document: ClusterDocument,
        request: ChangeRequest,
    ) -> BoxFuture<'_, Result<ClusterRecord, ClusterError>>;

    /// Every declared cluster, by name.
    fn list(&self) -> BoxFuture<'_, Result<Vec<ClusterRecord>, StoreError>>;

    /// The cluster that a name lives in, if that is known. Names that are older than the first
    /// declaration live in the default one, and may not be known.
    fn home<'a>(&'a self, name: &'a Namespace)
    -> BoxFuture<'a, Result<Option<String>, StoreError>>;
}

/// What a server says that keeps everything itself.
#[derive(Clone, Copy, Debug)]
pub struct OneCluster;

impl Clusters for OneCluster {
    fn declare(
        &self,
        _: ClusterDocument,
        _: ChangeRequest,
    ) -> BoxFuture<'_, Result<ClusterRecord, ClusterError>> {
        let refused = "this server keeps everything in its own process, and has the cluster \
                       default only; declare clusters at a gateway of the distributed system";
        Box::pin(async move { Err(ClusterError::Refused(refused.to_owned())) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ClusterRecord>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn home<'a>(&'a self, _: &'a Namespace) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}
