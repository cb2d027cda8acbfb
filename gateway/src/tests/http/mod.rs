mod accurate;
mod best_effort;
mod many;
mod mutations;
mod reads;
mod requests;

use crate::testing::{NS, World};
use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, Request, Response, StatusCode, header},
};
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use tower::ServiceExt;

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Self {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// Status, code and reason of an error.
    fn error(&self) -> (u16, &str, &str) {
        let error = &self.body["error"];
        let text = |value: &'_ Value| value.as_str().map(str::to_owned);
        assert!(
            text(&error["message"]).is_some_and(|m| !m.is_empty()),
            "{}",
            self.body
        );
        let reason = error["details"][0]["reason"].as_str().unwrap_or("none");
        (
            self.status.as_u16(),
            error["code"].as_str().unwrap_or("none"),
            reason,
        )
    }

    fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap()
    }

    fn field(&self) -> &str {
        self.body["error"]["details"][1]["field_violations"][0]["field"]
            .as_str()
            .unwrap()
    }
}

async fn send(world: &World, method: &str, path: &str, body: impl Into<Body>) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap();
    Answer::read(world.router().oneshot(request).await.unwrap()).await
}

async fn post(world: &World, path: &str, body: Value) -> Answer {
    send(world, "POST", path, body.to_string()).await
}

fn path(rest: &str) -> String {
    format!("/v1/namespaces/{NS}/{rest}")
}

fn token(token: &str, time: Micros) -> Value {
    json!({"token": token, "generation_time": to_rfc3339(time)})
}

fn add(delta: i64, time: Micros) -> Value {
    json!({"delta": delta, "idempotency_token": token("t", time)})
}
