//! `import`.

use crate::{
    ended, flights, quipu,
    server::{Fate, Server, failure, unavailable},
};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tonic::Code;

/// The flights in a directory of their own, where journals may lie.
fn copy_of_flights() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("flights.csv.gz");
    fs::copy(flights(), &file).unwrap();
    (directory, file)
}

fn import(server: &Server, file: &Path, more: &[&str]) -> Command {
    let file = file.to_str().unwrap();
    quipu(
        &server.url,
        &[&["import", file, "--namespace", "demo"], more].concat(),
    )
}

const TWO_COUNTERS: [&str; 4] = [
    "--counter",
    "carrier/{carrier}",
    "--counter",
    "origin/{origin}",
];

fn check_flights(server: &Server) {
    let (counts, events) = server.counts();
    assert_eq!(events, 2 * 27_004);
    for (counter, count) in [
        ("carrier/UA", 4_637),
        ("carrier/OO", 1),
        ("carrier/9E", 1_573),
        ("origin/EWR", 9_893),
        ("origin/JFK", 9_161),
        ("origin/LGA", 7_950),
    ] {
        assert_eq!(counts[counter], count, "{counter}");
    }
}

#[test]
fn every_flight_is_counted_once_and_a_second_import_sends_nothing() {
    let (_directory, file) = copy_of_flights();
    let server = Server::start(None, None);
    let (code, text) = ended(&import(&server, &file, &TWO_COUNTERS).output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("27004 rows, 54008 adds: 54008 accepted"),
        "{text}"
    );
    check_flights(&server);
    let calls = server.calls();
    let (code, text) = ended(&import(&server, &file, &TWO_COUNTERS).output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("nothing was sent now"), "{text}");
    assert_eq!(server.calls(), calls);
    let (code, text) = ended(
        &import(&server, &file, &["--counter", "all"])
            .output()
            .unwrap(),
    );
    assert_eq!(code, 2, "{text}");
}

