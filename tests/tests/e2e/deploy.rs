//! The files that start the servers and the roles: `docker-compose.yml` and `scripts/stack`. They
//! share their settings, and nothing in them may name what is not there.

use crate::files::{read, root};
use quipu_adapters::config::{Sources, keys, variable};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
pub(crate) struct Compose {
    pub(crate) services: BTreeMap<String, Service>,
    volumes: BTreeMap<String, Option<()>>,
}

#[derive(Deserialize)]
pub(crate) struct Service {
    #[serde(default)]
    image: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(default)]
    depends_on: DependsOn,
    healthcheck: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum DependsOn {
    #[default]
    Nothing,
    Names(Vec<String>),
    Conditions(BTreeMap<String, Condition>),
}

#[derive(Deserialize)]
struct Condition {
    condition: String,
}

pub(crate) fn compose() -> Compose {
    serde_saphyr::from_str(&read("docker-compose.yml")).expect("docker-compose.yml is YAML")
}

/// Lines `KEY=VALUE`, as in `.env` and in Java's properties.
pub(crate) fn settings(path: &str) -> BTreeMap<String, String> {
    let text = read(path);
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once('=').expect("KEY=VALUE"))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The names in `$NAME` and `${NAME}`.
fn variables(text: &str) -> BTreeSet<&str> {
    let end = |name: &str| {
        name.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
            .unwrap_or(name.len())
    };
    text.split('$')
        .skip(1)
        .map(|rest| rest.trim_start_matches('{'))
        .map(|name| &name[..end(name)])
        .filter(|name| !name.is_empty())
        .collect()
}

/// Values that look like `-Dname=value`.
fn properties(text: &str) -> BTreeMap<&str, &str> {
    text.split_whitespace()
        .filter_map(|word| word.trim_matches('"').strip_prefix("-D")?.split_once('='))
        .collect()
}

fn script() -> String {
    ["process.sh", "packages.sh", "servers.sh"]
        .map(|file| read(&format!("scripts/stack.d/{file}")))
        .concat()
}

#[test]
fn compose_and_the_script_take_versions_and_ports_from_one_file() {
    let env = settings(".env");
    let (text, script) = (read("docker-compose.yml"), script());
    let in_compose = variables(&text);
    for name in &in_compose {
        assert!(env.contains_key(*name), "{name} is not in .env");
    }
    let in_script = variables(&script);
    for name in env.keys() {
        let (compose, script) = (in_compose.contains(&**name), in_script.contains(&**name));
        // The script's ports come in by the name of the service; and what only one of them starts.
        let by_name = name.ends_with("_PORT");
        let alone = name.starts_with("PROMETHEUS_") || name.starts_with("GRAFANA_");
        assert!(
            compose || by_name,
            "{name} is in .env but not in docker-compose.yml"
        );
        assert!(
            script || by_name || alone,
            "{name} is in .env but not in scripts/stack.d"
        );
    }
    let services = compose().services;
    for (service, image) in [
        ("kafka", "apache/kafka:${KAFKA_VERSION}"),
        ("cassandra", "cassandra:${CASSANDRA_VERSION}"),
        ("redis", "redis:${REDIS_VERSION}"),
    ] {
        assert_eq!(services[service].image, image);
    }
}

#[test]
fn kafka_has_the_same_settings_in_compose_and_in_the_script() {
    let shared = settings("deploy/kafka/server.properties");
    let kafka = &compose().services["kafka"];
    assert!(
        kafka
            .volumes
            .iter()
            .any(|volume| volume == "./deploy/kafka:/mnt/shared/config:ro"),
        "the image reads server.properties there"
    );
    let script = read("scripts/stack.d/servers.sh");
    let added = script
        .split("<<EOF")
        .nth(1)
        .expect("what the script appends");
    let added = added.split("EOF").next().expect("up to its end");
    let added = added.lines().filter_map(|line| line.split_once('='));
    let by_script: BTreeSet<_> = added.map(|(key, _)| key.to_owned()).collect();
    // Not of the broker's configuration.
    let by_compose = kafka
        .environment
        .keys()
        .filter(|key| *key != "KAFKA_HEAP_OPTS");
    let by_compose: BTreeSet<_> = by_compose
        .filter_map(|key| key.strip_prefix("KAFKA_"))
        .map(|key| key.to_lowercase().replace('_', "."))
        .collect();
    assert_eq!(by_script, by_compose, "both add the same keys");
    for key in &by_script {
        assert!(
            !shared.contains_key(key),
            "{key} would override what is shared"
        );
    }
}

