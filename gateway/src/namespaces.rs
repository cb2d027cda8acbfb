//! The control plane's calls: of one cluster, and of all together.

use crate::{
    failure::{Failure, reason},
    gateway::Gateway,
    served::Served,
};
use futures::future::join_all;
use quipu_adapters::ports::{
    Cache, ChangeRequest, ControlError, ControlPlane, EventStore, NamespaceRecord,
    NamespaceVersion, Producer, RollupStore,
};
use quipu_core::name::Namespace;
use quipu_schemas::namespace::{DocumentError, NamespaceDocument};

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Creates or changes a namespace.
    pub async fn apply_namespace(
        &self,
        name: &str,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> Result<NamespaceRecord, Failure> {
        let name = Namespace::new(name)?;
        document.check()?;
        if document.namespace != name.as_str() {
            let message = format!(
                "the document is of namespace {:?}, but the path names {name}: make them agree",
                document.namespace
            );
            return Err(Failure::invalid(reason::INVALID_FIELD, message).at("namespace"));
        }
        Ok(self.ports.control.apply(document, request).await?)
    }

    /// One namespace.
    pub async fn show_namespace(&self, name: &str) -> Result<NamespaceRecord, Failure> {
        Ok(self.ports.control.show(&Namespace::new(name)?).await?)
    }

    /// The versions of a namespace over all its lives, newest first, in pages.
    pub async fn namespace_history(
        &self,
        name: &str,
        before: Option<u64>,
    ) -> Result<Vec<NamespaceVersion>, Failure> {
        let name = Namespace::new(name)?;
        Ok(self.ports.control.history(&name, before).await?)
    }

    /// All namespaces that are not deleted.
    pub async fn list_namespaces(&self) -> Result<Vec<NamespaceRecord>, Failure> {
        Ok(self.ports.control.list().await?)
    }

    /// Deletes a namespace. Made again, it starts at zero (R10).
    pub async fn delete_namespace(
        &self,
        name: &str,
        request: ChangeRequest,
    ) -> Result<(), Failure> {
        let name = Namespace::new(name)?;
        Ok(self.ports.control.delete(&name, request).await?)
    }
}

/// The namespaces of all clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct AllNamespaces {
    /// By name.
    pub records: Vec<NamespaceRecord>,
    /// Whether a cluster did not tell its own.
    pub is_incomplete: bool,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Served<L, E, R, C, P> {
    /// Creates or changes a namespace in the cluster that its document names.
    pub async fn apply_namespace(
        &self,
        name: &str,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> Result<NamespaceRecord, Failure> {
        document.check()?;
        let asked = document.cluster();
        if let Some(home) = self.cluster_of(name).filter(|home| home != asked) {
            let why = document.moved_from(&home).to_string();
            return Err(Failure::from(ControlError::Refused(why)));
        }
        let gateway = self.cluster(asked).await?;
        gateway.apply_namespace(name, document, request).await
    }

    /// All namespaces that are not deleted. Those of a cluster that does not answer are missing.
    pub async fn list_namespaces(&self) -> Result<AllNamespaces, Failure> {
        let (gateways, mut is_incomplete) = self.joined();
        let lists = gateways.iter().map(|gateway| gateway.list_namespaces());
        let mut lists = join_all(lists).await.into_iter();
        // Without the default cluster nothing is known of the others either.
        let mut records = lists.next().expect("the default cluster is there")?;
        for list in lists {
            match list {
                Ok(list) => records.extend(list),
                Err(failure) => {
                    tracing::warn!(%failure.message, "a cluster did not list its namespaces");
                    is_incomplete = true;
                }
            }
        }
        records.sort_by(|a, b| a.document.namespace.cmp(&b.document.namespace));
        Ok(AllNamespaces {
            records,
            is_incomplete,
        })
    }
}

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        Self::invalid(reason::INVALID_FIELD, error.to_string()).at(error.field)
    }
}
