//! `quipu serve`: how it starts, refuses to start, and stops.

use crate::{
    client::{Address, seed, under_load},
    http::{Api, counter_path},
    ledger::Answer,
    process::Place,
};
use serde_json::json;
use std::{fs, net::TcpListener, thread::sleep, time::Duration};

const ANY: &str = "127.0.0.1:0";

#[test]
fn sigterm_under_load_drains_within_ten_seconds_and_loses_nothing() {
    let place = Place::new();
    let first = place.start();
    Api::new(&first.http).put_namespace("drain", "2s");
    let address = Address::new(&first);
    let mut server = Some(first);
    let ledger = under_load("drain", seed(), &address, |rng| {
        for _ in 0..5 {
            sleep(Duration::from_millis(rng.u64(300..1_500)));
            let (status, took) = server.take().expect("it runs").running.terminate();
            assert_eq!(status.code(), Some(0), "{}", place.stderr());
            eprintln!("ended {took:.2?} after SIGTERM");
            assert!(took < Duration::from_secs(10), "it took {took:?}");
            let next = place.start();
            address.set(&next);
            server = Some(next);
        }
        sleep(Duration::from_millis(300));
    });
    assert!(ledger.heard(Answer::Accepted) > 100);
    let counts = ledger.check(&Api::new(&server.as_ref().expect("it runs").http));

    let (status, _) = server.take().expect("it runs").running.terminate();
    assert_eq!(status.code(), Some(0), "{}", place.stderr());
    let server = place.start();
    let api = Api::new(&server.http);
    for (counter, expected) in counts {
        let (count, _) = api.count("drain", &counter).expect("the server answers");
        assert_eq!(count, expected, "{counter} at once after a restart");
    }
    place.assert_no_panic();
}

#[test]
fn sigterm_ends_a_server_with_idle_and_half_open_connections() {
    let place = Place::new();
    let server = place.start();
    let address = server.http.trim_start_matches("http://").to_owned();
    let idle: Vec<_> = (0..20)
        .map(|number| {
            let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
            let part = [
                "",
                "POST /v1/namespaces/default/counters/a:add HTTP/1.1\r\nhost: a\r\n",
            ];
            std::io::Write::write_all(&mut stream, part[number % 2].as_bytes()).expect("it reads");
            stream
        })
        .collect();
    let (status, took) = server.running.terminate();
    assert_eq!(status.code(), Some(0), "{}", place.stderr());
    assert!(took < Duration::from_secs(10), "it took {took:?}");
    drop(idle);
    place.assert_no_panic();
}

#[test]
fn a_second_server_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let server = place.start();
    let (code, text) = place.refused(ANY, ANY);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("another quipu (process "), "{text}");
    let pid = server.running.0.id().to_string();
    assert!(text.contains(&pid), "{text}");
    assert!(text.contains("--data"), "{text}");
    let add = counter_path("default", "a") + ":add";
    let answer = Api::new(&server.http).post(&add, &json!({"delta": 1}));
    assert_eq!(answer.expect("it answers").1["status"], "ACCEPTED");
}

#[test]
fn a_port_in_use_is_named_and_the_directory_stays_untouched() {
    let place = Place::new();
    let held = TcpListener::bind(ANY).expect("a free port");
    let taken = held.local_addr().expect("an address").to_string();
    for (http, grpc, option) in [(&taken[..], ANY, "--http"), (ANY, &taken[..], "--grpc")] {
        let (code, text) = place.refused(http, grpc);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&taken) && text.contains(option), "{text}");
    }
    assert!(!place.data().exists());
}

#[test]
fn a_data_directory_that_is_a_file_is_named_and_left_alone() {
    let place = Place::new();
    fs::write(place.data(), "precious").expect("a file");
    let (code, text) = place.refused(ANY, ANY);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains(place.data().to_str().expect("UTF-8")),
        "{text}"
    );
    assert!(text.contains("is not a directory"), "{text}");
    assert_eq!(fs::read(place.data()).expect("a file"), b"precious");
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write anywhere");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.data()).expect("a directory");
    let mut permissions = fs::metadata(place.data())
        .expect("it is there")
        .permissions();
    permissions.set_readonly(true);
    fs::set_permissions(place.data(), permissions).expect("it is ours");
    let (code, text) = place.refused(ANY, ANY);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains(place.data().to_str().expect("UTF-8")),
        "{text}"
    );
}
