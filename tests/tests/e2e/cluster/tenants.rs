//! Tenants on clusters of their own, on the same servers, behind one gateway.

use super::{
    cassandra,
    installation::{Addresses, Installation, Role, redis},
    kafka,
    mutations::{add_of, now, send},
    turns::Turn,
};
use crate::{
    http::{Api, error_of},
    process::{Place, Server},
    security::make_key,
};
use quipu_schemas::event::decode;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

/// A declared cluster of an installation. What it made is gone with it.
struct Tenant<'a> {
    installation: &'a Installation,
    name: &'a str,
    directory: tempfile::TempDir,
}

impl<'a> Tenant<'a> {
    fn new(installation: &'a Installation, name: &'a str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            installation,
            name,
            directory,
        }
    }

    fn topic(&self, of: &str) -> String {
        format!("{}-{}-{of}", self.installation.name, self.name)
    }

    fn keyspace(&self) -> String {
        format!("{}_{}", self.installation.name, self.name)
    }

    fn document(&self, kafka: &Value) -> Value {
        let mut document = json!({
            "cluster": self.name,
            "kafka": {"topic_prefix": self.topic(""), "event_partitions": 2},
            "cassandra": {"keyspace": self.keyspace()},
            "redis": {"database": 1},
            "dataset": {"name": "events_90d", "slice": "1day", "retention": "90days"},
        });
        for (field, value) in kafka.as_object().expect("an object") {
            document["kafka"][field] = value.clone();
        }
        document
    }

    /// `quipu cluster apply`: how it ends, and what it says.
    fn apply(&self, server: &Server, document: &Value) -> (i32, String) {
        let file = self.directory.path().join("cluster.json");
        fs::write(&file, document.to_string()).expect("it is written");
        let file = file.to_str().expect("a path in UTF-8");
        let arguments = ["cluster", "apply", "-f", file, "--server", &server.http];
        self.installation.run(&arguments)
    }

    /// The document of a namespace that lives here.
    fn namespace(&self, name: &str) -> Value {
        json!({"namespace": name, "accept_limit": "2s", "persistence": [
            {"id": "EVENT_STORE",
             "physical_storage": {"type": "CASSANDRA", "cluster": self.name, "dataset": "events_90d"}},
        ]})
    }

    fn start(&self, role: &str) -> Role {
        self.installation
            .start_with(&[role, "--cluster", self.name])
    }
}

impl Drop for Tenant<'_> {
    fn drop(&mut self) {
        let addresses = &self.installation.addresses;
        let topics = ["events", "signals", "watermarks", "events-dlq"].map(|of| self.topic(of));
        let topics = topics.each_ref().map(String::as_str);
        kafka::delete_topics(&addresses.kafka, &topics);
        cassandra::drop_keyspace(&addresses.cassandra, &self.keyspace());
    }
}

fn put(api: &Api, document: &Value) -> (u16, Value) {
    let name = document["namespace"].as_str().expect("a name");
    let body = document.to_string().into_bytes();
    let path = format!("/v1/namespaces/{name}");
    let answer = api.send("PUT", &path, "application/json", body);
    answer.expect("the server answers")
}

/// Makes a namespace as soon as its cluster is joined.
fn put_once_joined(api: &Api, document: &Value) {
    let started = Instant::now();
    loop {
        let (status, body) = put(api, document);
        if status == 200 {
            return;
        }
        let waits = status == 503 && started.elapsed() < Duration::from_mins(1);
        assert!(waits, "{status} {body}");
        sleep(Duration::from_millis(500));
    }
}

fn assert_refused((status, body): (u16, Value), reason: &str) {
    assert_eq!(error_of(&body).1, reason, "{status} {body}");
}

/// Adds so many, each accepted.
fn add(api: &Api, namespace: &str, count: usize) {
    for number in 0..count {
        let mut entry = add_of("clicks", &format!("{namespace}-{number}-{}", now()), 1);
        let answer = send(api, namespace, &mut entry);
        assert_eq!(answer, crate::ledger::Answer::Accepted, "{namespace}");
    }
}

/// The namespaces of all events in a topic.
fn namespaces_in(installation: &Installation, topic: &str) -> BTreeSet<String> {
    let records = kafka::read_all(&installation.addresses.kafka, topic);
    let events = records
        .values()
        .filter_map(|it| decode(it.value.as_deref()?).ok());
    events
        .map(|event| event.namespace.as_str().to_owned())
        .collect()
}

