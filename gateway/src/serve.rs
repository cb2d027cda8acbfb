//! Serves a router on a listener, with a limit on everything that a client could use up.

use crate::{
    auth::Peer,
    deadline::{Deadline, grpc_timeout},
    failure::Failure,
    grpc,
    http::render,
    names,
    router::{grpc_response, is_grpc},
    tls::{self, Transport},
};
use ::metrics::{counter, gauge};
use axum::{
    Router,
    body::Body,
    http::{Extensions, Response},
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// What clients can use up, for each listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections; more wait in the listener's backlog.
    pub connections: usize,
    /// Requests in flight; more are answered UNAVAILABLE.
    pub requests: usize,
    /// How long a connection may take to send a request's headers, or be idle.
    pub headers: Duration,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a request may take, from its headers until its answer.
    pub request: Duration,
    /// How long requests in flight may take to finish after the shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            requests: 4_096,
            headers: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

const HTTP2_STREAMS: u32 = 1_024;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A connection that sends its preface in pieces is looked at this often.
const PREFACE_POLL: Duration = Duration::from_millis(5);
/// After an accept failed, as it does when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the connections of one listener share.
struct Shared {
    router: Router,
    transport: Transport,
    limits: Limits,
    requests: Semaphore,
    closing: Closing,
}

/// Whether a server is shutting down, for calls that would last.
#[derive(Clone, Default)]
pub(crate) struct Closing(Arc<CancellationToken>);

impl Closing {
    /// Of the server that a request came to. Where none put it there, there is no shutdown.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let known = extensions.get::<Self>();
        known.cloned().unwrap_or_default()
    }

    /// Says that the shutdown begins.
    pub(crate) fn begin(&self) {
        self.0.cancel();
    }

    /// Waits until it begins.
    pub(crate) async fn begun(&self) {
        self.0.cancelled().await;
    }
}

/// Serves HTTP/1.1 and HTTP/2 (over TLS as ALPN says, otherwise with prior knowledge) until
/// `shutdown` resolves, then takes no more connections, lets requests in flight finish, and cuts
/// off what takes longer than [`Limits::drain`].
pub async fn serve(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    tracing::debug!(address = %listener.local_addr()?, "listening");
    let shared = Arc::new(Shared {
        router,
        transport,
        limits,
        requests: Semaphore::new(limits.requests),
        closing: Closing::default(),
    });
    let permits = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (
                accept(&listener).await,
                permit.expect("the semaphore is never closed"),
            )
        };
        let ((stream, peer), permit) = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            gauge!(names::CONNECTIONS).increment(1);
            connection(stream, peer, &shared).await;
            gauge!(names::CONNECTIONS).decrement(1);
            drop(permit);
        });
    }
    drop(listener);
    shared.closing.begin();
    let drained = timeout(limits.drain, async {
        while connections.join_next().await.is_some() {}
    });
    if drained.await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests did not finish: cutting them off"
        );
    }
    Ok(())
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) {
    // Answers are small and whole: waiting for more to send only adds latency.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    let peer = Peer(peer.ip());
    match &shared.transport {
        Transport::Plain => {
            let wait = timeout(shared.limits.headers, speaks_http2(&stream));
            let speaks = tokio::select! {
                speaks = wait => speaks,
                () = shared.closing.begun() => return,
            };
            if let Ok(Ok(http2)) = speaks {
                converse(stream, http2, peer, shared).await;
            }
        }
        Transport::Tls(config) => {
            // The certificate of this moment, for as long as the connection lives.
            let acceptor = TlsAcceptor::from(config.get());
            let wait = timeout(shared.limits.handshake, acceptor.accept(stream));
            let shaken = tokio::select! {
                shaken = wait => shaken,
                () = shared.closing.begun() => return,
            };
            let Ok(Ok(stream)) = shaken else {
                counter!(names::HANDSHAKES_FAILED).increment(1);
                return;
            };
            let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
            converse(stream, http2, peer, shared).await;
        }
    }
}

/// Answers requests until either side ends the connection.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    http2: bool,
    peer: Peer,
    shared: &Arc<Shared>,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let builder = if http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    };
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let shared = Arc::clone(shared);
        request.extensions_mut().insert(peer);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = shared.closing.begun() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Looks at the first bytes without taking them. Hyper's own detection would wait for them without
/// a limit.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; HTTP2_PREFACE.len()];
    loop {
        let length = stream.peek(&mut first).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[..length] != HTTP2_PREFACE[..length] {
            return Ok(false);
        }
        if length == first.len() {
            return Ok(true);
        }
        sleep(PREFACE_POLL).await;
    }
}

async fn respond(shared: &Shared, mut request: hyper::Request<Incoming>) -> Response<Body> {
    let grpc = is_grpc(request.headers());
    let failure = match shared.requests.try_acquire() {
        Err(_) => {
            counter!(names::OVERLOADED).increment(1);
            Failure::overloaded()
        }
        Ok(_permit) => {
            let asked = grpc_timeout(request.headers()).filter(|_| grpc);
            let limit = asked.unwrap_or(Duration::MAX).min(shared.limits.request);
            request.extensions_mut().insert(Deadline::within(limit));
            request.extensions_mut().insert(shared.closing.clone());
            match timeout(limit, shared.router.clone().oneshot(request)).await {
                Ok(Ok(response)) => return response,
                Ok(Err(never)) => match never {},
                Err(_) => Failure::timed_out(limit),
            }
        }
    };
    if grpc {
        grpc_response(&grpc::status(&failure))
    } else {
        render(&failure)
    }
}
