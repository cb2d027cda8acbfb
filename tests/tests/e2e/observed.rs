//! The metrics: declared in one place, documented, without labels that grow; the dashboard and the
//! alerts: over metrics that exist, and in a language that Prometheus reads.

use crate::{
    files::{read, root},
    http::{Api, counter_path},
    process::Place,
};
use quipu_adapters::metrics::{Kind, Metric, all};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    process::Command,
    thread::sleep,
    time::Duration,
};

fn metrics() -> BTreeSet<String> {
    let names: Vec<_> = all().map(|metric| metric.name.to_owned()).collect();
    let distinct: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(distinct.len(), names.len(), "each is declared once");
    distinct
}

/// The name of a metric in that of one of its series.
fn metric_of(series: &str) -> &str {
    let parts = ["_bucket", "_count", "_sum"];
    let histogram = parts.iter().find_map(|part| series.strip_suffix(part));
    histogram.unwrap_or(series)
}

/// Every word `quipu_...` of a text.
fn names_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("quipu_"))
        .map(str::to_owned)
        .collect()
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("dashboards/quipu.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .map(|target| target["expr"].as_str().expect("a query"));
    let queries: Vec<_> = queries.map(str::to_owned).collect();
    assert!(queries.len() > 20, "{queries:?}");
    queries
}

