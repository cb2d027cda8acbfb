//! Batches over one lasting call, for producers at high rates.

mod line;

use crate::{
    batch::{BATCH_MOST, BatchItem, Items, Verdicts, with_token},
    call::Answer,
    client::Client,
    failure::Error,
    mutate::Receipt,
    transport::Transport,
};
use line::Lines;
use quipu_schemas::v1;
use std::{fmt, sync::Arc};
use tokio::sync::Semaphore;

/// Sends batches over one gRPC stream, which saves the cost of a call for each. Cheap to clone; all
/// clones share the stream.
///
/// The stream opens with the first batch. When it breaks, each batch without an answer is sent again
/// on a new one, under the same tokens and the same rules as any call: with back-off, within the
/// budget and its timeout, and not where it would count twice (`BEST_EFFORT`).
#[derive(Clone)]
pub struct AddStream {
    client: Client,
    lines: Arc<Lines>,
    room: Arc<Semaphore>,
}

impl Client {
    /// A stream for adds. It needs a Tokio runtime.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// use futures::{StreamExt, stream};
    /// use quipu_client::BatchItem;
    ///
    /// let adds = client.add_stream();
    /// let batches = (0..100).map(|_| vec![BatchItem::new("page_views", 1); 500]);
    /// // Eight batches are under way at the same time, and the next begins when one is settled.
    /// let mut settled = stream::iter(batches)
    ///     .map(|batch| adds.batch_add("default", batch))
    ///     .buffer_unordered(8);
    /// while let Some(results) = settled.next().await {
    ///     for result in results {
    ///         result?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_stream(&self) -> AddStream {
        AddStream {
            client: self.clone(),
            lines: Arc::default(),
            room: Arc::new(Semaphore::new(AddStream::BATCHES)),
        }
    }
}

impl AddStream {
    /// How many batches are under way, at most: half of what a server takes from a stream before it
    /// reads no further.
    pub const BATCHES: usize = 16;

    /// Adds to many counters of a namespace, each item once, however often it has to be sent; as
    /// [`Client::batch_add`], but over the stream. To use it well, let several batches be under way
    /// at the same time. While [`Self::BATCHES`] are, others wait; their timeout begins when they
    /// are let in. More than [`BATCH_MOST`] items take several messages, one after the other.
    ///
    /// Dropped before it is settled, a batch may or may not have been applied.
    pub async fn batch_add(
        &self,
        namespace: &str,
        items: Vec<BatchItem>,
    ) -> Vec<Result<Receipt, Error>> {
        let permit = self.room.acquire().await;
        let _room = permit.expect("nobody closes the semaphore");
        #[cfg(feature = "kafka")]
        if let Some(kafka) = &self.client.shared.kafka {
            return kafka.publish_all(namespace, items).await;
        }
        let mut results = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        let over_the_stream = |channel, request, _| self.exchange(channel, request);
        while items.peek().is_some() {
            let message = Items::new(items.by_ref().take(BATCH_MOST).map(with_token));
            let settled = self.client.settle(namespace, message, &over_the_stream);
            results.extend(settled.await);
        }
        results
    }

    /// One attempt of a batch. It is dropped when its time is over.
    async fn exchange(
        &self,
        channel: Transport,
        request: v1::BatchAddCountRequest,
    ) -> Answer<Verdicts> {
        let v1::BatchAddCountRequest { namespace, items } = request;
        let sent = items.len();
        let now = self.client.shared.clock.steady();
        let line = self.lines.current(channel, now).await?;
        let answer = line.ask(namespace.clone(), items, now).await;
        Ok(answer.and_then(|results| self.client.judge(&namespace, results, sent)))
    }
}

impl fmt::Debug for AddStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddStream").finish_non_exhaustive()
    }
}
