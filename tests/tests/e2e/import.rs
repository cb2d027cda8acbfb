//! `quipu import` of real rows, against the real server, with kills of both.

use crate::{
    http::Api,
    process::{Place, Server, copy_of_flights, ended, quipu, unpacked},
};
use quipu_adapters::clock::Clock;
use std::{
    fmt::Write as _,
    fs::{self, File},
    iter,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

pub(crate) const TEMPLATES: [&str; 4] = [
    "--counter",
    "carrier/{carrier}",
    "--counter",
    "origin/{origin}",
];

/// The true counts, of the README beside the data.
const TRUE_COUNTS: [(&str, i128); 19] = [
    ("origin/EWR", 9_893),
    ("origin/JFK", 9_161),
    ("origin/LGA", 7_950),
    ("carrier/UA", 4_637),
    ("carrier/B6", 4_427),
    ("carrier/EV", 4_171),
    ("carrier/DL", 3_690),
    ("carrier/AA", 2_794),
    ("carrier/MQ", 2_271),
    ("carrier/US", 1_602),
    ("carrier/9E", 1_573),
    ("carrier/WN", 996),
    ("carrier/FL", 328),
    ("carrier/VX", 316),
    ("carrier/AS", 62),
    ("carrier/F9", 59),
    ("carrier/YV", 46),
    ("carrier/HA", 31),
    ("carrier/OO", 1),
];

fn import(url: &str, file: &Path, more: &[&str]) -> Command {
    let file = file.to_str().expect("a path in UTF-8");
    let mut command = quipu(&["import", file, "--namespace", "january", "--server", url]);
    command.args(more);
    command
}

/// Everything that was sent before this call is counted once, and nothing else.
pub(crate) fn assert_true_counts(api: &Api) {
    let now = Clock::system().now().get();
    for (counter, expected) in TRUE_COUNTS {
        let count = api.count_through("january", counter, now);
        assert_eq!(count, expected, "{counter}");
    }
}

/// Runs an import and kills it, after a longer time in each round, until it ends. Between two
/// rounds something may happen. Returns how often it was killed.
fn killed_until_it_ends(url: &str, file: &Path, mut between: impl FnMut()) -> u32 {
    for kills in 0.. {
        let mut importer = import(url, file, &TEMPLATES)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        sleep(Duration::from_millis(20 + 15 * u64::from(kills)));
        if let Some(status) = importer.try_wait().expect("the process is ours") {
            assert_eq!(status.code(), Some(0), "after {kills} kills");
            return kills;
        }
        importer.kill().expect("the process is ours");
        importer.wait().expect("the process is ours");
        between();
    }
    unreachable!("the loop has no end")
}

fn assert_imported_before(url: &str, file: &Path) {
    let (code, text) = ended(&import(url, file, &TEMPLATES).output().expect("it runs"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("was imported before"), "{text}");
    assert!(text.contains("27004 rows, 54008 adds"), "{text}");
    assert!(text.contains("nothing was sent now"), "{text}");
}

#[test]
fn an_import_that_is_killed_and_resumed_counts_every_flight_once_and_then_no_more() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    api.put_namespace("january", "5s");
    let file = copy_of_flights(&place);
    let kills = killed_until_it_ends(&server.grpc, &file, || {});
    eprintln!("killed {kills} times");
    assert!(kills > 2, "it ended before it could be killed");
    assert_true_counts(&api);
    assert_imported_before(&server.grpc, &file);
    assert_true_counts(&api);
    place.assert_no_panic();
}

#[test]
fn an_import_that_is_resumed_after_the_accept_limit_counts_every_flight_once() {
    let place = Place::new();
    let server = place.start();
    let api = Api::new(&server.http);
    api.put_namespace("january", "1s");
    let file = copy_of_flights(&place);
    let mut pauses = 0;
    killed_until_it_ends(&server.grpc, &file, || {
        pauses += 1;
        // Not each time, or a slow machine would wait for very long.
        if pauses % 3 == 0 {
            sleep(Duration::from_millis(1_300));
        }
    });
    eprintln!("killed {pauses} times");
    assert!(pauses > 2, "it ended before it could be killed");
    assert_true_counts(&api);
    assert_imported_before(&server.grpc, &file);
    place.assert_no_panic();
}

#[test]
fn an_import_goes_on_when_the_server_is_killed_and_comes_back() {
    let place = Place::new();
    let (http, grpc) = (lasting_address(), lasting_address());
    let mut server = place.start_at(&http, &grpc);
    Api::new(&server.http).put_namespace("january", "1s");
    let file = copy_of_flights(&place);
    let log = File::create(place.beside("import")).expect("a file");
    let mut importer = import(&server.grpc, &file, &TEMPLATES)
        .arg("-v")
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("the binary starts");
    let mut kills = 0;
    let status = loop {
        sleep(Duration::from_millis(150));
        if let Some(status) = importer.try_wait().expect("the process is ours") {
            break status;
        }
        // Then it may end, also on a machine that is slower than these pauses.
        if kills < 6 {
            kills += 1;
            server.running.kill();
            // Each other time until what was sent last is too old.
            sleep(Duration::from_millis(100 + 1_200 * (kills % 2)));
            server = place.start_at(&http, &grpc);
        }
    };
    let said = fs::read_to_string(place.beside("import")).expect("a file");
    assert_eq!(status.code(), Some(0), "after {kills} kills: {said}");
    eprintln!("the server was killed {kills} times\n{said}");
    assert!(kills > 1, "it ended before the server could be killed");
    let api = Api::new(&server.http);
    assert_true_counts(&api);
    assert_imported_before(&server.grpc, &file);
    place.assert_no_panic();
}

/// A free port below those that systems hand out, so that no other process gets it while the server
/// is away.
fn lasting_address() -> String {
    let candidates = iter::repeat_with(|| format!("127.0.0.1:{}", fastrand::u16(15_000..30_000)));
    let mut free = candidates.filter(|address| TcpListener::bind(address).is_ok());
    free.next().expect("the candidates have no end")
}

/// The origin and the distance of each row of CSV.
fn as_ndjson(csv: &str) -> String {
    let mut lines = csv.lines();
    let columns: Vec<_> = lines.next().expect("a header").split(',').collect();
    let index = |name| {
        columns
            .iter()
            .position(|column| *column == name)
            .expect("it is there")
    };
    let (origin, distance) = (index("origin"), index("distance"));
    let mut ndjson = String::new();
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        let (origin, distance) = (fields[origin], fields[distance]);
        writeln!(
            ndjson,
            r#"{{"origin": "{origin}", "distance": {distance}}}"#
        )
        .expect("text grows");
    }
    ndjson
}

