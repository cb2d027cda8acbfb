use crate::{
    Limits, Transport,
    reload::POLL,
    serve,
    testing::{NS, World},
};
use quipu_schemas::v1::{GetCountRequest, counter_client::CounterClient};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use std::{fs, future::pending, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Puts a new certificate for localhost into a directory.
fn certify(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

fn transport(directory: &Path) -> Transport {
    let files = (directory.join("cert.pem"), directory.join("key.pem"));
    let (transport, keep) = Transport::tls(files.0, files.1).unwrap();
    tokio::spawn(keep);
    transport
}

async fn listen(world: &World, transport: Transport, limits: Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(
        listener,
        transport,
        world.router(),
        limits,
        pending(),
    ));
    address
}

async fn connect(
    address: SocketAddr,
    authority: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls_as_alpn_chooses() {
    let directory = tempfile::tempdir().unwrap();
    let authority = certify(directory.path());
    let world = World::new();
    let address = listen(&world, transport(directory.path()), Limits::default()).await;

    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut stream = connect(address, &authority, protocols).await.unwrap();
        let request = b"GET /healthz/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        // The server may close without a farewell.
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    let stream = connect(address, &authority, &[b"h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut stream = Some(hyper_util::rt::TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take().expect("it connects once");
        async move { Ok::<_, std::io::Error>(stream) }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let request = GetCountRequest {
        namespace: NS.to_owned(),
        counter_name: "a".to_owned(),
        ..GetCountRequest::default()
    };
    CounterClient::new(channel)
        .get_count(request)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections() {
    let directory = tempfile::tempdir().unwrap();
    let old = certify(directory.path());
    let transport = transport(directory.path());
    let address = listen(&World::new(), transport.clone(), Limits::default()).await;
    connect(address, &old, &[]).await.unwrap();
    fs::write(directory.path().join("key.pem"), "none").unwrap();
    sleep(2 * POLL).await;
    assert!(transport.check().unwrap_err().contains("key.pem"));
    connect(address, &old, &[])
        .await
        .expect("the last good one stays");
    let new = certify(directory.path());
    let mut shown = connect(address, &new, &[]).await;
    for _ in 0..50 {
        if shown.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
        shown = connect(address, &new, &[]).await;
    }
    shown.expect("the new one is shown");
    assert!(connect(address, &old, &[]).await.is_err());
    assert_eq!(transport.check(), Ok(()));
}

#[tokio::test]
async fn who_does_not_shake_hands_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path());
    let limits = Limits {
        handshake: Duration::from_millis(100),
        ..Limits::default()
    };
    let address = listen(&World::new(), transport(directory.path()), limits).await;
    for sent in [&b""[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
        // Closed or reset; an alert of TLS at most, and nothing in plain text.
        let _ = read.await.expect("it is cut off");
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
}

#[test]
fn files_that_make_no_server_are_named_and_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path());
    let path = |name: &str| directory.path().join(name);
    let key = fs::read_to_string(path("key.pem")).unwrap();
    let error = Transport::tls(path("key.pem"), path("key.pem"))
        .err()
        .unwrap();
    assert!(error.contains("CERTIFICATE"), "{error}");
    let error = Transport::tls(path("cert.pem"), path("cert.pem"))
        .err()
        .unwrap();
    assert!(error.contains("PRIVATE KEY"), "{error}");
    let secret = key.lines().nth(1).unwrap();
    assert!(!error.contains(secret));
    let error = Transport::tls(path("none.pem"), path("key.pem"))
        .err()
        .unwrap();
    assert!(error.contains("none.pem"), "{error}");
}
