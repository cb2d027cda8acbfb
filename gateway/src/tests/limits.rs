use crate::{Limits, Transport, serve, testing::World};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

const SHORT: Duration = Duration::from_millis(100);

async fn listen(
    limits: Limits,
) -> (
    SocketAddr,
    oneshot::Sender<()>,
    JoinHandle<std::io::Result<()>>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let router = World::new().router();
    let shutdown = async { drop(stopped.await) };
    (
        address,
        stop,
        tokio::spawn(serve(listener, Transport::Plain, router, limits, shutdown)),
    )
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    // A reset is a close too: the server did not read all that was sent.
    drop(end.expect("the server closes the connection"));
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_connection_that_says_nothing_or_too_little_is_closed() {
    let (address, _stop, _task) = listen(Limits {
        headers: SHORT,
        ..Limits::default()
    })
    .await;
    for beginning in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET / HTTP/1.1\r\nhost: x\r\n",
    ] {
        let answer = exchange(address, beginning).await;
        assert!(!answer.contains("200 OK"), "{beginning:?}: {answer}");
    }
}

#[tokio::test]
async fn a_request_whose_body_does_not_come_times_out() {
    let (address, _stop, _task) = listen(Limits {
        request: SHORT,
        ..Limits::default()
    })
    .await;
    let request = "POST /v1/namespaces/flights/counters/a:add HTTP/1.1\r\nhost: x\r\n\
                   content-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    let answer = exchange(address, request).await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert!(answer.contains("TIMED_OUT"), "{answer}");
}

#[tokio::test]
async fn requests_beyond_the_limit_are_told_to_come_back() {
    let (address, _stop, _task) = listen(Limits {
        requests: 0,
        ..Limits::default()
    })
    .await;
    let request = "GET /healthz/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = exchange(address, request).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.contains("retry-after: 1") && answer.contains("OVERLOADED"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_shutdown_closes_idle_connections_and_returns() {
    let (address, stop, task) = listen(Limits::default()).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz/live HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 15];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let silent = TcpStream::connect(address).await.unwrap();
    stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), task).await;
    ended
        .expect("it returns before the drain's limit")
        .unwrap()
        .unwrap();
    drop(silent);
}

#[tokio::test]
async fn a_shutdown_cuts_off_what_does_not_finish() {
    let (address, stop, task) = listen(Limits {
        drain: SHORT,
        ..Limits::default()
    })
    .await;
    let mut stuck = TcpStream::connect(address).await.unwrap();
    let request = "POST /v1/namespaces/flights/counters/a:add HTTP/1.1\r\nhost: x\r\n\
                   content-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    stuck.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(SHORT).await;
    stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), task).await;
    ended.expect("the drain is bounded").unwrap().unwrap();
}