#[test]
fn cassandra_has_the_same_settings_in_compose_and_in_the_script() {
    let cassandra = &compose().services["cassandra"];
    let in_compose = properties(&cassandra.environment["JVM_EXTRA_OPTS"]);
    let (script, options) = (
        read("scripts/stack.d/servers.sh"),
        read("deploy/cassandra/jvm.options"),
    );
    let mut in_script = properties(&script);
    in_script.extend(properties(&options));
    for (key, value) in &in_compose {
        if key.starts_with("cassandra.settings.") {
            // What a container must have otherwise: it is reached from outside.
            assert!(
                key.ends_with("rpc_address"),
                "{key} would override what is shared"
            );
        } else if let Some(file) = value.strip_prefix("file:///etc/quipu/") {
            assert_eq!(in_script[key], format!("$conf/{file}"));
        } else if *key != "cassandra.config.allow_system_properties" {
            assert_eq!(in_script.get(key), Some(value), "{key}");
        }
    }
    let node: BTreeMap<String, Value> =
        serde_saphyr::from_str(&read("deploy/cassandra/cassandra.yaml")).expect("YAML");
    // What the wait for a durable row is measured for (R11).
    assert_eq!(node["commitlog_sync"], "periodic");
    assert_eq!(node["commitlog_sync_period"], "1000ms");
    assert!(!node.contains_key("commitlog_compression"));
}

#[test]
fn the_roles_get_settings_that_exist_and_are_allowed() {
    let known: BTreeSet<_> = keys().iter().map(|key| variable(&key.path)).collect();
    let services = compose().services;
    for role in ["gateway", "ingest", "rollup-worker", "setup"] {
        let environment = &services[role].environment;
        assert!(!environment.is_empty(), "{role} has no settings");
        for name in environment.keys() {
            assert!(known.contains(name), "{role}: {name} is no setting");
        }
        let sources = Sources {
            environment: environment.clone().into_iter().collect(),
            ..Sources::default()
        };
        let config = sources.load().and_then(|config| config.check());
        config.unwrap_or_else(|error| panic!("{role}: {error}"));
    }
}

#[test]
fn every_mounted_file_exists_and_so_does_every_file_that_a_service_names() {
    let Compose { services, volumes } = compose();
    for (name, service) in &services {
        for volume in &service.volumes {
            let mut parts = volume.split(':');
            let (from, to) = (
                parts.next().expect("a source"),
                parts.next().expect("a target"),
            );
            let Some(from) = from.strip_prefix("./") else {
                assert!(
                    volumes.contains_key(from),
                    "{name}: there is no volume {from}"
                );
                continue;
            };
            assert!(root().join(from).exists(), "{name}: {from} does not exist");
            let values = service.environment.values().map(String::as_str);
            let words = values
                .chain([&*service.command])
                .flat_map(str::split_whitespace);
            for word in words {
                if let Some((_, file)) = word.split_once(&format!("{to}/")) {
                    let file = root().join(from).join(file);
                    assert!(file.exists(), "{name}: {word} is not in {from}");
                }
            }
        }
    }
}

#[test]
fn everything_is_published_on_loopback_only() {
    for (name, service) in compose().services {
        for port in service.ports {
            assert!(port.starts_with("127.0.0.1:${"), "{name} publishes {port}");
        }
    }
}

#[test]
fn services_wait_only_for_what_is_there_and_can_be_waited_for() {
    let services = compose().services;
    for (name, service) in &services {
        let (names, conditions) = match &service.depends_on {
            DependsOn::Nothing => continue,
            DependsOn::Names(names) => (names.clone(), None),
            DependsOn::Conditions(conditions) => {
                (conditions.keys().cloned().collect(), Some(conditions))
            }
        };
        for other in names {
            assert!(services.contains_key(&other), "{name} waits for {other}");
        }
        for (other, Condition { condition }) in conditions.into_iter().flatten() {
            match &**condition {
                "service_healthy" => assert!(services[other].healthcheck.is_some(), "{other}"),
                "service_completed_successfully" => assert_eq!(other, "setup"),
                condition => panic!("{name} waits for {other} to be {condition}"),
            }
        }
    }
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_workspace_and_runs_as_nobody_special() {
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split('"').nth(1).expect("channel = \"VERSION\"");
    let dockerfile = read("Dockerfile");
    assert!(
        dockerfile.contains(&format!("FROM rust:{version}-")),
        "{version}"
    );
    assert!(
        dockerfile.contains(&format!("RUSTUP_TOOLCHAIN={version}\n")),
        "{version}"
    );
    let user = dockerfile.lines().rfind(|line| line.starts_with("USER "));
    assert!(user.is_some_and(|user| user != "USER 0" && user != "USER root"));
}

#[test]
fn the_java_example_has_the_client_of_the_broker_that_the_stack_runs() {
    let version = &settings(".env")["KAFKA_VERSION"];
    let pom = read("examples/java/pom.xml");
    let client = pom
        .split("kafka-clients</artifactId>")
        .nth(1)
        .expect("a dependency");
    assert!(
        client
            .trim_start()
            .starts_with(&format!("<version>{version}</version>"))
    );
}
