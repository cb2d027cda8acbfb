//! Garbage of every layer, all at once: the server stays up and never panics.

use crate::{
    client::seed,
    http::{Api, counter_path, error_of},
    process::Place,
};
use bytes::Bytes;
use fastrand::Rng;
use prost::Message;
use quipu_schemas::v1;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread::scope,
    time::{Duration, Instant},
};
use ureq::http::Request;

const FUZZ_FOR: Duration = Duration::from_secs(10);
const HALF_OPEN_MOST: usize = 200;

#[test]
fn garbage_of_every_layer_neither_stops_the_server_nor_makes_it_panic() {
    let place = Place::new();
    let server = place.start();
    let seed = seed();
    let until = Instant::now() + FUZZ_FOR;
    let addresses = [&server.http, &server.grpc].map(|url| url.trim_start_matches("http://"));
    let rng = |number: u64| Rng::with_seed(seed.wrapping_add(number));
    scope(|scope| {
        for (number, address) in (0..).zip(addresses) {
            scope.spawn(move || garbage_over_tcp(address, rng(number), until));
            scope.spawn(move || garbage_in_messages(address, rng(10 + number), until));
        }
        scope.spawn(|| garbage_in_json(&server.http, rng(20), until));
    });
    for api in [Api::new(&server.http), Api::new(&server.grpc)] {
        assert_eq!(api.get("/healthz/ready").expect("it answers").0, 200);
        let path = counter_path("default", "after") + ":add";
        let (_, answer) = api.post(&path, &json!({"delta": 1})).expect("it answers");
        assert_eq!(answer["status"], "ACCEPTED");
    }
    place.assert_no_panic();
    let (status, took) = server.running.terminate();
    assert_eq!(status.code(), Some(0), "{}", place.stderr());
    assert!(took < Duration::from_secs(10), "it took {took:?}");
}

fn random(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; rng.usize(..most)];
    rng.fill(&mut bytes);
    bytes
}

/// Cuts, doubles, overwrites, or puts something odd into the middle.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, odd: &[&[u8]]) {
    for _ in 0..rng.usize(1..4) {
        let from = rng.usize(..=bytes.len());
        let to = rng.usize(from..=bytes.len());
        match rng.u8(..5) {
            0 => drop(bytes.drain(from..to)),
            1 => bytes.truncate(from),
            2 if to > from => bytes[from] = rng.u8(..),
            3 => bytes.extend_from_within(from..to),
            _ => {
                let piece = rng.choice(odd).expect("there are some").to_vec();
                bytes.splice(from..from, piece);
            }
        }
    }
}

