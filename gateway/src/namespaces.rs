//! The control plane's calls.

use crate::{
    failure::{Failure, reason},
    gateway::Gateway,
};
use quipu_adapters::ports::{
    Cache, ControlPlane, EventStore, NamespaceRecord, Producer, RollupStore,
};
use quipu_core::name::Namespace;
use quipu_schemas::namespace::{DocumentError, NamespaceDocument};

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Creates or changes a namespace.
    pub async fn apply_namespace(
        &self,
        name: &str,
        document: NamespaceDocument,
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
        Ok(self.ports.control.apply(document).await?)
    }

    /// One namespace.
    pub async fn show_namespace(&self, name: &str) -> Result<NamespaceRecord, Failure> {
        Ok(self.ports.control.show(&Namespace::new(name)?).await?)
    }

    /// All namespaces that are not deleted.
    pub async fn list_namespaces(&self) -> Result<Vec<NamespaceRecord>, Failure> {
        Ok(self.ports.control.list().await?)
    }

    /// Deletes a namespace. Made again, it starts at zero (R10).
    pub async fn delete_namespace(&self, name: &str) -> Result<(), Failure> {
        Ok(self.ports.control.delete(&Namespace::new(name)?).await?)
    }
}

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        Self::invalid(reason::INVALID_FIELD, error.to_string()).at(error.field)
    }
}
