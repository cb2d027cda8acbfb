//! A gRPC connection, and calls over it that are tried until they are settled.

use super::{
    retry::{Attempts, Entropy, Next},
    verdict::{Failure, root_cause},
};
use quipu_adapters::clock::Clock;
use quipu_schemas::v1::counter_client::CounterClient;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// A server, connected to once it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    endpoint: Endpoint,
    client: Option<CounterClient<Channel>>,
}

/// A call that did not succeed.
#[derive(Clone, Debug)]
pub(crate) struct CallFailed {
    /// The last failure.
    pub(crate) failure: Failure,
    /// Whether any attempt may have reached the server.
    pub(crate) sent: bool,
}

impl Connection {
    const CONNECT: Duration = Duration::from_secs(5);

    /// A server by its URL. Only `http://` is spoken; encrypt in front of it.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        if !url.starts_with("http://") {
            return Err(format!(
                "the server {url:?} must be a URL such as http://127.0.0.1:7070"
            ));
        }
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|error| format!("the server {url:?} is no URL: {}", root_cause(&error)))?
            .connect_timeout(Self::CONNECT)
            .tcp_nodelay(true);
        Ok(Self {
            endpoint,
            client: None,
        })
    }

    /// The client; connects when there is no connection yet. It reconnects by itself later.
    pub(crate) async fn client(
        &mut self,
        patience: Duration,
    ) -> Result<CounterClient<Channel>, Failure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let unreachable = |cause| Failure::Unreachable {
            server: self
                .endpoint
                .uri()
                .to_string()
                .trim_end_matches('/')
                .to_owned(),
            cause,
        };
        let channel = timeout(patience, self.endpoint.connect())
            .await
            .map_err(|_| unreachable(format!("no connection within {patience:.1?}")))?
            .map_err(|error| unreachable(root_cause(&error)))?;
        Ok(self.client.insert(CounterClient::new(channel)).clone())
    }

    /// Calls until there is an answer, a definitive failure, or no time left.
    pub(crate) async fn call<T>(
        &mut self,
        attempts: &mut Attempts,
        clock: &Clock,
        mut send: impl AsyncFnMut(CounterClient<Channel>) -> Result<T, Status>,
    ) -> Result<T, CallFailed> {
        loop {
            let failure = match self.client(attempts.patience(clock.read().steady)).await {
                Err(failure) => failure,
                Ok(client) => {
                    let patience = attempts.send(clock.read().steady);
                    match timeout(patience, send(client)).await {
                        Ok(Ok(answer)) => return Ok(answer),
                        Ok(Err(status)) => Failure::from(&status),
                        Err(_) => unanswered(patience),
                    }
                }
            };
            match attempts.on_failure(&failure, clock.read().steady, Entropy::draw()) {
                Next::Retry(wait) => {
                    tell(&failure, attempts, wait);
                    sleep(wait).await;
                }
                Next::Settled | Next::GiveUp => {
                    return Err(CallFailed {
                        failure,
                        sent: attempts.was_sent(),
                    });
                }
            }
        }
    }
}

/// Tells of a failure that is followed by another attempt: of the first to people, of the others
/// only in detail.
pub(crate) fn tell(failure: &Failure, attempts: &Attempts, wait: Duration) {
    if attempts.failures() > 1 {
        tracing::debug!("{failure}; trying again in {wait:.1?}");
        return;
    }
    let timeout = humantime::format_duration(attempts.timeout());
    let advice = failure
        .advice()
        .map_or(String::new(), |advice| format!(" ({advice})"));
    tracing::warn!("{failure}; trying for {timeout}{advice}");
}

/// The failure of an attempt whose answer did not come in time.
pub(crate) fn unanswered(patience: Duration) -> Failure {
    Failure::unsettled(format!("no answer within {patience:.1?}"))
}
