//! Which cluster a process is of, and what holds for it.

use super::connect;
use crate::commands::exit::{Exit, Failed};
use quipu_adapters::{
    cassandra::{Claims, Homes},
    clock::Clock,
    config::Config,
    ports::{Clusters, StoreError},
};
use quipu_schemas::cluster::{ClusterDocument, DEFAULT_CLUSTER};

/// What the command line says.
pub(super) struct Asked {
    /// That of the cluster `default`, which keeps the declarations of the others.
    pub(super) config: Config,
    /// One that was declared.
    pub(super) cluster: Option<String>,
}

/// A cluster, and what holds for it.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) claims: Claims,
}

impl Target {
    /// The cluster `default`.
    pub(super) fn home(config: Config) -> Self {
        Self {
            name: DEFAULT_CLUSTER.to_owned(),
            config,
            claims: Claims::Here,
        }
    }

    /// A declared cluster, in which namespaces may be made.
    pub(super) fn of(own: &Config, document: &ClusterDocument, homes: Homes) -> Self {
        Self {
            name: document.cluster.clone(),
            config: own.of_cluster(document),
            claims: Claims::In(homes),
        }
    }

    /// The command that sets it up.
    pub(super) fn setup(&self) -> String {
        match self.name.as_str() {
            DEFAULT_CLUSTER => "quipu admin setup".to_owned(),
            name => format!("quipu admin setup --cluster {name}"),
        }
    }
}

impl Asked {
    /// Finds what holds, which a declaration says in the keyspace of the cluster `default`.
    pub(super) async fn find(&self) -> Result<Target, Failed> {
        let own = &self.config;
        let asked = self.cluster.as_deref();
        let Some(name) = asked.filter(|name| *name != DEFAULT_CLUSTER) else {
            return Ok(Target::home(own.clone()));
        };
        let cassandra = connect::cassandra(own, &Clock::system()).await?;
        let clusters = cassandra.clusters(own.clone()).await?;
        let declared = clusters.list().await.map_err(|error| {
            let exit = match error {
                StoreError::Damaged(_) => Exit::Internal,
                StoreError::Unavailable(_) | StoreError::SliceNotReady(_) => Exit::Unreachable,
            };
            Failed::new(exit, error.to_string())
        })?;
        let mut documents = declared.iter().map(|record| &record.document);
        let Some(document) = documents.find(|document| document.cluster == name) else {
            let message = format!(
                "cluster {name} is not declared in keyspace {}; declare it at a gateway with `quipu \
                 cluster apply`",
                own.cassandra.keyspace
            );
            return Err(Failed::new(Exit::Refused, message));
        };
        let config = own.of_cluster(document);
        config.check()?;
        Ok(Target {
            name: name.to_owned(),
            config,
            claims: Claims::Never,
        })
    }
}
