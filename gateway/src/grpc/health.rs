//! `grpc.health.v1.Health`, answered from the same probe as `/healthz/ready`.

use futures::{Stream, stream};
use quipu_schemas::v1::counter_server;
use std::{pin::Pin, sync::Arc, time::Duration};
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health,
};

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the server is ready.
#[derive(Clone)]
pub(crate) struct Probe(pub(crate) Arc<dyn Fn() -> bool + Send + Sync>);

impl Probe {
    fn response(&self) -> HealthCheckResponse {
        let status = if (self.0)() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        HealthCheckResponse {
            status: status.into(),
        }
    }
}

#[async_trait]
impl Health for Probe {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        check_service(&request.into_inner().service)?;
        Ok(Response::new(self.response()))
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        check_service(&request.into_inner().service)?;
        let changes = stream::unfold((self.clone(), None), |(probe, sent)| async move {
            loop {
                let response = probe.response();
                if sent != Some(response.status) {
                    let sent = Some(response.status);
                    return Some((Ok(response), (probe, sent)));
                }
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn check_service(name: &str) -> Result<(), Status> {
    if name.is_empty() || name == counter_server::SERVICE_NAME {
        Ok(())
    } else {
        Err(Status::not_found(format!(
            "there is no service {name} here"
        )))
    }
}
