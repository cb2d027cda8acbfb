//! All calls behind one router: gRPC by its paths, HTTP/JSON by the rest.

use crate::{
    Served,
    auth::Guarded,
    call::MAX_BODY_BYTES,
    grpc::{CounterService, Probe},
};
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, Request, Response, header},
};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_schemas::v1::counter_server::CounterServer;
use std::sync::Arc;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

/// What a server knows of itself, for whoever watches it.
#[derive(Clone)]
pub struct Probes {
    /// Whether the process can answer, beyond what its gateway says; otherwise why not.
    pub ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The metrics in Prometheus' text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Every call, on one router, so that any listener answers both HTTP and gRPC. It answers nobody
/// until [`crate::authenticated`] says who calls.
///
/// # Panics
/// When the compiled descriptors are no descriptors.
pub fn router<L, E, R, C, P>(served: Arc<Served<L, E, R, C, P>>, probes: Probes) -> Router
where
    L: Producer,
    E: EventStore,
    R: RollupStore,
    C: Cache,
    P: ControlPlane,
{
    let counter = CounterServer::new(Guarded(CounterService(Arc::clone(&served))))
        .max_decoding_message_size(MAX_BODY_BYTES);
    let ready = (Arc::clone(&served), Arc::clone(&probes.ready));
    let health = Probe(Arc::new(move || {
        ready.0.home.ready().and_then(|()| (ready.1)()).is_ok()
    }));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(quipu_schemas::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let probes = Arc::new(probes);
    Routes::new(counter)
        .add_service(HealthServer::new(health))
        .add_service(reflection().build_v1().expect("our descriptors are valid"))
        .add_service(
            reflection()
                .build_v1alpha()
                .expect("our descriptors are valid"),
        )
        .into_axum_router()
        .fallback(move |request: Request<Body>| {
            let (served, probes) = (Arc::clone(&served), Arc::clone(&probes));
            async move {
                if is_grpc(request.headers()) {
                    let path = request.uri().path();
                    return grpc_response(&tonic::Status::unimplemented(format!(
                        "there is no service at {path}"
                    )));
                }
                served.http(&probes, request).await
            }
        })
        .with_state(())
}

/// Whether a request wants to be answered in gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"application/grpc"))
}

/// A gRPC status as a whole response.
pub(crate) fn grpc_response(status: &tonic::Status) -> Response<Body> {
    status.clone().into_http()
}
