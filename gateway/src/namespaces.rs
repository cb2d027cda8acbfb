//! The control plane's calls.

use crate::{
    failure::{Failure, reason},
    gateway::Gateway,
};
use quipu_adapters::ports::{
    Cache, ChangeRequest, ControlPlane, EventStore, NamespaceRecord, NamespaceVersion, Producer,
    RollupStore,
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

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        Self::invalid(reason::INVALID_FIELD, error.to_string()).at(error.field)
    }
}
