//! The calls that declare clusters.

use crate::{
    failure::{Failure, reason},
    served::Served,
};
use quipu_adapters::ports::{
    Cache, ChangeRequest, ClusterError, ClusterRecord, ControlPlane, EventStore, Producer,
    RollupStore, StoreError,
};
use quipu_schemas::cluster::{ClusterDocument, DEFAULT_CLUSTER, check_cluster_name};
use tonic::Code;

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Served<L, E, R, C, P> {
    /// Declares or changes a cluster.
    pub async fn declare_cluster(
        &self,
        name: &str,
        document: ClusterDocument,
        request: ChangeRequest,
    ) -> Result<ClusterRecord, Failure> {
        let refuse = |problem: String| {
            Failure::invalid(reason::INVALID_FIELD, format!("cluster: {problem}")).at("cluster")
        };
        check_cluster_name(name).map_err(refuse)?;
        document.check()?;
        if document.cluster != name {
            let problem = format!(
                "the document is of {:?}, but the path names {name}: make them agree",
                document.cluster
            );
            return Err(refuse(problem));
        }
        Ok(self.declared.declare(document, request).await?)
    }

    /// One declared cluster.
    pub async fn show_cluster(&self, name: &str) -> Result<ClusterRecord, Failure> {
        let declared = self.list_clusters().await?;
        let mut declared = declared.into_iter();
        let found = declared.find(|record| record.document.cluster == name);
        found.ok_or_else(|| Failure::no_cluster(name))
    }

    /// Every declared cluster.
    pub async fn list_clusters(&self) -> Result<Vec<ClusterRecord>, Failure> {
        Ok(self.declared.list().await?)
    }
}

impl Failure {
    fn no_cluster(name: &str) -> Self {
        let message = if name == DEFAULT_CLUSTER {
            "the cluster default is not declared: it is what the server's configuration says"
                .to_owned()
        } else {
            format!("cluster {name:?} is not declared; declare it with PUT /v1/clusters/{{name}}")
        };
        Self::new(Code::NotFound, reason::UNKNOWN_CLUSTER, message)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Refused(why) => {
                Self::new(Code::FailedPrecondition, reason::CLUSTER_REFUSED, why)
            }
            ClusterError::VersionMoved { .. } => {
                let message = error.to_string();
                Self::new(Code::FailedPrecondition, reason::VERSION_MOVED, message)
            }
            ClusterError::Store(error) => StoreError::into(error),
        }
    }
}
