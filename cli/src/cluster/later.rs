//! What a listener answers while there is nothing yet that could answer.

use super::health;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, Response, StatusCode, header},
    response::IntoResponse,
};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tower::ServiceExt;

const STARTING: &str = "the server is starting: it waits for its cluster";

/// Calls that will be answered later. Until then probes are answered, and calls are refused. Cheap
/// to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Later(Arc<OnceLock<Router>>);

impl Later {
    /// What listeners serve from now on.
    pub(super) fn router(&self, metrics: Arc<dyn Fn() -> String + Send + Sync>) -> Router {
        let probes = health::Probes {
            live: Arc::new(|| Ok(())),
            ready: Arc::new(|| Err(STARTING.to_owned())),
            metrics,
        };
        let meanwhile = health::router(probes).fallback(not_yet);
        let calls = Arc::clone(&self.0);
        Router::new().fallback(move |request: Request| {
            let router = calls.get().unwrap_or(&meanwhile).clone();
            async move { router.oneshot(request).await }
        })
    }

    /// Answers calls with this from now on.
    ///
    /// # Panics
    /// When it was told before.
    pub(super) fn answer_with(&self, router: Router) {
        assert!(self.0.set(router).is_ok(), "there is one gateway");
    }
}

/// Nothing was done, and the call may be made again.
async fn not_yet(headers: HeaderMap) -> Response<Body> {
    let content_type = headers.get(header::CONTENT_TYPE);
    if content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc")) {
        return tonic::Status::unavailable(STARTING).into_http();
    }
    let error = json!({"error": {"code": "UNAVAILABLE", "message": STARTING, "details": []}});
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(error)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;

    async fn status(router: &Router, path: &str, content_type: &str) -> (u16, String) {
        let request = Request::get(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::empty())
            .expect("a request");
        let answer = router.clone().oneshot(request).await.expect("it answers");
        let grpc = answer.headers().get("grpc-status").cloned();
        let grpc = grpc.and_then(|value| value.to_str().map(str::to_owned).ok());
        (answer.status().as_u16(), grpc.unwrap_or_default())
    }

    #[tokio::test]
    async fn probes_are_answered_at_once_and_calls_once_they_can_be() {
        let later = Later::default();
        let router = later.router(Arc::new(String::new));
        let http = async |path| status(&router, path, "application/json").await.0;
        let grpc = async || status(&router, "/quipu.v1.Counter/AddCount", "application/grpc").await;
        assert_eq!(http("/healthz/live").await, 200);
        assert_eq!(http("/healthz/ready").await, 503);
        assert_eq!(http("/metrics").await, 200);
        assert_eq!(http("/v1/namespaces").await, 503);
        assert_eq!(grpc().await, (200, "14".to_owned()), "UNAVAILABLE");
        let calls = Router::new()
            .route("/healthz/ready", get(async || "ready"))
            .route("/v1/namespaces", get(async || "[]"));
        later.answer_with(calls);
        assert_eq!(http("/healthz/ready").await, 200);
        assert_eq!(http("/v1/namespaces").await, 200);
        assert_eq!(http("/elsewhere").await, 404);
    }
}
