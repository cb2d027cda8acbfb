//! The control plane's calls over HTTP, on a real node.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedBestEffort, EmbeddedSettings},
};
use quipu_core::time::Micros;
use quipu_gateway::{
    Access, Gateway, Ports, Probes, Served, Settings,
    auth::{KeyEntry, Keyring, MAX_FILE_BYTES, Permission, Secret},
    authenticated, reload, router,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tower::ServiceExt;

/// 2026-01-31T12:00:00Z.
const START: Micros = Micros::new(1_769_860_800_000_000);

struct Server {
    router: Router,
    _node: Embedded,
    _directory: TempDir,
}

struct Answer {
    status: StatusCode,
    etag: Option<String>,
    body: Value,
}

impl Answer {
    fn reason(&self) -> &str {
        let reason = &self.body["error"]["details"][0]["reason"];
        reason.as_str().expect("an error has a reason")
    }

    fn message(&self) -> &str {
        let message = &self.body["error"]["message"];
        message.as_str().expect("an error has a message")
    }
}

impl Server {
    fn start(retention: Duration) -> Self {
        Self::start_for(Access::Anyone, retention)
    }

    fn start_for(access: Access, retention: Duration) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (clock, _) = Clock::manual(START);
        let mut settings = EmbeddedSettings::default();
        settings.dataset.retention = retention;
        let node = Embedded::open(directory.path(), settings, clock.clone()).expect("it opens");
        let ports = Ports {
            log: node.producer(),
            events: node.events(),
            rollups: node.rollups(),
            cache: node.cache(),
            best_effort: Arc::new(EmbeddedBestEffort::new(1 << 20, clock.clone())),
            control: node.control(),
        };
        let (gateway, _) = Gateway::new(ports, node.watermarks(), clock, Settings::default());
        let served = Arc::new(Served::alone(Arc::new(gateway)));
        let probes = Probes {
            ready: Arc::new(|| Ok(())),
            metrics: Arc::new(String::new),
        };
        Self {
            router: authenticated(router(served, probes), access),
            _node: node,
            _directory: directory,
        }
    }

    async fn call(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Body::from(body.to_owned()))
            .expect("a request");
        let answer = self.router.clone().oneshot(request).await;
        let (head, body) = answer.expect("it answers").into_parts();
        let bytes = to_bytes(body, 1 << 20).await.expect("a whole body");
        let etag = head.headers.get("etag");
        Answer {
            status: head.status,
            etag: etag.map(|etag| etag.to_str().expect("a text").to_owned()),
            body: serde_json::from_slice(&bytes).expect("JSON"),
        }
    }

    async fn put(&self, headers: &[(&str, &str)], document: Value) -> Answer {
        let call = ("PUT", "/v1/namespaces/web");
        self.call(call, headers, &document.to_string()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call(("GET", path), &[], "").await
    }
}

fn web(accept_limit: &str) -> Value {
    json!({"namespace": "web", "accept_limit": accept_limit})
}

const WEEK: Duration = Duration::from_hours(7 * 24);