#[test]
fn tenants_on_clusters_of_their_own_share_one_gateway_and_nothing_else() {
    let _turn = Turn::take();
    let installation = &Installation::new(Addresses::shared(), 2);
    let tenant = Tenant::new(installation, "billing");
    installation.set_up();
    let gateway = &installation.start_gateway();
    let _home = [
        installation.start("ingest"),
        installation.start("rollup-worker"),
    ];
    let api = Api::new(&gateway.http);
    api.put_namespace("web", "2s");

    // Nobody declared it, then nobody set it up: both are told, and concern nobody else.
    assert_refused(
        put(&api, &tenant.namespace("invoices")),
        "NAMESPACE_REFUSED",
    );
    let (code, said) = tenant.apply(gateway, &tenant.document(&json!({})));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("billing declared (version 1)"), "{said}");
    assert_refused(
        put(&api, &tenant.namespace("invoices")),
        "CLUSTER_UNAVAILABLE",
    );
    add(&api, "web", 5);
    let (code, said) = installation.run(&["ingest", "--cluster", "nobody"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("is not declared"), "{said}");
    let (code, said) = installation.run(&["admin", "setup", "--cluster", "billing"]);
    assert_eq!(code, 0, "{said}");
    let ingest = tenant.start("ingest");
    let _worker = tenant.start("rollup-worker");

    put_once_joined(&api, &tenant.namespace("invoices"));
    for _ in 0..5 {
        add(&api, "web", 2);
        add(&api, "invoices", 3);
    }
    let through = now().get();
    assert_eq!(api.count_through("web", "clicks", through), 15);
    assert_eq!(api.count_through("invoices", "clicks", through), 15);

    assert_apart(&tenant);
    assert_stays_put(&tenant, &api, gateway);

    // While its ingest is away, the others count, and what it is sent waits.
    let _ = ingest.running.terminate();
    add(&api, "invoices", 4);
    add(&api, "web", 4);
    assert_eq!(api.count_through("web", "clicks", now().get()), 19);
    assert_eq!(api.count("invoices", "clicks").expect("it answers").0, 15);
    let _ingest = tenant.start("ingest");
    assert_eq!(api.count_through("invoices", "clicks", now().get()), 19);
    let (code, said) = installation.run(&["admin", "check", "--cluster", "billing"]);
    assert_eq!(code, 0, "{said}");
    installation.assert_no_panic();
}

/// Nothing of a tenant lies where others are, and nothing of others where it is.
fn assert_apart(tenant: &Tenant<'_>) {
    let installation = tenant.installation;
    let theirs = namespaces_in(installation, &installation.topic("events"));
    assert!(
        theirs.contains("web") && !theirs.contains("invoices"),
        "{theirs:?}"
    );
    let own = namespaces_in(installation, &tenant.topic("events"));
    assert_eq!(own, BTreeSet::from(["invoices".to_owned()]));
    let node = &installation.addresses.cassandra;
    assert_eq!(
        cassandra::stored_events(node, &installation.name, "web"),
        15
    );
    let stored = cassandra::stored_events(node, &tenant.keyspace(), "invoices");
    assert_eq!(stored, 15);
    let keys = |database: u8, prefix: &str| {
        let command = format!("SELECT {database}\r\nKEYS {prefix}{{*");
        redis(&installation.addresses.redis, &command).expect("Redis answers")
    };
    let has_keys = |answer: &str| answer.starts_with("+OK\r\n*") && !answer.contains("*0\r\n");
    assert!(has_keys(&keys(0, &installation.name)));
    assert!(has_keys(&keys(1, &tenant.keyspace())));
    assert!(!has_keys(&keys(0, &tenant.keyspace())));
}

