//! A key of one tenant can do nothing to another's: tried with every call that there is.

mod grpc;

use crate::{
    Access,
    auth::{KeyEntry, Keyring, Peer, Permission, Secret},
    metrics::{METHODS, Method},
    reload,
    testing::{NS, START, World},
};
use Permission::{Admin, Metrics, Read, Write};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header},
};
use quipu_core::time::Micros;
use quipu_schemas::timestamp::to_rfc3339;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tower::ServiceExt;

/// Of another tenant, and exists; and one that does not.
const THEIRS: &str = NS;
const NOBODYS: &str = "nobodys";
const OURS: &str = "ours";

/// Keys of a tenant with every set of permissions, one that has ended, and one for metrics.
struct Keys {
    access: Access,
    _file: tempfile::NamedTempFile,
    secrets: Vec<(Vec<Permission>, Secret)>,
    ended: Secret,
    /// May write, for an hour.
    ends_soon: Secret,
    /// Is for all namespaces, and may do everything but admin; and admin.
    everywhere: (Secret, Secret),
}

fn keys(world: &World) -> Keys {
    let mut text = String::new();
    let mut add_for = |scope: &str, id: &str, allow: &[Permission], expires: Option<Micros>| {
        let secret = Secret::generate(id).unwrap();
        let entry = KeyEntry {
            id: id.to_owned(),
            hash: secret.hash().to_string(),
            namespaces: vec![scope.to_owned()],
            allow: allow.to_vec(),
            expires: expires.map(to_rfc3339),
        };
        text += &entry.to_toml();
        secret
    };
    let everywhere = (
        add_for("*", "reads-all", &[Read, Write, Metrics], None),
        add_for("*", "operator", &[Admin], None),
    );
    let mut add = |id: &str, allow: &[Permission], expires| add_for("our*", id, allow, expires);
    let sets = [
        vec![Read],
        vec![Write],
        vec![Admin],
        vec![Metrics],
        vec![Read, Write],
        vec![Read, Write, Admin, Metrics],
    ];
    let secrets = (0..).zip(sets);
    let secrets = secrets
        .map(|(number, allow)| {
            let secret = add(&format!("key-{number}"), &allow, None);
            (allow, secret)
        })
        .collect();
    let ended = add("ended", &[Read, Write, Admin, Metrics], Some(START));
    let soon = START + Duration::from_hours(1);
    let ends_soon = add("ends-soon", &[Write], Some(soon));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let parse = |read: &[Vec<u8>]| Keyring::parse(std::str::from_utf8(&read[0]).unwrap());
    let (keys, _) = reload::follow(vec![file.path().to_owned()], 1 << 20, parse).unwrap();
    Keys {
        access: Access::Keys {
            keys,
            clock: world.clock.clone(),
        },
        _file: file,
        secrets,
        ended,
        ends_soon,
        everywhere,
    }
}

/// The code and the reason of an answer over HTTP, and its body.
async fn http(
    router: &Router,
    (method, path): (&str, &str),
    body: &Value,
    key: Option<&str>,
) -> (String, String, Value) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let challenged = response.headers().contains_key(header::WWW_AUTHENTICATE);
    assert_eq!(challenged, response.status() == 401);
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let code = text(&body["error"]["code"]);
    (code, text(&body["error"]["details"][0]["reason"]), body)
}

/// A call over HTTP: which it is, its request in a namespace, and what it needs.
struct Row {
    method: Method,
    verb: &'static str,
    path: &'static str,
    body: Value,
    needs: &'static [Permission],
}