#[test]
fn the_file_itself_is_never_written_to() {
    let (_directory, file) = copy_of_flights();
    let before = fs::read(&file).unwrap();
    let server = Server::start(None, None);
    for option in ["--journal", "--rejected"] {
        let arguments = ["--counter", "all", option, file.to_str().unwrap()];
        let (code, text) = ended(&import(&server, &file, &arguments).output().unwrap());
        assert_eq!(code, 2, "{text}");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn deltas_add_up_and_rows_without_an_integer_are_rejected() {
    let (directory, file) = copy_of_flights();
    let server = Server::start(None, None);
    let miles = ["--counter", "miles", "--delta", "distance"];
    let journal = directory.path().join("miles");
    let with_journal = [&miles[..], &["--journal", journal.to_str().unwrap()]].concat();
    let (code, text) = ended(&import(&server, &file, &with_journal).output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.counts().0["miles"], 27_188_805);

    let delay = ["--counter", "delay", "--delta", "dep_delay", "--json"];
    let (code, text) = ended(&import(&server, &file, &delay).output().unwrap());
    assert_eq!(code, 6, "{text}");
    assert!(text.contains(r#""rejected_rows":521"#), "{text}");
    assert_eq!(server.counts().0["delay"], 265_801);
    let rejected = fs::read_to_string(directory.path().join("flights.csv.gz.rejected")).unwrap();
    assert_eq!(rejected.lines().count(), 521);
    let first: Vec<_> = rejected.lines().next().unwrap().split('\t').collect();
    assert_eq!(first[1], "the delta \"NA\" is not an integer of 64 bits");
    assert!(first[2].starts_with("2013,1,"), "{first:?}");
}

#[test]
fn every_mix_of_failures_of_calls_still_counts_every_add_once() {
    let (_directory, file) = copy_of_flights();
    let calls = |call: usize| match call % 7 {
        1 => Fate::Fail(unavailable()),
        4 => Fate::ApplyAndFail(failure(Code::Internal, "BROKEN")),
        _ => Fate::Honest,
    };
    let server = Server::start(Some(Box::new(calls)), None);
    let (code, text) = ended(&import(&server, &file, &TWO_COUNTERS).output().unwrap());
    assert_eq!(code, 0, "{text}");
    check_flights(&server);
}

#[test]
fn every_mix_of_failures_of_items_still_counts_every_add_once() {
    let (_directory, file) = copy_of_flights();
    // LATE only where nothing was applied before: a server never says it otherwise.
    let items = |item: usize| match item % 11 {
        2 if item < 6_000 => Fate::Fail(failure(Code::FailedPrecondition, "LATE")),
        5 if item < 6_000 => Fate::Fail(unavailable()),
        _ => Fate::Honest,
    };
    let server = Server::start(None, Some(Box::new(items)));
    let (code, text) = ended(&import(&server, &file, &TWO_COUNTERS).output().unwrap());
    assert_eq!(code, 0, "{text}");
    check_flights(&server);
}

/// Kills an import again and again, each time a little later, and lets it end at last.
fn killed_and_resumed(server: &Server, file: &Path, pause: Duration) -> u64 {
    for kills in 0..200 {
        let mut command = import(server, file, &TWO_COUNTERS);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_millis(40 + 100 * kills);
        while Instant::now() < end {
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0));
                return kills;
            }
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        sleep(pause);
    }
    panic!("the import never ended");
}

#[test]
fn an_import_that_is_killed_and_resumed_within_the_accept_limit_counts_once() {
    let (_directory, file) = copy_of_flights();
    let slow = |call: usize| {
        if call % 5 == 3 {
            Fate::ApplyAndFail(unavailable())
        } else {
            Fate::Honest
        }
    };
    let server = Server::start(Some(Box::new(slow)), None);
    assert!(killed_and_resumed(&server, &file, Duration::ZERO) > 1);
    check_flights(&server);
}

#[test]
fn an_import_that_is_resumed_after_the_accept_limit_counts_once() {
    let (_directory, file) = copy_of_flights();
    let slow = |call: usize| match call % 5 {
        2 => Fate::Fail(unavailable()),
        3 => Fate::ApplyAndFail(unavailable()),
        _ => Fate::Honest,
    };
    let server = Server::start(Some(Box::new(slow)), None);
    server.state.lock().unwrap().accept_limit = Some(Duration::from_millis(500));
    assert!(killed_and_resumed(&server, &file, Duration::from_millis(550)) > 1);
    check_flights(&server);
}

#[test]
fn an_unknown_outcome_stops_the_import_and_names_the_lines() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    fs::write(&file, "a\n1\n2\n3\n4\n5\n").unwrap();
    let script = |item| match item {
        1 | 3 => Fate::Fail(failure(Code::FailedPrecondition, "OUTCOME_UNKNOWN")),
        _ => Fate::Honest,
    };
    let server = Server::start(None, Some(Box::new(script)));
    let (code, text) = ended(
        &import(&server, &file, &["--counter", "all"])
            .output()
            .unwrap(),
    );
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("line 3, 5:"), "{text}");
    assert_eq!(server.counts().1, 3);
}

#[test]
fn a_server_that_stays_away_stops_the_import_and_a_later_run_ends_it() {
    let (_directory, file) = copy_of_flights();
    let script = |call| {
        if call < 9 {
            Fate::Honest
        } else {
            Fate::Fail(unavailable())
        }
    };
    let server = Server::start(Some(Box::new(script)), None);
    let impatient = [&TWO_COUNTERS[..], &["--timeout", "500ms"]].concat();
    let (code, text) = ended(&import(&server, &file, &impatient).output().unwrap());
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("again to go on"), "{text}");
    server.state.lock().unwrap().set_call_script(None);
    let (code, text) = ended(&import(&server, &file, &TWO_COUNTERS).output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains(" 0 by an earlier run"), "{text}");
    check_flights(&server);
}

#[test]
fn an_unknown_namespace_stops_the_import_as_refused() {
    let (_directory, file) = copy_of_flights();
    let script = |_| Fate::Fail(failure(Code::NotFound, "UNKNOWN_NAMESPACE"));
    let server = Server::start(None, Some(Box::new(script)));
    let (code, text) = ended(
        &import(&server, &file, &["--counter", "all"])
            .output()
            .unwrap(),
    );
    assert_eq!(code, 3, "{text}");
}

