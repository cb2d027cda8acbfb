//! Many adds in one call, each with a result of its own.

mod items;

use crate::{
    call::{Answer, Calling, Kind, within},
    client::{Client, new_token},
    failure::{Error, Failure},
    mutate::Receipt,
    retry::Attempts,
    token::Token,
    transport::Transport,
    verdict::{Applied, of_batch},
};
pub(crate) use items::Items;
use quipu_schemas::v1::{self, counter_client::CounterClient};
use std::time::Duration;

/// The most adds that one call carries.
pub const BATCH_MOST: usize = 1_000;

/// What became of each item of a call, in their order.
pub(crate) type Verdicts = Vec<Result<Applied, Failure>>;

/// One add of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// The counter.
    pub counter: String,
    /// What to add.
    pub delta: i64,
    /// The caller's own token; without one, the client makes it.
    pub token: Option<Token>,
    /// Tells apart several adds to one counter under one token; may be empty.
    pub item_key: String,
}

impl BatchItem {
    /// An add under a token that the client makes.
    pub fn new(counter: impl Into<String>, delta: i64) -> Self {
        Self {
            counter: counter.into(),
            delta,
            token: None,
            item_key: String::new(),
        }
    }
}

impl Client {
    /// Adds to many counters of a namespace, each item once, however often it has to be sent. The
    /// results come in the order of the items; those that failed say why, and nothing else fails
    /// with them. More than [`BATCH_MOST`] items take several calls, one after the other.
    pub async fn batch_add(
        &self,
        namespace: &str,
        items: Vec<BatchItem>,
    ) -> Vec<Result<Receipt, Error>> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.shared.kafka {
            return kafka.publish_all(namespace, items).await;
        }
        let mut results = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let call = items.by_ref().take(BATCH_MOST).map(with_token);
            let alone = |channel, request, patience| send(self.clone(), channel, request, patience);
            let settled = self.settle(namespace, Items::new(call), &alone).await;
            results.extend(settled);
        }
        results
    }

    /// Sends the items of one call until each is settled, each time by `exchange`.
    pub(crate) async fn settle<F, Fut>(
        &self,
        namespace: &str,
        mut items: Items,
        exchange: &F,
    ) -> Vec<Result<Receipt, Error>>
    where
        F: Fn(Transport, v1::BatchAddCountRequest, Duration) -> Fut + Sync,
        Fut: Future<Output = Answer<Verdicts>> + Send,
    {
        let timeout = self.shared.options.timeout;
        let mut calling = Calling::new(self, Kind::Mutates(namespace), timeout);
        while !items.are_settled() {
            let request = items.request(namespace);
            let send = |channel, patience| exchange(channel, request.clone(), patience);
            let verdicts = match calling.attempt(&send).await {
                Ok(verdicts) => verdicts,
                Err(failure) => vec![Err(failure); request.items.len()],
            };
            let again = items.take_up(verdicts, |token, failure| self.renewed(token, failure));
            let goes_on = match &again {
                Some(failure) => calling.goes_on_after(failure).await,
                // What is open was refused as late, and has new tokens.
                None => !calling.patience().is_zero(),
            };
            if !goes_on {
                break;
            }
        }
        items.end(|failure| calling.in_the_end(failure))
    }

    /// Reads the results of a call of so many items, and takes up what they say of the namespace.
    pub(crate) fn judge(
        &self,
        namespace: &str,
        results: Vec<v1::BatchAddResult>,
        sent: usize,
    ) -> Result<Verdicts, Failure> {
        let idempotent = results.iter().find_map(|result| result.idempotent);
        self.hear(namespace, idempotent);
        of_batch(results, sent)
    }

    /// Sends a batch with one attempt, for callers that keep a journal and try again in their own
    /// way: the verdict on each item, or the failure of all.
    ///
    /// # Errors
    /// When the whole call fails.
    pub async fn batch_add_once(
        &self,
        namespace: &str,
        items: Vec<v1::BatchAddItem>,
    ) -> Result<Verdicts, Failure> {
        let request = v1::BatchAddCountRequest {
            namespace: namespace.to_owned(),
            items,
        };
        let send = |channel, patience| send(self.clone(), channel, request.clone(), patience);
        self.once(&send, Attempts::ONE_ATTEMPT).await
    }
}

/// An item with its token: the caller's, or a new one.
pub(crate) fn with_token(item: BatchItem) -> (BatchItem, Token) {
    let token = item.token.clone().unwrap_or_else(new_token);
    (item, token)
}

async fn send(
    client: Client,
    channel: Transport,
    request: v1::BatchAddCountRequest,
    patience: Duration,
) -> Answer<Verdicts> {
    let (sent, namespace) = (request.items.len(), request.namespace.clone());
    let mut counter = CounterClient::new(channel);
    let answer = counter.batch_add_count(within(patience, request)).await?;
    Ok(client.judge(&namespace, answer.into_inner().results, sent))
}