#[tokio::test]
async fn the_history_tells_who_made_each_version_and_when_over_all_lives() {
    let server = Server::start(WEEK);
    let missing = server.get("/v1/namespaces/web/history").await;
    assert_eq!(
        (missing.status, missing.reason()),
        (StatusCode::NOT_FOUND, "UNKNOWN_NAMESPACE")
    );
    server
        .put(&[("quipu-author", "ana@build")], web("9s"))
        .await;
    server.put(&[], web("9s")).await;
    server.put(&[], web("8s")).await;
    let delete = ("DELETE", "/v1/namespaces/web");
    server.call(delete, &[("quipu-author", "eve")], "").await;
    let again = server.put(&[("quipu-author", "ben")], web("7s")).await;
    assert_eq!(again.etag.as_deref(), Some("\"4\""));
    let history = server.get("/v1/namespaces/web/history").await;
    assert_eq!(history.status, StatusCode::OK);
    let versions = history.body["versions"].as_array().expect("a list");
    let told: Vec<_> = versions
        .iter()
        .map(|it| {
            assert_eq!(it["changed_at"], "2026-01-31T12:00:00Z");
            let limit = &it["document"]["accept_limit"];
            assert_eq!(it["key"], Value::Null);
            json!([it["version"], it["author"], it["deleted"], limit])
        })
        .collect();
    let expected = [
        json!([4, "ben", false, "7s"]),
        json!([3, "eve", true, "8s"]),
        json!([2, "unknown", false, "8s"]),
        json!([1, "ana@build", false, "9s"]),
    ];
    assert_eq!(told, expected);
    assert_ne!(versions[0]["namespace_id"], versions[1]["namespace_id"]);
    assert_eq!(history.body.get("next_page_token"), None);
    let older = server.get("/v1/namespaces/web/history?page_token=3").await;
    assert_eq!(older.body["versions"].as_array().map(Vec::len), Some(2));
    let wrong = server.get("/v1/namespaces/web/history?page_token=x").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_long_history_comes_in_pages() {
    let server = Server::start(WEEK);
    for seconds in 1..=101 {
        let answer = server.put(&[], web(&format!("{seconds}s"))).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    let first = server.get("/v1/namespaces/web/history").await.body;
    assert_eq!(first["versions"].as_array().map(Vec::len), Some(100));
    assert_eq!(first["next_page_token"], "2");
    let last = server
        .get("/v1/namespaces/web/history?page_token=2")
        .await
        .body;
    assert_eq!(last["versions"][0]["version"], 1);
    assert_eq!(last.get("next_page_token"), None);
}

#[tokio::test]
async fn a_change_for_a_version_that_is_not_in_force_is_refused() {
    let server = Server::start(WEEK);
    let created = server.put(&[("if-none-match", "*")], web("9s")).await;
    assert_eq!(
        (created.status, created.etag.as_deref()),
        (StatusCode::OK, Some("\"1\""))
    );
    for headers in [
        [("if-none-match", "*")],
        [("if-match", "\"2\"")],
        [("if-match", "0")],
    ] {
        let refused = server.put(&headers, web("8s")).await;
        let told = (refused.status, refused.reason());
        assert_eq!(told, (StatusCode::PRECONDITION_FAILED, "VERSION_MOVED"));
        assert!(
            refused.message().contains("version 1 is in force"),
            "{}",
            refused.message()
        );
    }
    let changed = server.put(&[("if-match", "\"1\"")], web("8s")).await;
    assert_eq!(
        (changed.status, changed.etag.as_deref()),
        (StatusCode::OK, Some("\"2\""))
    );
    // Its answer may have been lost.
    let again = server.put(&[("if-match", "\"1\"")], web("8s")).await;
    assert_eq!(
        (again.status, again.etag.as_deref()),
        (StatusCode::OK, Some("\"2\""))
    );
    let delete = ("DELETE", "/v1/namespaces/web");
    let refused = server.call(delete, &[("if-match", "\"1\"")], "").await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    let deleted = server.call(delete, &[("if-match", "\"2\"")], "").await;
    assert_eq!(deleted.status, StatusCode::OK);
    // Made again, it is another one: what was read of the first life is not in force.
    let again = server.put(&[("if-match", "0")], web("8s")).await;
    assert_eq!(again.etag.as_deref(), Some("\"4\""));
    let shown = server.get("/v1/namespaces/web").await;
    assert_eq!(shown.etag.as_deref(), Some("\"4\""));
}

#[tokio::test]
async fn where_keys_are_asked_for_the_history_tells_which_made_a_change() {
    let secret = Secret::generate("billing-admin").expect("random bytes");
    let entry = KeyEntry {
        id: "billing-admin".to_owned(),
        hash: secret.hash().to_string(),
        namespaces: vec!["*".to_owned()],
        allow: vec![Permission::Read, Permission::Admin],
        expires: None,
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), entry.to_toml()).expect("it can be written");
    let parse = |read: &[Vec<u8>]| Keyring::parse(&String::from_utf8_lossy(&read[0]));
    let files = vec![file.path().to_owned()];
    let (keys, _) = reload::follow(files, MAX_FILE_BYTES, parse).expect("a right file");
    let (clock, _) = Clock::manual(START);
    let server = Server::start_for(Access::Keys { keys, clock }, WEEK);
    let authorization = format!("Bearer {}", secret.reveal());
    let key = ("authorization", authorization.as_str());
    server.put(&[key, ("quipu-author", "ana")], web("9s")).await;
    server.put(&[key], web("8s")).await;
    let pretended = [key, ("quipu-author", "key:other ana")];
    let refused = server.put(&pretended, web("7s")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let history = ("GET", "/v1/namespaces/web/history");
    let history = server.call(history, &[key], "").await;
    let versions = history.body["versions"].as_array().expect("a list");
    let told: Vec<_> = versions
        .iter()
        .map(|it| json!([it["key"], it["author"]]))
        .collect();
    let expected = [
        json!(["billing-admin", "unknown"]),
        json!(["billing-admin", "ana"]),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn headers_that_are_wrong_are_refused_and_change_nothing() {
    let server = Server::start(WEEK);
    let long = "x".repeat(129);
    for headers in [
        [("quipu-author", long.as_str())],
        [("quipu-author", "")],
        [("if-match", "*")],
    ] {
        let refused = server.put(&headers, web("9s")).await;
        let told = (refused.status, refused.reason());
        assert_eq!(told, (StatusCode::BAD_REQUEST, "INVALID_FIELD"));
        assert!(
            refused.message().contains(headers[0].0),
            "{}",
            refused.message()
        );
    }
    assert_eq!(
        server.get("/v1/namespaces/web").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_change_that_would_break_a_promise_is_refused_with_the_reason() {
    let server = Server::start(Duration::from_mins(1));
    server.put(&[], web("9s")).await;
    let best_effort = ("PUT", "/v1/namespaces/quick");
    let document = r#"{"namespace": "quick", "type": "BEST_EFFORT"}"#;
    server.call(best_effort, &[], document).await;
    let elsewhere = json!({"namespace": "web", "persistence": [{"id": "EVENT_STORE",
        "physical_storage": {"type": "EMBEDDED", "dataset": "other"}}]});
    for (document, field, why) in [
        (web("61s"), "accept_limit: ", "kept for 60s only"),
        (
            json!({"namespace": "web", "type": "BEST_EFFORT"}),
            "type: ",
            "only by being made again",
        ),
        (
            elsewhere,
            "persistence[0].physical_storage.dataset: ",
            "one dataset",
        ),
    ] {
        let refused = server.put(&[], document).await;
        let told = (refused.status, refused.reason());
        assert_eq!(told, (StatusCode::BAD_REQUEST, "NAMESPACE_REFUSED"));
        let message = refused.message();
        assert!(
            message.starts_with(field) && message.contains(why),
            "{message}"
        );
    }
    let refused = server
        .call(best_effort, &[], r#"{"namespace": "quick"}"#)
        .await;
    assert!(
        refused.message().contains("only by being made again"),
        "{}",
        refused.message()
    );
    assert_eq!(
        server.get("/v1/namespaces/web").await.etag.as_deref(),
        Some("\"1\"")
    );
}

#[tokio::test]
async fn the_schema_of_the_document_is_served() {
    let schema = Server::start(WEEK).get("/v1/schemas/namespace").await;
    assert_eq!(schema.status, StatusCode::OK);
    assert_eq!(schema.body["title"], "NamespaceDocument");
}