fn garbage_over_tcp(address: &str, mut rng: Rng, until: Instant) {
    let good = b"POST /v1/namespaces/default/counters/a:add HTTP/1.1\r\nhost: a\r\n\
        content-type: application/json\r\ncontent-length: 12\r\n\r\n{\"delta\": 0}";
    let odd: [&[u8]; 8] = [
        b"\r\n",
        b"\0",
        b"content-length: 99999999999999999999\r\n",
        b"transfer-encoding: chunked\r\n",
        b"expect: 100-continue\r\n",
        b"connection: upgrade\r\nupgrade: h2c\r\n",
        b"%",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let mut half_open = Vec::new();
    while Instant::now() < until {
        let sent = match rng.u8(..6) {
            0 => random(&mut rng, 4_096),
            1 => good[..rng.usize(..good.len())].to_vec(),
            2 => format!(
                "GET / HTTP/1.1\r\na: {}\r\n\r\n",
                "b".repeat(rng.usize(..2 << 20))
            )
            .into(),
            3 => ("GET / HTTP/1.1\r\n".to_owned() + &"a: b\r\n".repeat(rng.usize(..5_000))).into(),
            4 => {
                let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
                for _ in 0..rng.usize(..20) {
                    let payload = random(&mut rng, 200);
                    let head = [0, 0, u8::try_from(payload.len()).expect("it is short")];
                    frames.extend(head);
                    frames.extend([rng.u8(..10), rng.u8(..), 0, 0, 0, rng.u8(..8)]);
                    frames.extend(payload);
                }
                frames
            }
            _ => {
                let mut request = good.to_vec();
                mutate(&mut rng, &mut request, &odd);
                request
            }
        };
        let mut stream = TcpStream::connect(address).expect("it listens");
        // The server may hang up at any byte, and may wait for more of them.
        let _ = stream.write_all(&sent);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
        let _ = stream.read(&mut [0; 1_024]);
        if half_open.len() < HALF_OPEN_MOST && rng.bool() {
            half_open.push(stream);
        }
    }
}

/// A good request of each kind: method, path below the namespace, body.
fn good_requests() -> [(&'static str, &'static str, Value); 6] {
    let token = json!({"token": "t", "generation_time": "2026-01-31T12:00:00Z"});
    let add = json!({"delta": "1", "idempotency_token": token, "item_key": "k"});
    let item = json!({"counter_name": "a", "delta": 1, "idempotency_token": token});
    let document = json!({"namespace": "web", "accept_limit": "5s", "rollup": {"coalesce": "1s"}});
    [
        ("POST", "counters/a:add", add.clone()),
        ("POST", "counters/a:addAndGet", add),
        (
            "POST",
            "counters/a:clear",
            json!({"idempotency_token": token}),
        ),
        ("POST", "counters:batchAdd", json!({"items": [item, item]})),
        (
            "POST",
            "events:lookup",
            json!({"counter_name": "a", "idempotency_token": token}),
        ),
        ("PUT", "", document),
    ]
}

/// Sometimes puts something odd into a path.
fn mutate_path(rng: &mut Rng, path: String) -> String {
    if rng.u8(..4) > 0 {
        return path;
    }
    let mut bytes = path.clone().into_bytes();
    mutate(rng, &mut bytes, &[b"%00", b"%FF", b"%2F", b":", b"//"]);
    let text = String::from_utf8(bytes).ok();
    let text = text.filter(|text| text.starts_with('/'));
    text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
        .unwrap_or(path)
}

fn garbage_in_json(url: &str, mut rng: Rng, until: Instant) {
    let requests = good_requests();
    let deep = "[".repeat(50_000);
    let odd: [&[u8]; 14] = [
        b"null",
        b"1e999",
        b"-0",
        b"18446744073709551616",
        br#""\ud800""#,
        b"\xff",
        b"\0",
        b"{\"a\":",
        deep.as_bytes(),
        b"\"0001-01-01T00:00:00Z\"",
        b"\"9999-12-31T23:59:60+23:59\"",
        b"-9223372036854775808",
        b"\"items\":[]",
        b"\"ttl\": \"584942417355y\"",
    ];
    let api = Api::new(url);
    let mut before = String::new();
    let mut settled = 0;
    while Instant::now() < until {
        let (method, path, body) = rng.choice(&requests).expect("there are some");
        let mut body = body.to_string().into_bytes();
        mutate(&mut rng, &mut body, &odd);
        let namespace = if *method == "PUT" { "web" } else { "default" };
        let path = mutate_path(&mut rng, format!("/v1/namespaces/{namespace}/{path}"));
        let path = path.trim_end_matches('/');
        let answer = api.send(method, path, "application/json", body.clone());
        let (status, answer) = match answer {
            Ok(answer) => answer,
            // It is no URL, so nothing was sent.
            Err(ureq::Error::Http(_) | ureq::Error::BadUri(_)) => continue,
            Err(error) => panic!(
                "{method} {path} {} bytes: {error}; before: {before}",
                body.len()
            ),
        };
        let (code, _) = error_of(&answer);
        before = format!("{method} {path} {} bytes: {status} {answer}", body.len());
        assert!(
            status < 500 || code == "UNAVAILABLE",
            "{path} {}: {status} {answer}",
            String::from_utf8_lossy(&body)
        );
        settled += 1;
    }
    eprintln!("{settled} odd requests");
}

/// Good messages, encoded.
fn good_messages() -> [Vec<u8>; 2] {
    let token = Some(v1::IdempotencyToken {
        token: "t".to_owned(),
        generation_time: Some(quipu_schemas::timestamp::to_proto(
            quipu_core::time::Micros::new(1_000_000),
        )),
    });
    let add = v1::AddCountRequest {
        namespace: "default".to_owned(),
        counter_name: "a".to_owned(),
        delta: 0,
        idempotency_token: token.clone(),
        item_key: String::new(),
    };
    let item = v1::BatchAddItem {
        counter_name: "a".to_owned(),
        delta: 0,
        idempotency_token: token,
        item_key: "k".to_owned(),
    };
    let batch = v1::BatchAddCountRequest {
        namespace: "default".to_owned(),
        items: vec![item; 3],
    };
    [add.encode_to_vec(), batch.encode_to_vec()]
}

fn garbage_in_messages(address: &str, mut rng: Rng, until: Instant) {
    let messages = good_messages();
    let calls = [
        "/quipu.v1.Counter/AddCount",
        "/quipu.v1.Counter/AddAndGetCount",
        "/quipu.v1.Counter/GetCount",
        "/quipu.v1.Counter/ClearCount",
        "/quipu.v1.Counter/BatchAddCount",
        "/quipu.v1.Counter/LookupEvent",
        "/quipu.v1.Counter/Nothing",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ];
    let odd: [&[u8]; 4] = [
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\0",
        b"\x0a\x7f",
        b"\x1b",
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let mut settled = 0;
    while Instant::now() < until {
        let mut message = rng.choice(&messages).expect("there are some").clone();
        match rng.u8(..5) {
            0 => message = random(&mut rng, 2_000),
            1 => {}
            _ => mutate(&mut rng, &mut message, &odd),
        }
        let length = u32::try_from(message.len()).expect("it is short");
        let (flag, length) = match rng.u8(..8) {
            0 => (rng.u8(..), length),
            1 => (0, rng.u32(..)),
            _ => (0, length),
        };
        let mut body = vec![flag];
        body.extend(length.to_be_bytes());
        body.extend(message);
        let call = rng.choice(calls).expect("there are some");
        let answer = runtime.block_on(async {
            let call = grpc(address, call, body.into());
            tokio::time::timeout(Duration::from_secs(10), call).await
        });
        let status = answer.expect("it answers in time").expect("it answers");
        let status: u8 = status.parse().expect("a status is a number");
        assert!(status <= 16, "{call}: {status}");
        settled += 1;
    }
    eprintln!("{settled} odd messages");
}

/// Sends bytes as the body of a gRPC call. Returns the status.
async fn grpc(address: &str, call: &str, body: Bytes) -> Result<String, h2::Error> {
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("it listens");
    let (mut sender, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("http://{address}{call}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let (response, mut sending) = sender.send_request(request, false)?;
    // The server may answer before it has read everything.
    let _ = sending.send_data(body, true);
    let (head, mut body) = response.await?.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    connection.abort();
    let status = head
        .headers
        .get("grpc-status")
        .or(trailers.get("grpc-status"));
    let status = status.expect("every answer has a status");
    Ok(status.to_str().expect("it is text").to_owned())
}
