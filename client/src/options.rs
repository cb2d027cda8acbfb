//! What a client is told once.

#[cfg(feature = "kafka")]
use crate::kafka::KafkaOptions;
use crate::{
    budget::RetryBudget,
    failure::Failure,
    token::{LateMutations, Token},
};
use std::{fmt, sync::Arc, time::Duration};

/// What a client does by itself between a call and its answer.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An attempt failed, and the same is sent again.
    Retry {
        /// Why it failed.
        failure: &'a Failure,
        /// How many attempts of the call have failed, this one included.
        failures: u32,
        /// How long it waits before the next.
        wait: Duration,
        /// How long all attempts may take.
        timeout: Duration,
    },
    /// A mutation was refused as late, for good, and is sent with a new token.
    NewToken {
        /// The refusal.
        failure: &'a Failure,
        /// The new token.
        token: &'a Token,
    },
}

/// Hears of what a client does by itself.
pub(crate) type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Where the server is, and how calls to it are made.
///
/// ```
/// use quipu_client::ClientOptions;
/// use std::time::Duration;
///
/// let options = ClientOptions::new("http://127.0.0.1:7070")
///     .timeout(Duration::from_secs(5))
///     .hedge_after(Duration::from_millis(20));
/// ```
#[derive(Clone)]
pub struct ClientOptions {
    pub(crate) server: String,
    pub(crate) api_key: Option<String>,
    pub(crate) ca_certificates: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) budget: RetryBudget,
    pub(crate) late: LateMutations,
    pub(crate) observer: Option<Observer>,
    #[cfg(feature = "kafka")]
    pub(crate) kafka: Option<KafkaOptions>,
}

impl ClientOptions {
    /// A server by its URL, such as `http://127.0.0.1:7070`. `https://` encrypts, and trusts the
    /// system's authorities.
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            api_key: None,
            ca_certificates: None,
            timeout: Duration::from_secs(30),
            hedge_after: None,
            budget: RetryBudget::default(),
            late: LateMutations::default(),
            observer: None,
            #[cfg(feature = "kafka")]
            kafka: None,
        }
    }

    /// The authorities that an `https://` server's certificate is checked against, in PEM, instead
    /// of the system's.
    #[must_use]
    pub fn ca_certificates(self, pem: impl Into<Vec<u8>>) -> Self {
        let ca_certificates = Some(pem.into());
        Self {
            ca_certificates,
            ..self
        }
    }

    /// The API key that calls bring, `quipu_…`. It is never shown.
    #[must_use]
    pub fn api_key(self, key: impl Into<String>) -> Self {
        let api_key = Some(key.into());
        Self { api_key, ..self }
    }

    /// How long a call may take, all its attempts together; 30 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// After how long without an answer a second attempt is sent beside the first, with the same
    /// token: about as long as 95 of 100 calls take. By default none is. Nothing is hedged in
    /// namespaces where it would count twice (`BEST_EFFORT`).
    #[must_use]
    pub fn hedge_after(self, delay: Duration) -> Self {
        let hedge_after = Some(delay);
        Self {
            hedge_after,
            ..self
        }
    }

    /// How many retries and hedges there may be.
    #[must_use]
    pub fn retry_budget(self, budget: RetryBudget) -> Self {
        Self { budget, ..self }
    }

    /// What happens to mutations that were refused as late; renewed by default.
    #[must_use]
    pub fn late_mutations(self, late: LateMutations) -> Self {
        Self { late, ..self }
    }

    /// Calls `observer` for what the client does by itself. It must not block.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        let observer: Option<Observer> = Some(Arc::new(observer));
        Self { observer, ..self }
    }

    /// Publishes adds and clears to Kafka directly, instead of sending them to the server. What
    /// that promises is told at [`KafkaOptions`].
    #[cfg(feature = "kafka")]
    #[must_use]
    pub fn kafka(self, kafka: KafkaOptions) -> Self {
        let kafka = Some(kafka);
        Self { kafka, ..self }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("server", &self.server)
            .field("timeout", &self.timeout)
            .field("hedge_after", &self.hedge_after)
            .field("budget", &self.budget)
            .field("late", &self.late)
            .finish_non_exhaustive()
    }
}

/// Options that make no client. The text says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub(crate) String);
