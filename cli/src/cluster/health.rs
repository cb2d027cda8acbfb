//! `/healthz/live`, `/healthz/ready` and `/metrics` of a role without calls of its own.

use axum::{
    Router,
    http::{StatusCode, header},
    routing::get,
};
use std::{sync::Arc, time::Duration};

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What a role knows of itself.
#[derive(Clone)]
pub(super) struct Probes {
    /// Whether it makes progress; otherwise why not.
    pub(super) live: Check,
    /// Whether it can do its work; otherwise why not.
    pub(super) ready: Check,
    /// The metrics in Prometheus' text format.
    pub(super) metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// What clients can use up: only probes come here.
pub(super) fn limits() -> quipu_gateway::Limits {
    quipu_gateway::Limits {
        connections: 64,
        requests: 64,
        drain: Duration::from_secs(1),
        ..quipu_gateway::Limits::default()
    }
}

/// Answers probes.
pub(super) fn router(probes: Probes) -> Router {
    let Probes {
        live,
        ready,
        metrics,
    } = probes;
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Router::new()
        .route("/healthz/live", get(async move || answer("live", &live)))
        .route("/healthz/ready", get(async move || answer("ready", &ready)))
        .route("/metrics", get(async move || (text, metrics())))
}

fn answer(good: &str, check: &Check) -> (StatusCode, String) {
    match check() {
        Ok(()) => (StatusCode::OK, format!("{good}\n")),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