#[test]
fn the_dashboard_and_the_alerts_ask_only_for_metrics_that_exist() {
    let metrics = metrics();
    let asked = names_in(&(queries().join("\n") + &read("deploy/prometheus/alerts.yml")));
    let asked = asked.iter().map(|name| metric_of(name).to_owned());
    let unknown: BTreeSet<_> = asked.filter(|name| !metrics.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_metric_of_a_role_is_on_the_dashboard() {
    let asked = names_in(&queries().join("\n"));
    let shown: BTreeSet<_> = asked.iter().map(|name| metric_of(name)).collect();
    let metrics = metrics().into_iter();
    let missing: BTreeSet<_> = metrics
        .filter(|name| !shown.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What the docs must say of each metric: its kind and its labels.
fn declared() -> BTreeMap<String, (&'static str, BTreeSet<String>)> {
    let row = |metric: &Metric| {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels = metric.labels.iter().map(|label| (*label).to_owned());
        (metric.name.to_owned(), (kind, labels.collect()))
    };
    all().map(row).collect()
}

/// The rows of the docs' tables whose first cell is in backticks and passes.
fn rows(text: &str, passes: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
    let rows = rows.filter(|row: &Vec<&str>| passes(row[0].trim_matches('`')));
    rows.collect()
}

#[test]
fn every_metric_is_documented_with_its_kind_and_its_labels() {
    let text = read("docs/metrics.md");
    let rows = rows(&text, |name| name.starts_with("quipu_"));
    let quoted = |cell: &str| -> BTreeSet<String> {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect()
    };
    let documented = rows.iter().map(|row| {
        assert_eq!(row.len(), 4, "{row:?}");
        assert!(row[3].len() > 10, "{row:?} says nothing");
        (
            row[0].trim_matches('`').to_owned(),
            (row[1], quoted(row[2])),
        )
    });
    let documented: BTreeMap<_, _> = documented.collect();
    assert_eq!(rows.len(), documented.len(), "each metric has one row");
    assert_eq!(documented, declared());
}

#[test]
fn every_label_is_one_of_those_whose_values_the_docs_list() {
    let text = read("docs/metrics.md");
    let (_, labels) = text.split_once("## Labels").expect("a section on labels");
    let listed = rows(labels, |_| true);
    let listed: BTreeSet<_> = listed.iter().map(|row| row[0].trim_matches('`')).collect();
    let used: BTreeSet<_> = all().flat_map(|metric| metric.labels).copied().collect();
    assert_eq!(listed, used);
}

#[test]
fn names_end_in_their_units() {
    for metric in all() {
        let total = metric.name.ends_with("_total");
        assert_eq!(total, metric.kind == Kind::Counter, "{}", metric.name);
        let help = metric.help.trim();
        assert!(
            help.len() > 10 && help.ends_with('.'),
            "{}: {help}",
            metric.name
        );
    }
}

/// The labels of a series: `name{label="value",...} number`.
fn labels_of(series: &str) -> BTreeSet<&str> {
    let labels = series.split_once('{').map_or("", |(_, rest)| rest);
    let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
    let names = labels
        .split("\",")
        .filter_map(|label| label.split_once('='));
    names.map(|(name, _)| name).collect()
}

#[test]
fn a_server_shows_only_what_is_declared_and_never_the_name_of_a_counter() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    api.put_namespace("observed-namespace", "1s");
    for _ in 0..3 {
        let path = counter_path("observed-namespace", "observed-counter") + ":add";
        let (status, body) = api.post(&path, &json!({"delta": 1})).expect("an answer");
        assert_eq!(status, 200, "{body}");
    }
    let declared = declared();
    let mut shown = BTreeSet::new();
    // Rollups and the second's gauges come a little later.
    for _ in 0..150 {
        let (_, text) = api.get("/metrics").expect("an answer");
        let text = text.as_str().expect("text");
        assert!(!text.contains("observed"), "{text}");
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(described) = line.strip_prefix("# HELP ") {
                let (name, help) = described.split_once(' ').expect("a text");
                assert!(help.len() > 10, "{line}");
                shown.insert(name.to_owned());
            } else if !line.starts_with('#') {
                let series = line.split(['{', ' ']).next().expect("a name");
                let (_, labels) = &declared[metric_of(series)];
                let unknown = labels_of(line);
                let mut unknown = unknown.iter().filter(|label| **label != "le");
                assert!(unknown.all(|label| labels.contains(*label)), "{line}");
            }
        }
        if EXPECTED.iter().all(|name| shown.contains(*name)) {
            return;
        }
        sleep(Duration::from_millis(200));
    }
    panic!("only {shown:?} of {EXPECTED:?}");
}

/// What a server that counts shows within seconds.
const EXPECTED: [&str; 12] = [
    "quipu_gateway_requests_total",
    "quipu_ingest_events_accepted_total",
    "quipu_ingest_events_duplicate_total",
    "quipu_ingest_lag_records",
    "quipu_ingest_lag_seconds",
    "quipu_ingest_watermark_age_seconds",
    "quipu_rollup_lag_seconds",
    "quipu_rollup_lag_signals",
    "quipu_rollup_oldest_pending_seconds",
    "quipu_event_store_seconds",
    "quipu_event_store_slice_bytes",
    "quipu_rollup_store_seconds",
];

/// Runs promtool, and fails with what it says. A machine without it is told so; in CI it must be there.
fn promtool(arguments: &[&str]) {
    match Command::new("promtool")
        .args(arguments)
        .current_dir(root())
        .output()
    {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&said)
            );
        }
        Err(error) => {
            let advice = "scripts/install-promtool installs it";
            assert!(env::var_os("CI").is_none(), "promtool: {error}; {advice}");
            eprintln!("not checked, since there is no promtool: {advice}");
        }
    }
}

#[test]
fn the_alerts_fire_when_they_should_and_only_then() {
    promtool(&["check", "config", "deploy/prometheus/prometheus.yml"]);
    promtool(&["test", "rules", "deploy/prometheus/alerts.test.yml"]);
}

#[test]
fn prometheus_reads_every_query_of_the_dashboard() {
    let rules = queries().into_iter().enumerate().map(|(number, query)| {
        let query = query.replace("$__rate_interval", "1m");
        json!({"record": format!("query_{number}"), "expr": query})
    });
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules.collect::<Vec<_>>()}]});
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("rules.yml");
    // JSON is YAML.
    fs::write(&file, rules.to_string()).expect("it can be written");
    promtool(&["check", "rules", file.to_str().expect("a plain path")]);
}
