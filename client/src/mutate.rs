//! One mutation: an add or a clear.

use crate::{
    call::{Answer, Calling, Kind, within},
    client::{Client, new_token},
    failure::{Error, Failure},
    read::Count,
    token::Token,
    transport::Transport,
    verdict::{Applied, of_mutation},
};
use futures::future::BoxFuture;
use quipu_schemas::v1::{self, counter_client::CounterClient};
use std::{future::IntoFuture, time::Duration};

/// A mutation that is counted, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What became of it.
    pub applied: Applied,
    /// The token under which it counts.
    pub token: Token,
}

/// An add that is counted, once, with a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Of the add.
    pub receipt: Receipt,
    /// The count, as of its time.
    pub count: Count,
    /// Whether the add is known to be in the count. If not, it will be in a later one.
    pub includes_add: bool,
}

/// A mutation to be sent; awaiting it sends it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Mutation {
    client: Client,
    namespace: String,
    counter: String,
    what: What,
    item_key: String,
    token: Option<Token>,
    timeout: Duration,
}

/// What a mutation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Add(i64),
    Clear,
}

impl Client {
    /// Adds to a counter, once, however often it has to be sent.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use quipu_client::{Client, ClientOptions};
    ///
    /// let client = Client::connect(ClientOptions::new("http://127.0.0.1:7070")).await?;
    /// client.add("default", "page_views", 1).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of the awaited mutation: see [`Failure`] for what to do about each.
    pub fn add(&self, namespace: &str, counter: &str, delta: i64) -> Mutation {
        self.mutation(namespace, counter, What::Add(delta))
    }

    /// Zeroes a counter: everything before the token's time no longer counts.
    ///
    /// # Errors
    /// Of the awaited mutation: see [`Failure`] for what to do about each.
    pub fn clear(&self, namespace: &str, counter: &str) -> Mutation {
        self.mutation(namespace, counter, What::Clear)
    }

    fn mutation(&self, namespace: &str, counter: &str, what: What) -> Mutation {
        Mutation {
            client: self.clone(),
            namespace: namespace.to_owned(),
            counter: counter.to_owned(),
            what,
            item_key: String::new(),
            token: None,
            timeout: self.shared.options.timeout,
        }
    }
}

impl Mutation {
    /// Sends it under the caller's own token, so that a retry after the end of this process counts
    /// once, too. The client never replaces such a token.
    pub fn with_token(self, token: Token) -> Self {
        let token = Some(token);
        Self { token, ..self }
    }

    /// Tells it apart from other mutations of the same counter under the same token.
    pub fn item_key(self, item_key: impl Into<String>) -> Self {
        let item_key = item_key.into();
        Self { item_key, ..self }
    }

    /// How long it may take, all its attempts together.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Adds, and reads the count. Whether the add is in it yet, the answer says: it is in an
    /// `ACCURATE` namespace, unless it was not stored in time, and in a `BEST_EFFORT` one.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// let added = client.add("default", "page_views", 1).and_get().await?;
    /// let with = if added.includes_add { "with" } else { "without" };
    /// println!("{} {with} the one just added", added.count.count);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of the mutation alone; of a clear, which gives no count.
    pub async fn and_get(self) -> Result<Added, Error> {
        let What::Add(delta) = self.what else {
            return Err(Error::unsent(Failure::invalid("a clear gives no count")));
        };
        let send = |channel: Transport, token, patience| {
            let request = v1::AddAndGetCountRequest {
                namespace: self.namespace.clone(),
                counter_name: self.counter.clone(),
                delta,
                idempotency_token: Some(token),
                item_key: self.item_key.clone(),
            };
            async move {
                let mut counter = CounterClient::new(channel);
                let answer = counter.add_and_get_count(within(patience, request)).await?;
                let answer = answer.into_inner();
                let (applied, idempotent) = (of_mutation(answer.status()), answer.idempotent);
                let count = Count::read(v1::GetCountResponse {
                    count: answer.count,
                    complete_through: answer.complete_through,
                    approximate: answer.approximate,
                });
                let includes_add = answer.includes_add == Some(true);
                Ok(applied.map(|applied| ((applied, count, includes_add), idempotent)))
            }
        };
        let ((applied, count, includes_add), token) = self.send(send).await?;
        Ok(Added {
            receipt: Receipt { applied, token },
            count,
            includes_add,
        })
    }

    async fn run(self) -> Result<Receipt, Error> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.client.shared.kafka {
            let token = self.token.unwrap_or_else(new_token);
            let event = crate::kafka::Outgoing {
                namespace: &self.namespace,
                counter: &self.counter,
                what: self.what,
                token: &token,
                item_key: &self.item_key,
            };
            return kafka.publish(event).await;
        }
        let sent = match self.what {
            What::Add(delta) => {
                self.send(|channel, token, patience| self.add(delta, channel, token, patience))
                    .await
            }
            What::Clear => {
                self.send(|channel, token, patience| self.clear(channel, token, patience))
                    .await
            }
        };
        let (applied, token) = sent?;
        Ok(Receipt { applied, token })
    }

    fn add(
        &self,
        delta: i64,
        channel: Transport,
        token: v1::IdempotencyToken,
        patience: Duration,
    ) -> impl Future<Output = Answer<(Applied, Option<bool>)>> + use<> {
        let request = v1::AddCountRequest {
            namespace: self.namespace.clone(),
            counter_name: self.counter.clone(),
            delta,
            idempotency_token: Some(token),
            item_key: self.item_key.clone(),
        };
        async move {
            let mut counter = CounterClient::new(channel);
            let answer = counter.add_count(within(patience, request)).await?;
            let answer = answer.into_inner();
            Ok(of_mutation(answer.status()).map(|applied| (applied, answer.idempotent)))
        }
    }

    fn clear(
        &self,
        channel: Transport,
        token: v1::IdempotencyToken,
        patience: Duration,
    ) -> impl Future<Output = Answer<(Applied, Option<bool>)>> + use<> {
        let request = v1::ClearCountRequest {
            namespace: self.namespace.clone(),
            counter_name: self.counter.clone(),
            idempotency_token: Some(token),
            item_key: self.item_key.clone(),
        };
        async move {
            let mut counter = CounterClient::new(channel);
            let answer = counter.clear_count(within(patience, request)).await?;
            let answer = answer.into_inner();
            Ok(of_mutation(answer.status()).map(|applied| (applied, answer.idempotent)))
        }
    }

    /// Sends until it is settled. A new token is made only after the definitive refusal of the one
    /// before (R16). An answer brings along whether it is idempotent, when it says so.
    async fn send<T, F, Fut>(&self, send: F) -> Result<(T, Token), Error>
    where
        F: Fn(Transport, v1::IdempotencyToken, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<(T, Option<bool>)>> + Send,
        T: Send,
    {
        let client = &self.client;
        let mut calling = Calling::new(client, Kind::Mutates(&self.namespace), self.timeout);
        let mut token = match &self.token {
            Some(token) => token.clone(),
            None => new_token(),
        };
        loop {
            let under = token.to_proto();
            let attempt = |channel, patience| send(channel, under.clone(), patience);
            let failure = match calling.call(&attempt).await {
                Ok((answer, idempotent)) => {
                    client.hear(&self.namespace, idempotent);
                    return Ok((answer, token));
                }
                Err(failure) => failure,
            };
            let renewed = (!calling.patience().is_zero()).then(|| client.renewed(&token, &failure));
            match renewed.flatten() {
                Some(renewed) => token = renewed,
                None => return Err(calling.error(failure).with_token(token)),
            }
        }
    }
}

impl IntoFuture for Mutation {
    type Output = Result<Receipt, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