fn rows() -> Vec<Row> {
    let token = json!({"token": "t", "generation_time": to_rfc3339(START)});
    let add = json!({"delta": 1, "idempotency_token": token});
    let clear = json!({"idempotency_token": token});
    let batch = json!({"items": []});
    let lookup = json!({"counter_name": "a", "idempotency_token": token});
    let names = json!({"counter_names": ["a"]});
    let none = Value::Null;
    let row = |method, verb, path, body: &Value, needs| Row {
        method,
        verb,
        path,
        body: body.clone(),
        needs,
    };
    vec![
        row(Method::Add, "POST", "/counters/a:add", &add, &[Write]),
        row(
            Method::AddAndGet,
            "POST",
            "/counters/a:addAndGet",
            &add,
            &[Write, Read],
        ),
        row(Method::Get, "GET", "/counters/a", &none, &[Read]),
        row(Method::Clear, "POST", "/counters/a:clear", &clear, &[Write]),
        row(
            Method::BatchAdd,
            "POST",
            "/counters:batchAdd",
            &batch,
            &[Write],
        ),
        row(
            Method::BatchGet,
            "POST",
            "/counters:batchGet",
            &names,
            &[Read],
        ),
        row(Method::ListCounters, "GET", "/counters", &none, &[Read]),
        row(Method::Lookup, "POST", "/events:lookup", &lookup, &[Read]),
        row(Method::ApplyNamespace, "PUT", "", &none, &[Admin]),
        row(Method::ShowNamespace, "GET", "", &none, &[Read]),
        row(Method::NamespaceHistory, "GET", "/history", &none, &[Read]),
        row(Method::DeleteNamespace, "DELETE", "", &none, &[Admin]),
    ]
}

#[tokio::test]
async fn every_call_over_http_needs_its_permissions_in_its_own_namespaces() {
    let rows = rows();
    let mut tried: BTreeSet<_> = rows.iter().map(|row| row.method as usize).collect();
    // It has a test of its own: it is of no namespace.
    tried.insert(Method::ListNamespaces as usize);
    // This one is over gRPC alone.
    tried.insert(Method::StreamAdd as usize);
    // These have a test of their own, too: they are of all namespaces.
    tried.extend(CLUSTERS.map(|(method, ..)| method as usize));
    assert_eq!(tried, (0..METHODS).collect(), "each call has its row");
    let world = World::new();
    let keys = keys(&world);
    let router = world.router_for(keys.access.clone());
    for row in &rows {
        for namespace in [OURS, THEIRS, NOBODYS] {
            let path = format!("/v1/namespaces/{namespace}{}", row.path);
            let body = match row.method {
                Method::ApplyNamespace => json!({"namespace": namespace}),
                _ => row.body.clone(),
            };
            let call = (row.verb, &*path);
            let ask = async |key| {
                let (code, reason, _) = http(&router, call, &body, key).await;
                (code, reason)
            };
            let refused = |code: &str, reason: &str| (code.to_owned(), reason.to_owned());
            assert_eq!(
                ask(None).await,
                refused("UNAUTHENTICATED", "API_KEY_MISSING")
            );
            let none = "quipu_none_0";
            assert_eq!(
                ask(Some(none)).await,
                refused("UNAUTHENTICATED", "API_KEY_INVALID")
            );
            let ended = Some(keys.ended.reveal());
            assert_eq!(
                ask(ended).await,
                refused("UNAUTHENTICATED", "API_KEY_EXPIRED")
            );
            for (allow, secret) in &keys.secrets {
                let may = namespace == OURS && row.needs.iter().all(|need| allow.contains(need));
                let answer = ask(Some(secret.reveal())).await;
                let denied = answer == refused("PERMISSION_DENIED", "NOT_ALLOWED");
                assert_eq!(denied, !may, "{call:?} with {allow:?}: {answer:?}");
            }
        }
    }
    assert!(
        world.appended_events().is_empty(),
        "the log has nothing: the namespace that they may write in is not in the policy"
    );
}

const CLUSTERS: [(Method, &str, &str); 3] = [
    (Method::ListClusters, "GET", "/v1/clusters"),
    (Method::ShowCluster, "GET", "/v1/clusters/ours"),
    (Method::ApplyCluster, "PUT", "/v1/clusters/ours"),
];

