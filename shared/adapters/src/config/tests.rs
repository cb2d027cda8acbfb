use super::*;
use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

fn file(text: &str) -> (tempfile::TempDir, Option<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quipu.toml");
    fs::write(&path, text).unwrap();
    (directory, Some(path))
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn loaded(text: &str) -> Result<Config, String> {
    let (_directory, file) = file(text);
    let sources = Sources {
        file,
        ..Sources::default()
    };
    sources.load().map_err(|error| error.to_string())
}

fn of_environment(pairs: &[(&str, &str)]) -> Result<Config, String> {
    let sources = Sources {
        environment: environment(pairs),
        ..Sources::default()
    };
    sources.load().map_err(|error| error.to_string())
}

#[test]
fn without_any_source_all_is_on_loopback_and_valid() {
    let config = Sources::default().load().unwrap();
    assert_eq!(config, Config::default());
    config.check().unwrap();
    assert_eq!(config.kafka.brokers, ["127.0.0.1:9092"]);
    assert_eq!(config.cassandra.contact_points, ["127.0.0.1:9042"]);
    assert_eq!(config.redis.address, "127.0.0.1:6379");
    for address in [config.gateway.http, config.gateway.grpc, config.ingest.http] {
        assert!(address.starts_with("127.0.0.1:"), "{address}");
    }
}

#[test]
fn flags_go_before_the_environment_before_the_file_before_the_defaults() {
    let (_directory, file) = file("[gateway]\nhttp = \"a:1\"\ngrpc = \"a:2\"\ndrain = \"9s\"");
    let sources = Sources {
        flags: vec![("gateway.http", "c:1".to_owned())],
        environment: environment(&[("QUIPU_GATEWAY_HTTP", "b:1"), ("QUIPU_GATEWAY_GRPC", "b:2")]),
        file,
    };
    let gateway = sources.load().unwrap().gateway;
    assert_eq!(gateway.http, "c:1");
    assert_eq!(gateway.grpc, "b:2");
    assert_eq!(gateway.drain, Duration::from_secs(9));
    assert_eq!(gateway.max_requests, GatewaySection::default().max_requests);
}

#[test]
fn variables_are_read_as_their_keys_are() {
    let config = of_environment(&[
        ("QUIPU_KAFKA_BROKERS", "a:1, b:2"),
        ("QUIPU_KAFKA_TOPICS_DEAD_LETTERS", "dlq"),
        (
            "QUIPU_KAFKA_PROPERTIES",
            "security.protocol=SASL_SSL, sasl.username=me",
        ),
        ("QUIPU_CASSANDRA_KEYSPACE", "1234"),
        ("QUIPU_CASSANDRA_DATACENTERS", "east=3,west=2"),
        ("QUIPU_CASSANDRA_CONSISTENCY", "LOCAL_QUORUM"),
        ("QUIPU_REDIS_REPLICAS", "b:6379, c:6379"),
        ("QUIPU_REDIS_TLS", "true"),
        ("QUIPU_REDIS_TTL", "2h"),
        ("QUIPU_REDIS_PASSWORD_FILE", "/run/secrets/redis"),
        ("QUIPU_INGEST_IN_FLIGHT", "7"),
        ("QUIPU_TELEMETRY_LOG_FORMAT", "json"),
        ("UNRELATED", "x"),
        ("QUIPU_LOG", "debug"),
    ])
    .unwrap();
    assert_eq!(config.kafka.brokers, ["a:1", "b:2"]);
    assert_eq!(config.kafka.topics.dead_letters, "dlq");
    assert_eq!(config.kafka.properties["security.protocol"], "SASL_SSL");
    assert_eq!(config.cassandra.keyspace, "1234");
    assert_eq!(config.cassandra.datacenters["west"], 2);
    assert_eq!(config.cassandra.consistency, Consistency::LocalQuorum);
    assert_eq!(config.redis.replicas, ["b:6379", "c:6379"]);
    assert!(config.redis.tls);
    assert_eq!(config.redis.ttl, Duration::from_hours(2));
    assert_eq!(
        config.redis.password_file,
        Some("/run/secrets/redis".into())
    );
    assert_eq!(config.ingest.in_flight, 7);
    assert_eq!(config.telemetry.log_format, LogFormat::Json);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_and_its_file() {
    for (text, key, nearest) in [
        ("[kafka]\nbroker = []", "kafka.broker", "kafka.brokers?"),
        (
            "[kafka.topics]\ndeadletters = \"x\"",
            "kafka.topics.deadletters",
            "kafka.topics.dead_letters?",
        ),
        ("[ingest]\nlingr = \"5s\"", "ingest.lingr", "ingest.linger?"),
        (
            "[redis]\npassword = \"x\"",
            "redis.password",
            "redis.password_file?",
        ),
    ] {
        let error = loaded(text).unwrap_err();
        assert!(error.contains(&format!("no key {key};")), "{error}");
        assert!(error.ends_with(nearest), "{error}");
        assert!(error.contains("quipu.toml"), "{error}");
    }
}

#[test]
fn an_unknown_variable_is_refused_unless_kubernetes_made_it() {
    let error = of_environment(&[("QUIPU_KAFKA_BROKER", "a:1")]).unwrap_err();
    assert!(error.contains("QUIPU_KAFKA_BROKER;"), "{error}");
    assert!(error.ends_with("QUIPU_KAFKA_BROKERS?"), "{error}");
    let made = [
        ("QUIPU_GATEWAY_PORT", "tcp://10.0.0.1:7070"),
        ("QUIPU_GATEWAY_SERVICE_HOST", "10.0.0.1"),
        ("QUIPU_GATEWAY_SERVICE_PORT_HTTP", "7070"),
        ("QUIPU_GATEWAY_PORT_7070_TCP_ADDR", "10.0.0.1"),
    ];
    assert_eq!(of_environment(&made), Ok(Config::default()));
}

#[test]
fn a_wrong_value_is_named_with_its_key_and_where_it_stands() {
    for (text, key) in [
        ("[redis]\nttl = \"soon\"", "redis.ttl"),
        ("[redis]\nttl = 5", "redis.ttl"),
        ("[ingest]\nbatch_rows = \"many\"", "ingest.batch_rows"),
        ("[telemetry]\nlog_format = \"xml\"", "telemetry.log_format"),
        ("kafka = 1", "kafka"),
    ] {
        let error = loaded(text).unwrap_err();
        assert!(error.starts_with(key), "{error}");
        assert!(error.contains("quipu.toml"), "{error}");
    }
    for (name, value) in [
        ("QUIPU_INGEST_BATCH_ROWS", "many"),
        ("QUIPU_REDIS_TLS", "si"),
        ("QUIPU_REDIS_TTL", "soon"),
        ("QUIPU_KAFKA_PROPERTIES", "a"),
    ] {
        let error = of_environment(&[(name, value)]).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
    let error = loaded("[redis\n").unwrap_err();
    assert!(
        error.contains("is not TOML") && error.contains("line 1"),
        "{error}"
    );
}

#[test]
fn a_value_out_of_its_range_is_refused_by_name() {
    for (text, key) in [
        ("[kafka]\nbrokers = []", "kafka.brokers"),
        (
            "[kafka]\nmin_insync_replicas = 2",
            "kafka.min_insync_replicas",
        ),
        (
            "[kafka]\nsasl_password_file = \"/nowhere\"",
            "kafka.sasl_password_file",
        ),
        ("[cassandra]\nusername = \"me\"", "cassandra.password_file"),
        (
            "[cassandra]\nconsistency = \"LOCAL_QUORUM\"",
            "cassandra.local_datacenter",
        ),
        (
            "[cassandra]\ntls_ca_file = \"/nowhere\"",
            "cassandra.tls_ca_file",
        ),
        ("[cassandra]\nslice = \"0s\"", "cassandra.slice"),
        (
            "[redis]\npassword_file = \"/nowhere\"",
            "redis.password_file",
        ),
        ("[redis]\nreplicas = [\"b\"]", "redis.replicas"),
        ("[gateway]\nappend_guard = \"0s\"", "gateway.append_guard"),
        ("[ingest]\nin_flight = 0", "ingest.in_flight"),
        ("[rollup]\nbatch_least = 9999", "rollup.batch_least"),
    ] {
        let error = loaded(text).unwrap().check().unwrap_err().to_string();
        assert!(error.starts_with(key), "{error}");
    }
}

#[test]
fn what_is_printed_reads_back_and_holds_no_secret() {
    let text = "[kafka]\nbrokers = [\"a:1\"]\n[kafka.properties]\n\
                \"security.protocol\" = \"SASL_SSL\"\n\"ssl.key.password\" = \"hunter2\"";
    let config = loaded(text).unwrap();
    let printed = config.to_toml();
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(
        printed.contains("[redacted]") && printed.contains("SASL_SSL"),
        "{printed}"
    );
    let mut redacted = config;
    redacted.kafka.redact();
    assert_eq!(loaded(&printed).unwrap(), redacted);
}

#[test]
fn a_secret_is_a_file_without_its_line_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    fs::write(&path, "hunter2\r\n").unwrap();
    let kafka = KafkaSection {
        sasl_password_file: Some(path.clone()),
        ..KafkaSection::default()
    };
    assert_eq!(kafka.properties().unwrap()["sasl.password"], "hunter2");
    fs::write(&path, "\n").unwrap();
    assert!(
        kafka
            .properties()
            .unwrap_err()
            .to_string()
            .contains("is empty")
    );
}

#[test]
fn each_key_has_a_variable_of_its_own() {
    let keys = keys();
    let variables: BTreeSet<_> = keys.iter().map(|key| variable(&key.path)).collect();
    assert_eq!(variables.len(), keys.len());
    assert!(variables.contains("QUIPU_KAFKA_TOPICS_DEAD_LETTERS"));
    assert!(variables.contains("QUIPU_REDIS_PASSWORD_FILE"));
}

const PAGE: &str = include_str!("../../../../docs/configuration.md");

#[test]
fn the_page_on_configuration_has_every_key_with_its_default_and_no_other() {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    let documented: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert!(!cells[2].is_empty(), "{row}");
            (
                cells[0].trim_matches('`').to_owned(),
                cells[1].trim_matches('`').to_owned(),
            )
        })
        .collect();
    let known: Vec<_> = keys()
        .iter()
        .map(|key| (key.path.clone(), key.shown_default()))
        .collect();
    let sorted = |mut list: Vec<(String, String)>| {
        list.sort();
        list
    };
    assert_eq!(sorted(documented), sorted(known));
}

#[test]
fn the_example_on_the_page_is_a_configuration() {
    let (_, example) = PAGE.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    loaded(example).unwrap();
}
