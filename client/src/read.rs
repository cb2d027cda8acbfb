//! Reads: the count, and what became of one mutation.

use crate::{
    call::{Answer, Calling, Kind, within},
    client::Client,
    failure::{Error, Failure},
    retry::Attempts,
    token::Token,
    transport::Transport,
};
use quipu_core::time::Micros;
use quipu_schemas::{
    timestamp,
    v1::{self, counter_client::CounterClient},
};
use std::time::Duration;

/// A count, as of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The sum.
    pub count: i64,
    /// Every event up to this time is in it; `None` when nothing is said of any time.
    pub complete_through: Option<Micros>,
    /// Whether some may be missing (`BEST_EFFORT`).
    pub precision: Precision,
}

/// How far a count is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// It is the sum of all events up to its time.
    Exact,
    /// Of a namespace that counts by best effort: some may be missing or counted twice.
    Approximate,
}

impl Count {
    pub(crate) fn read(answer: v1::GetCountResponse) -> Self {
        let through = answer.complete_through;
        Self {
            count: answer.count,
            complete_through: through.and_then(|time| timestamp::from_proto(&time).ok()),
            precision: if answer.approximate {
                Precision::Approximate
            } else {
                Precision::Exact
            },
        }
    }
}

impl Client {
    /// Reads a counter.
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time.
    pub async fn get(&self, namespace: &str, counter: &str) -> Result<Count, Error> {
        self.read(count_request(namespace, counter)).await
    }

    /// Reads a counter once its count is complete through a time.
    ///
    /// # Errors
    /// When the server refuses, or the count is not that far, or there is no answer, in time.
    pub async fn get_fresh(
        &self,
        namespace: &str,
        counter: &str,
        through: Micros,
    ) -> Result<Count, Error> {
        let min_freshness = Some(timestamp::to_proto(through));
        self.read(v1::GetCountRequest {
            min_freshness,
            ..count_request(namespace, counter)
        })
        .await
    }

    async fn read(&self, request: v1::GetCountRequest) -> Result<Count, Error> {
        let mut calling = Calling::new(self, Kind::Reads, self.shared.options.timeout);
        let send = |channel, patience| get(channel, request.clone(), patience);
        let answer = calling.call(&send).await;
        answer.map_err(|failure| calling.error(failure))
    }

    /// Reads a counter with one attempt, for callers that try again in their own way.
    ///
    /// # Errors
    /// When that attempt fails.
    pub async fn get_once(&self, namespace: &str, counter: &str) -> Result<Count, Failure> {
        let request = count_request(namespace, counter);
        let send = |channel, patience| get(channel, request.clone(), patience);
        self.once(
            &send,
            self.shared.options.timeout.min(Attempts::ONE_ATTEMPT),
        )
        .await
    }

    /// Says what became of a mutation: for those that went to Kafka directly, and for audits.
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time.
    pub async fn lookup(
        &self,
        namespace: &str,
        counter: &str,
        token: &Token,
        item_key: &str,
    ) -> Result<v1::LookupEventResponse, Error> {
        let mut calling = Calling::new(self, Kind::Reads, self.shared.options.timeout);
        let request = v1::LookupEventRequest {
            namespace: namespace.to_owned(),
            counter_name: counter.to_owned(),
            idempotency_token: Some(token.to_proto()),
            item_key: item_key.to_owned(),
        };
        let send = |channel, patience| {
            let request = within(patience, request.clone());
            async move {
                let mut counter = CounterClient::new(channel);
                Ok(Ok(counter.lookup_event(request).await?.into_inner()))
            }
        };
        let answer = calling.call(&send).await;
        answer.map_err(|failure| calling.error(failure))
    }
}

fn count_request(namespace: &str, counter: &str) -> v1::GetCountRequest {
    v1::GetCountRequest {
        namespace: namespace.to_owned(),
        counter_name: counter.to_owned(),
        min_freshness: None,
    }
}

async fn get(
    channel: Transport,
    request: v1::GetCountRequest,
    patience: Duration,
) -> Answer<Count> {
    let mut counter = CounterClient::new(channel);
    let answer = counter.get_count(within(patience, request)).await?;
    Ok(Ok(Count::read(answer.into_inner())))
}
