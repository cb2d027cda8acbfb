//! The client: one connection, shared, and what all calls need.

use crate::{
    budget::Budget,
    call::{Calling, Kind},
    clock::{self, Clock},
    clusters::Clusters,
    control::Namespaces,
    failure::{Error, Failure},
    modes::{Modes, Repeats},
    options::{ClientOptions, Event, OptionsError},
    retry::Entropy,
    tls,
    token::Token,
    transport::{ApiKey, Transport},
    verdict::root_cause,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::OnceCell, time::timeout};
use tonic::transport::{Channel, Endpoint};

/// A client of a Quipu server. Cheap to clone; all clones share one connection, which comes back by
/// itself.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    endpoint: Endpoint,
    channel: OnceCell<Channel>,
    api_key: ApiKey,
    pub(crate) clock: Clock,
    budget: Mutex<Budget>,
    modes: Modes,
    #[cfg(feature = "kafka")]
    pub(crate) kafka: Option<crate::kafka::Publisher>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Client {
    const CONNECT: Duration = Duration::from_secs(5);

    /// A client that connects once it is needed.
    ///
    /// # Errors
    /// When the server's URL is none, or Kafka's client refuses its settings.
    pub fn new(options: ClientOptions) -> Result<Self, OptionsError> {
        let server = &options.server;
        if !(server.starts_with("http://") || server.starts_with("https://")) {
            return Err(OptionsError(format!(
                "the server {server:?} must be a URL such as http://127.0.0.1:7070 or https://HOST"
            )));
        }
        let endpoint = Endpoint::from_shared(server.clone())
            .map_err(|error| {
                OptionsError(format!(
                    "the server {server:?} is no URL: {}",
                    root_cause(&error)
                ))
            })?
            .connect_timeout(Self::CONNECT)
            .tcp_nodelay(true);
        let endpoint = tls::secure(endpoint, &options)?;
        let clock = Clock::start();
        let shared = Shared {
            endpoint,
            channel: OnceCell::new(),
            api_key: ApiKey::new(options.api_key.as_deref())?,
            clock,
            budget: Mutex::new(Budget::new(options.budget, clock.steady())),
            modes: Modes::new(),
            #[cfg(feature = "kafka")]
            kafka: options
                .kafka
                .as_ref()
                .map(crate::kafka::Publisher::new)
                .transpose()?,
            options,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A client with a connection. Tries until there is one, for as long as a call may take.
    ///
    /// # Errors
    /// As [`Client::new`], and when the server cannot be reached.
    pub async fn connect(options: ClientOptions) -> Result<Self, Error> {
        let refused = |error: OptionsError| Error::unsent(Failure::invalid(error.to_string()));
        let client = Self::new(options).map_err(refused)?;
        client.ready().await?;
        Ok(client)
    }

    /// Resolves once there is a connection.
    ///
    /// # Errors
    /// When there is none within the time of a call.
    pub async fn ready(&self) -> Result<(), Error> {
        let mut calling = Calling::new(self, Kind::Reads, self.shared.options.timeout);
        calling
            .call(&|_, _| async { Ok(Ok(())) })
            .await
            .map_err(|failure| calling.error(failure))
    }

    /// The control plane's calls.
    pub fn namespaces(&self) -> Namespaces<'_> {
        Namespaces { client: self }
    }

    /// The calls that declare clusters.
    pub fn clusters(&self) -> Clusters<'_> {
        Clusters { client: self }
    }

    /// The server's URL, as errors show it.
    pub(crate) fn server(&self) -> String {
        let uri = self.shared.endpoint.uri().to_string();
        uri.trim_end_matches('/').to_owned()
    }

    /// The connection; connects when there was none yet.
    pub(crate) async fn connected(&self, patience: Duration) -> Result<Transport, Failure> {
        let unreachable = |cause| Failure::Unreachable {
            server: self.server(),
            cause,
        };
        let shared = &self.shared;
        let connecting = shared.channel.get_or_try_init(|| shared.endpoint.connect());
        let channel = timeout(patience, connecting)
            .await
            .map_err(|_| unreachable(format!("no connection within {patience:.1?}")))?
            .map_err(|error| unreachable(root_cause(&error)))?;
        Ok(Transport::new(channel.clone(), shared.api_key.clone()))
    }

    /// What a namespace does with a token that comes twice, if that is known.
    pub(crate) fn known_repeats(&self, namespace: &str) -> Option<Repeats> {
        let now = self.shared.clock.steady();
        self.shared.modes.known(namespace, now)
    }

    /// The same; asks the server when it is not known. One attempt.
    pub(crate) async fn repeats(
        &self,
        namespace: &str,
        patience: Duration,
    ) -> Result<Repeats, Failure> {
        if let Some(repeats) = self.known_repeats(namespace) {
            return Ok(repeats);
        }
        let document = self.namespaces().show_once(namespace, patience).await?;
        let repeats = Repeats::of_document(&document);
        let now = self.shared.clock.steady();
        self.shared.modes.learn(namespace, repeats, now);
        Ok(repeats)
    }

    /// Takes up what an answer says of repetitions.
    pub(crate) fn hear(&self, namespace: &str, idempotent: Option<bool>) {
        if idempotent == Some(false) {
            let now = self.shared.clock.steady();
            self.shared.modes.learn(namespace, Repeats::CountTwice, now);
        }
    }

    /// Takes up the first attempt of a call.
    pub(crate) fn count_call(&self) {
        self.budget(|budget, _| budget.call());
    }

    /// Whether one more attempt may be made than there are calls.
    pub(crate) fn may_send_more(&self) -> bool {
        self.budget(Budget::withdraw)
    }

    fn budget<T>(&self, change: impl FnOnce(&mut Budget, Duration) -> T) -> T {
        let now = self.shared.clock.steady();
        let budget = self.shared.budget.lock();
        change(&mut budget.unwrap_or_else(PoisonError::into_inner), now)
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        tracing::debug!(?event, "a call goes on");
        if let Some(observer) = &self.shared.options.observer {
            observer(event);
        }
    }

    /// The token after a refusal as late, if the client may make one.
    pub(crate) fn renewed(&self, token: &Token, failure: &Failure) -> Option<Token> {
        let late = self.shared.options.late;
        let renewed = token.renew(failure, clock::wall(), Entropy::draw(), late)?;
        let token = &renewed;
        self.observe(&Event::NewToken { failure, token });
        Some(renewed)
    }
}

/// A token of this client's own.
pub(crate) fn new_token() -> Token {
    Token::make(clock::wall(), Entropy::draw())
}