/// What would strand counts, or let two share them, is refused.
fn assert_stays_put(tenant: &Tenant<'_>, api: &Api, gateway: &Server) {
    let mut moved = tenant.namespace("invoices");
    moved["persistence"] = json!([]);
    assert_refused(put(api, &moved), "NAMESPACE_REFUSED");
    assert_refused(put(api, &tenant.namespace("web")), "NAMESPACE_REFUSED");
    let mut two = tenant.namespace("two");
    let cache = json!({"id": "CACHE", "physical_storage": {"type": "REDIS"}});
    two["persistence"]
        .as_array_mut()
        .expect("entries")
        .push(cache);
    let (status, body) = put(api, &two);
    assert_eq!(status, 400, "{body}");
    assert!(
        body.to_string()
            .contains("persistence[1].physical_storage.cluster"),
        "{body}"
    );

    let mut elsewhere = tenant.document(&json!({}));
    elsewhere["cassandra"]["keyspace"] = json!("elsewhere");
    let (code, said) = tenant.apply(gateway, &elsewhere);
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("redis.key_prefix") || said.contains("cassandra.keyspace"),
        "{said}"
    );
    let (status, listed) = api.get("/v1/clusters").expect("it answers");
    assert_eq!(
        (status, &listed["clusters"][0]["cluster"]),
        (200, &json!("billing"))
    );
    let (_, listed) = api.get("/v1/namespaces").expect("it answers");
    let names = listed["namespaces"].as_array().expect("a list");
    let has = |name: &str| names.iter().any(|it| it["namespace"] == name);
    assert!(
        has("web") && has("invoices") && listed.get("incomplete").is_none(),
        "{listed}"
    );
}

#[test]
fn a_tenant_reaches_no_other_by_its_key_and_one_that_is_away_hurts_nobody() {
    let _turn = Turn::take();
    let installation = &Installation::new(Addresses::shared(), 1);
    let tenant = Tenant::new(installation, "ghost");
    installation.set_up();
    let place = Place::new();
    let keys = place.beside("keys.toml");
    let (all, own) = (
        make_key(&place, &keys, "operator", "*"),
        make_key(&place, &keys, "tenant", "stable*"),
    );
    let keys = keys.to_str().expect("a path in UTF-8");
    let gateway = installation.start_gateway_with(&["--keys", keys]);
    let file = tenant.directory.path().join("cluster.json");
    let document = tenant.document(&json!({"brokers": ["127.0.0.1:1"]}));
    fs::write(&file, document.to_string()).expect("it is written");
    let run = |arguments: &[&str], key: &Path| {
        let key = key.to_str().expect("a path in UTF-8");
        let common = ["--server", &gateway.http, "--api-key-file", key];
        installation.run(&[arguments, &common].concat())
    };
    let file = file.to_str().expect("a path in UTF-8");
    for (arguments, code) in [
        (&["cluster", "apply", "-f", file][..], 3),
        (&["cluster", "list"], 3),
        (&["cluster", "show", "ghost"], 3),
    ] {
        assert_eq!(run(arguments, &own).0, code, "{arguments:?}");
    }
    assert_eq!(run(&["cluster", "apply", "-f", file], &all).0, 0);
    sleep(Duration::from_secs(2));

    let stable = tenant.directory.path().join("stable.json");
    fs::write(&stable, r#"{"namespace": "stable", "accept_limit": "2s"}"#).expect("written");
    let stable = stable.to_str().expect("a path in UTF-8");
    let (code, said) = run(&["namespace", "apply", "-f", stable], &all);
    assert_eq!(code, 0, "{said}");
    let (code, said) = run(&["add", "clicks", "--namespace", "stable"], &own);
    assert_eq!(code, 0, "{said}");
    let (code, said) = run(&["get", "clicks", "--namespace", "nowhere"], &all);
    assert_eq!((code, said.contains("does not exist")), (3, true), "{said}");
    let haunted = tenant.directory.path().join("haunted.json");
    fs::write(&haunted, tenant.namespace("haunted").to_string()).expect("written");
    let haunted = haunted.to_str().expect("a path in UTF-8");
    let (code, said) = run(
        &["namespace", "apply", "-f", haunted, "--timeout", "5s"],
        &all,
    );
    assert!(code == 4 || code == 5, "{code} {said}");
    assert!(
        said.contains("the cluster ghost is not joined yet"),
        "{said}"
    );
    let (code, said) = run(&["namespace", "list", "--json"], &all);
    assert_eq!(
        (code, said.contains("\"incomplete\":true")),
        (0, true),
        "{said}"
    );
    // The key of one tenant is for no namespace of another, wherever that lives.
    let (code, said) = run(&["get", "clicks", "--namespace", "haunted"], &own);
    assert_eq!(
        (code, said.contains("is not for the namespace")),
        (3, true),
        "{said}"
    );
    installation.assert_no_panic();
}
