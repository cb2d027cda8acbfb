//! The calls that declare clusters, in JSON.

use super::{
    body, change,
    dispatch::{json, versioned},
};
use crate::{Served, auth::Caller, failure::Failure};
use axum::{
    body::Body,
    http::{Request, Response},
};
use quipu_adapters::ports::{
    Cache, ClusterRecord, ControlPlane, EventStore, Producer, RollupStore,
};
use quipu_schemas::cluster::ClusterDocument;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct ClustersAnswer {
    clusters: Vec<ClusterDocument>,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Served<L, E, R, C, P> {
    pub(super) async fn http_apply_cluster(
        &self,
        name: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let asked = change::request(&Caller::of(request.extensions()), request.headers());
        let body = body::read(request).await?;
        let given = body::object::<ClusterDocument>(&body)?;
        Ok(document(&self.declare_cluster(name, given, asked?).await?))
    }

    pub(super) async fn http_list_clusters(&self) -> Result<Response<Body>, Failure> {
        let records = self.list_clusters().await?;
        let clusters = records.into_iter().map(|record| record.document).collect();
        Ok(json(&ClustersAnswer { clusters }))
    }
}

/// A cluster's document itself, so that what was read can be put back.
pub(super) fn document(record: &ClusterRecord) -> Response<Body> {
    versioned(&record.document, record.version)
}