#[tokio::test]
async fn calls_about_clusters_need_admin_for_all_namespaces() {
    let world = World::new();
    let keys = keys(&world);
    let router = world.router_for(keys.access.clone());
    for (_, verb, path) in CLUSTERS {
        let ask = async |key: Option<&Secret>| {
            let key = key.map(Secret::reveal);
            let (_, reason, _) = http(&router, (verb, path), &json!({}), key).await;
            reason
        };
        assert_eq!(ask(None).await, "API_KEY_MISSING");
        assert_eq!(ask(Some(&keys.ended)).await, "API_KEY_EXPIRED");
        for (allow, secret) in &keys.secrets {
            assert_eq!(
                ask(Some(secret)).await,
                "NOT_ALLOWED",
                "{path} with {allow:?}"
            );
        }
        let (others, operator) = &keys.everywhere;
        assert_eq!(ask(Some(others)).await, "NOT_ALLOWED", "{path}");
        assert_ne!(ask(Some(operator)).await, "NOT_ALLOWED", "{path}");
    }
}

#[tokio::test]
async fn a_list_of_namespaces_shows_only_those_of_the_caller() {
    let world = World::new();
    let keys = keys(&world);
    let router = world.router_for(keys.access.clone());
    let (_, all) = keys.secrets.last().unwrap();
    let document = json!({"namespace": OURS});
    let path = format!("/v1/namespaces/{OURS}");
    let (code, ..) = http(&router, ("PUT", &path), &document, Some(all.reveal())).await;
    assert_eq!(code, "");
    let list = ("GET", "/v1/namespaces");
    let (_, _, body) = http(&router, list, &Value::Null, Some(all.reveal())).await;
    let names = body["namespaces"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|document| &document["namespace"]).collect();
    assert_eq!(names, [OURS]);
    for (allow, secret) in &keys.secrets {
        let (code, ..) = http(&router, list, &Value::Null, Some(secret.reveal())).await;
        assert_eq!(code.is_empty(), allow.contains(&Read), "{allow:?}");
    }
    let anyone = world.router();
    let (_, _, body) = http(&anyone, list, &Value::Null, None).await;
    assert_eq!(body["namespaces"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn probes_are_open_and_metrics_only_to_this_machine_or_with_a_key_for_them() {
    let world = World::new();
    let keys = keys(&world);
    let router = world.router_for(keys.access.clone());
    for path in ["/", "/healthz/live", "/healthz/ready"] {
        let (code, ..) = http(&router, ("GET", path), &Value::Null, None).await;
        assert_eq!(code, "", "{path}");
    }
    let scrape = async |from: &str, key: Option<&str>| {
        let mut request = Request::get("/metrics");
        if let Some(key) = key {
            request = request.header(header::AUTHORIZATION, format!("bearer {key}"));
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(Peer(from.parse().unwrap()));
        router
            .clone()
            .oneshot(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    for near in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(scrape(near, None).await, 200, "{near}");
    }
    assert_eq!(scrape("192.0.2.1", None).await, 401);
    for (allow, secret) in &keys.secrets {
        let expected = if allow.contains(&Metrics) { 200 } else { 403 };
        assert_eq!(
            scrape("192.0.2.1", Some(secret.reveal())).await,
            expected,
            "{allow:?}"
        );
    }
}

#[tokio::test]
async fn a_router_that_nobody_guards_answers_nobody() {
    let world = World::new();
    let probes = crate::Probes {
        ready: std::sync::Arc::new(|| Ok(())),
        metrics: std::sync::Arc::new(String::new),
    };
    let router = crate::router(world.served(), probes);
    let path = format!("/v1/namespaces/{NS}/counters/a");
    let (code, ..) = http(&router, ("GET", &path), &Value::Null, None).await;
    assert_eq!(code, "UNAUTHENTICATED");
}
