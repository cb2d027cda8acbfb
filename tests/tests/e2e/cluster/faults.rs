//! The quick part of the fault suite. `scripts/faults` runs all of it.

use super::{binary::binary, installation::Addresses, turns::Turn};
use quipu_certify::Volume;
use quipu_tests::faults::{self, Options};

#[test]
fn nothing_is_lost_or_counted_twice_while_each_role_dies_under_every_kind_of_load() {
    let _turn = Turn::take();
    let Addresses {
        kafka,
        cassandra,
        redis,
    } = Addresses::shared();
    let addresses = faults::Addresses {
        kafka,
        cassandra,
        redis,
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let options = Options {
        binary: binary().to_owned(),
        volume: Volume {
            rate: 200,
            events: 3_000,
        },
        counters: 20,
        directory: place.path().to_owned(),
    };
    let quick = faults::all().into_iter().find(|case| case.name == "quick");
    let quick = quick.expect("there is a quick one");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let done = runtime.block_on(faults::run(&quick, 1, &options, (&addresses, None)));
    let done = done.expect("there is a verdict");
    eprintln!("{}", done.summary());
    assert!(done.survived, "{:#?}", done.first_violations);
    assert!(done.tally.acknowledged > 500, "{:?}", done.tally);
    assert!(done.tally.poison > 0 && done.tally.dead_letters.contains_key("malformed"));
    assert_eq!(done.injected.len(), 3);
}

#[test]
fn a_running_installation_is_certified_while_an_operators_command_breaks_something() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    let place = tempfile::tempdir().expect("a temporary directory");
    let (report, broken) = (place.path().join("report"), place.path().join("broken"));
    let fault = format!("touch {}", broken.display());
    let of = |path: &std::path::Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (report_text, server) = (of(&report), cluster.gateway.http.clone());
    let mut arguments = vec!["admin", "certify", "--server", &server, "--json"];
    arguments.extend(["--events", "1000", "--rate", "200", "--counters", "10"]);
    arguments.extend(["--accept-limit", "2s", "--every", "1s"]);
    arguments.extend(["--fault", &fault, "--report", &report_text]);
    let (code, said) = cluster.installation.run(&arguments);
    assert_eq!(code, 0, "{said}");
    assert!(broken.exists(), "the fault was not injected");
    let saved = std::fs::read_to_string(report.join("report.json")).expect("a report");
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    let case = &saved["cases"][0];
    assert_eq!(case["survived"], true, "{case}");
    assert_eq!(case["injected"][0]["what"], fault);
    assert!(case["tally"]["acknowledged"].as_u64() > Some(500), "{case}");
    arguments.extend(["--fault", "exit 7"]);
    let (code, said) = cluster.installation.run(&arguments);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("exit 7") && said.contains("exit status: 7"),
        "{said}"
    );
}
