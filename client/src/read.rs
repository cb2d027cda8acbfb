//! Reads: the count, and what became of one mutation.

use crate::{
    batch::BATCH_MOST,
    call::{Answer, Calling, Kind, within},
    client::Client,
    failure::{Error, Failure},
    retry::Attempts,
    token::Token,
    transport::Transport,
    verdict::of_rpc_status,
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
        let calling = Calling::new(self, Kind::Reads, self.shared.options.timeout);
        read(calling, count_request(namespace, counter)).await
    }

    /// Reads a counter once its count is complete through a time: the server waits for it, up to
    /// the call's timeout and at most 30 s. A count is complete through a time once events of that
    /// time can no longer come, so some seconds after it.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// let receipt = client.add("default", "page_views", 1).await?;
    /// let time = receipt.token.generation_time();
    /// let count = client.get_fresh("default", "page_views", time).await?;
    /// assert!(count.complete_through >= Some(time), "the add is in it");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the server refuses, as where the count cannot be that far in time
    /// (`FRESHNESS_OUT_OF_REACH`), or the count is not that far, or there is no answer, in time.
    pub async fn get_fresh(
        &self,
        namespace: &str,
        counter: &str,
        through: Micros,
    ) -> Result<Count, Error> {
        let calling = Calling::new(self, Kind::Reads, self.shared.options.timeout).waiting();
        let request = v1::GetCountRequest {
            min_freshness: Some(timestamp::to_proto(through)),
            ..count_request(namespace, counter)
        };
        read(calling, request).await
    }

    /// Reads many counters of a namespace, up to 1,000 with one call. The counts come in the order
    /// of the names; those that cannot be read say why, and nothing else fails with them.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// let pages = ["home", "about"];
    /// let counts = client.batch_get("default", &pages).await?;
    /// for (page, count) in pages.iter().zip(counts) {
    ///     match count {
    ///         Ok(count) => println!("{page}: {}", count.count),
    ///         Err(failure) => println!("{page}: {failure}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the server refuses a call as a whole, or does not answer in time.
    pub async fn batch_get<N: AsRef<str>>(
        &self,
        namespace: &str,
        counters: &[N],
    ) -> Result<Vec<Result<Count, Failure>>, Error> {
        let mut counts = Vec::with_capacity(counters.len());
        for names in counters.chunks(BATCH_MOST) {
            let mut calling = Calling::new(self, Kind::Reads, self.shared.options.timeout);
            let request = v1::BatchGetCountRequest {
                namespace: namespace.to_owned(),
                counter_names: names.iter().map(|name| name.as_ref().to_owned()).collect(),
            };
            let send = |channel, patience| get_batch(channel, request.clone(), patience);
            let answer = calling.call(&send).await;
            counts.extend(answer.map_err(|failure| calling.error(failure))?);
        }
        Ok(counts)
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

async fn read(mut calling: Calling<'_>, request: v1::GetCountRequest) -> Result<Count, Error> {
    let send = |channel, patience| get(channel, request.clone(), patience);
    let answer = calling.call(&send).await;
    answer.map_err(|failure| calling.error(failure))
}

async fn get_batch(
    channel: Transport,
    request: v1::BatchGetCountRequest,
    patience: Duration,
) -> Answer<Vec<Result<Count, Failure>>> {
    let asked = request.counter_names.len();
    let mut counter = CounterClient::new(channel);
    let answer = counter.batch_get_count(within(patience, request)).await?;
    let results = answer.into_inner().results;
    if results.len() != asked {
        let got = results.len();
        let message = format!("the server gave {got} results for {asked} counters");
        return Ok(Err(Failure::unsettled(message)));
    }
    Ok(Ok(results.into_iter().map(of_result).collect()))
}

fn of_result(result: v1::BatchGetResult) -> Result<Count, Failure> {
    match result.error {
        Some(error) => Err(of_rpc_status(error)),
        None => Ok(Count::read(v1::GetCountResponse {
            count: result.count,
            complete_through: result.complete_through,
            approximate: result.approximate,
        })),
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
