//! The dashboard and the alerts: over metrics that exist, and in a language that Prometheus reads.

use crate::files::{read, root};
use serde_json::{Value, json};
use std::{collections::BTreeSet, env, fs, process::Command};

/// The names that are declared anywhere: `const NAME: &str = "quipu_...";`.
fn metrics() -> BTreeSet<String> {
    let mut directories = ["gateway", "ingest", "rollup-worker", "shared/adapters"]
        .map(|part| root().join(part).join("src"))
        .to_vec();
    let mut names = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                names.extend(declared_in(&fs::read_to_string(path).expect("text")));
            }
        }
    }
    assert!(names.len() > 20, "{names:?}");
    names
}

fn declared_in(source: &str) -> BTreeSet<String> {
    let values = source.split(": &str =").skip(1);
    let quoted = values.filter_map(|value| value.trim_start().strip_prefix('"'));
    quoted
        .filter(|text| text.starts_with("quipu_"))
        .map(|text| text.split('"').next().expect("a part").to_owned())
        .collect()
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
    let asked = asked
        .iter()
        .map(|name| name.trim_end_matches("_bucket").to_owned());
    let unknown: BTreeSet<_> = asked.filter(|name| !metrics.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_metric_of_a_role_is_on_the_dashboard() {
    let asked = names_in(&queries().join("\n"));
    let shown = |name: &String| asked.contains(name) || asked.contains(&format!("{name}_bucket"));
    let missing: BTreeSet<_> = metrics().into_iter().filter(|name| !shown(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

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
