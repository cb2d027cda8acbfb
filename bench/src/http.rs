//! Load over HTTP/1.1: clients that each keep one connection and one call under way.

use crate::report::latencies;
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use std::{
    error::Error,
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A connection.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Client {
    /// Connects to `host:port`.
    pub(crate) async fn connect(host: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // The next call on this connection reports what broke it.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            host: host.to_owned(),
        })
    }

    /// Makes a call and returns the body of its answer, which must be 200.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<Bytes, Failure> {
        let (status, body) = self.ask(method, path, body).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(format!(
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(&body)
        )
        .into())
    }

    /// Makes a call and returns what was answered, whatever it was.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Whether the other side has closed it.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// What a load did.
pub(crate) struct Load {
    /// Calls that were answered.
    pub(crate) calls: u64,
    /// How long it lasted.
    pub(crate) took: Duration,
    /// Their latencies, in microseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// A call to make: method, path and body.
pub(crate) type Call = (&'static str, String, String);

/// Runs closed-loop clients for a time: each makes its next call when the last was answered.
/// `next(client, number)` makes the calls.
pub(crate) fn closed_loop(
    host: &str,
    clients: u64,
    lasts: Duration,
    next: impl Fn(u64, u64) -> Call + Clone + Send + 'static,
) -> Result<Load, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let began = Instant::now();
        let mut running = Vec::new();
        for id in 0..clients {
            let (mut client, next) = (Client::connect(host).await?, next.clone());
            running.push(tokio::spawn(async move {
                let mut seen = latencies();
                let mut number = 0;
                while began.elapsed() < lasts {
                    let (method, path, body) = next(id, number);
                    let called = Instant::now();
                    client.call(method, &path, body).await?;
                    seen.record(u64::try_from(called.elapsed().as_micros())?)?;
                    number += 1;
                }
                Ok::<_, Failure>(seen)
            }));
        }
        let mut all = latencies();
        for client in running {
            all.add(client.await??)?;
        }
        Ok(Load {
            calls: all.len(),
            took: began.elapsed(),
            latencies: all,
        })
    })
}

/// CPU time of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(used.tv_nsec).expect("nanoseconds of a second fit 32 bits");
    Duration::new(used.tv_sec.unsigned_abs(), nanos)
}

/// The time now as a token's generation time.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
