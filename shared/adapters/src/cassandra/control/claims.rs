//! A name is claimed for its cluster before its first life is made there (R6).

use super::CassandraControlPlane;
use crate::{
    cassandra::{clusters::Homes, connection::Cassandra, error::Failure},
    ports::{ChangeRequest, ControlError},
};
use quipu_core::{name::Namespace, policy::PolicyBook};

/// Where names are claimed before namespaces are made.
#[derive(Clone, Debug)]
pub enum Claims {
    /// In this keyspace, which is the default cluster's.
    Here,
    /// In the default cluster's keyspace.
    In(Homes),
    /// Nowhere: nobody makes namespaces through this one.
    Never,
}

impl Claims {
    pub(super) async fn open(&self, cassandra: &Cassandra) -> Result<Option<Homes>, Failure> {
        Ok(match self {
            Self::Here => Some(cassandra.homes().await?),
            Self::In(homes) => Some(homes.clone()),
            Self::Never => None,
        })
    }
}

impl CassandraControlPlane {
    /// Claims a name that never lived here. One that did was claimed then, or is older than claims.
    pub(super) async fn claim(
        &self,
        name: &Namespace,
        request: &ChangeRequest,
    ) -> Result<(), ControlError> {
        let lived = |book: &PolicyBook| book.history(name.as_str()).is_some();
        if lived(&self.shared.policies.borrow())
            || self.shared.fresh().await?.names.contains_key(name)
        {
            return Ok(());
        }
        // What is refused anyway claims nothing.
        request.check(name, None)?;
        let Some(homes) = &self.shared.homes else {
            let refused = format!("namespace {name} does not exist; make it at a gateway");
            return Err(ControlError::Refused(refused));
        };
        homes.claim(name, &self.shared.settings.cluster).await
    }
}