#[test]
fn rejected_rows_are_told_once_also_when_the_import_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    fs::write(&file, "a,n\nx,1\nragged\n,2\ny,1.5\nz,3\n").unwrap();
    let refused = |item| match item {
        0 => Fate::Fail(failure(Code::InvalidArgument, "INVALID_FIELD")),
        1 => Fate::Fail(unavailable()),
        _ => Fate::Honest,
    };
    let server = Server::start(None, Some(Box::new(refused)));
    let arguments = ["--counter", "{a}", "--delta", "n"];
    let (code, text) = ended(&import(&server, &file, &arguments).output().unwrap());
    assert_eq!(code, 6, "{text}");
    let rejected = fs::read_to_string(directory.path().join("rows.csv.rejected")).unwrap();
    let lines: Vec<_> = rejected
        .lines()
        .map(|line| line.split('\t').next().unwrap())
        .collect();
    assert_eq!(lines, ["3", "4", "5", "2"], "{rejected}");
    assert_eq!(
        server.counts().0.into_iter().collect::<Vec<_>>(),
        [("z".to_owned(), 3)]
    );

    // As if it had been killed before its last note.
    let journal = directory.path().join("rows.csv.quipu-journal");
    let text = fs::read_to_string(&journal).unwrap();
    let kept: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("finished"))
        .collect();
    fs::write(&journal, kept.join("\n") + "\n").unwrap();
    let (code, text) = ended(&import(&server, &file, &arguments).output().unwrap());
    assert_eq!(code, 6, "{text}");
    let rejected = fs::read_to_string(directory.path().join("rows.csv.rejected")).unwrap();
    assert_eq!(rejected.lines().count(), 4, "{rejected}");

    // The whole file is finished, but the rows are still to be looked at.
    let path = directory.path().join("rows.csv.rejected");
    for more in [&[][..], &["--json"]] {
        let again = [&arguments[..], more].concat();
        let (code, text) = ended(&import(&server, &file, &again).output().unwrap());
        assert_eq!(code, 6, "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[test]
fn standard_input_is_read_and_says_that_it_cannot_be_resumed() {
    let server = Server::start(None, None);
    let mut command = import(
        &server,
        Path::new("-"),
        &["--counter", "p/{page}", "--format", "ndjson"],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let rows = "{\"page\": \"a\"}\n{\"page\": \"b\"}\n{\"page\": \"a\"}\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(rows.as_bytes())
        .unwrap();
    let (code, text) = ended(&child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("cannot be resumed"), "{text}");
    assert_eq!(server.counts().0["p/a"], 2);
}

#[test]
fn a_corrected_command_is_not_blocked_by_one_that_sent_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    fs::write(&file, "a,n\nx,1\n").unwrap();
    let server = Server::start(None, None);
    server.state.lock().unwrap().known_namespace = Some("demo".to_owned());
    let code_of = |command: &mut Command| ended(&command.output().unwrap());
    let name = file.to_str().unwrap();
    let (code, text) = code_of(&mut import(&server, &file, &["--counter", "{b}"]));
    assert_eq!(code, 2, "{text}");
    let elsewhere = ["import", name, "--counter", "{a}", "--namespace", "dem"];
    let (code, text) = code_of(&mut quipu(&server.url, &elsewhere));
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("quipu namespace apply -f -"), "{text}");
    let nobody = [&elsewhere[..], &["--timeout", "300ms"]].concat();
    let (code, text) = code_of(&mut quipu("http://127.0.0.1:1", &nobody));
    assert_eq!(code, 5, "{text}");
    let (code, text) = code_of(&mut import(&server, &file, &["--counter", "{a}"]));
    assert_eq!(code, 0, "{text}");
    assert_eq!(server.counts().0["x"], 1);
    let (code, text) = code_of(&mut import(&server, &file, &["--counter", "{n}"]));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("another import"), "{text}");
}