#[test]
fn deltas_ndjson_and_standard_input_are_counted_as_well() {
    let place = Place::new();
    let Server {
        http,
        grpc,
        running,
    } = place.start();
    let api = Api::new(&http);
    api.put_namespace("january", "5s");
    let file = copy_of_flights(&place);
    let miles = ["--counter", "miles", "--delta", "distance", "--json"];
    let (code, text) = ended(&import(&grpc, &file, &miles).output().expect("it runs"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(r#""accepted":27004"#), "{text}");

    let rows = place.beside("flights.ndjson");
    fs::write(&rows, as_ndjson(&unpacked(&file))).expect("a file");
    let by_origin = ["--counter", "ndjson/{origin}", "--counter", "ndjson"];
    let (code, text) = ended(&import(&grpc, &rows, &by_origin).output().expect("it runs"));
    assert_eq!(code, 0, "{text}");

    for (format, path, counter) in [
        ("csv", &file, "stdin-csv"),
        ("ndjson", &rows, "stdin-ndjson"),
    ] {
        let arguments = [
            "--counter",
            counter,
            "--delta",
            "distance",
            "--format",
            format,
        ];
        let mut command = import(&grpc, Path::new("-"), &arguments);
        command.stdin(File::open(path).expect("a file"));
        let (code, text) = ended(&command.output().expect("it runs"));
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("cannot be resumed"), "{text}");
    }
    let now = Clock::system().now().get();
    for (counter, expected) in [
        ("miles", 27_188_805),
        ("ndjson", 27_004),
        ("ndjson/EWR", 9_893),
        ("ndjson/JFK", 9_161),
        ("ndjson/LGA", 7_950),
        ("stdin-csv", 27_188_805),
        ("stdin-ndjson", 27_188_805),
    ] {
        assert_eq!(
            api.count_through("january", counter, now),
            expected,
            "{counter}"
        );
    }
    drop(running);
    place.assert_no_panic();
}
