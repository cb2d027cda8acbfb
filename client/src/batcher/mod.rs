//! Adds that share calls by themselves.

mod driver;
mod gather;
mod ledger;
mod options;

pub use ledger::Report;
pub use options::BatcherOptions;

use crate::{
    batch::BatchItem,
    client::{Client, new_token},
    failure::{Error, Failure},
    mutate::Receipt,
};
use driver::{Command, Driver, Entry};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Gathers adds and sends those of a namespace together. Cheap to clone; all clones are one.
///
/// What was accepted is sent, also when all clones are dropped; but only [`Batcher::close`] waits
/// for it, and a runtime that ends before has lost it.
#[derive(Clone, Debug)]
pub struct Batcher {
    commands: mpsc::Sender<Command>,
    items: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    pending_bytes: usize,
}

/// An add that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAdd {
    /// Its namespace.
    pub namespace: String,
    /// Its counter.
    pub counter: String,
    /// What it was to add.
    pub delta: i64,
    /// Why it failed, and its token.
    pub error: Error,
}

/// An add that a batcher has accepted. Awaiting it tells what became of it; dropping it changes
/// nothing.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Result<Receipt, Error>>);

impl Future for Pending {
    type Output = Result<Receipt, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let told = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(told.unwrap_or_else(|_| {
            let message = "the runtime ended before the add was settled";
            Err(Error {
                failure: Failure::unsettled(message),
                may_be_applied: true,
                token: None,
            })
        }))
    }
}

impl Client {
    /// A batcher. It needs a Tokio runtime.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// use quipu_client::BatcherOptions;
    ///
    /// let batcher = client.batcher(BatcherOptions::default());
    /// for page in ["home", "about", "home"] {
    ///     batcher.add("default", page, 1).await?;
    /// }
    /// let report = batcher.close().await?;
    /// assert_eq!(report.failed, 0, "{:?}", report.failures);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batcher(&self, options: BatcherOptions) -> Batcher {
        let options = options.within_limits();
        let (commands, received) = mpsc::channel(options.batch_items);
        tokio::spawn(Driver::new(self.clone(), options).run(received));
        Batcher {
            commands,
            items: Arc::new(Semaphore::new(options.pending_items)),
            bytes: Arc::new(Semaphore::new(options.pending_bytes)),
            pending_bytes: options.pending_bytes,
        }
    }
}

impl Batcher {
    /// Accepts an add; waits while the batcher is full. Its token is made now, unless it brings one.
    ///
    /// # Errors
    /// When the batcher is closed. What becomes of the add itself, [`Pending`] tells.
    pub async fn add(&self, namespace: &str, counter: &str, delta: i64) -> Result<Pending, Error> {
        self.push(namespace, BatchItem::new(counter, delta)).await
    }

    /// The same for an add with a token or an item key of its own.
    ///
    /// # Errors
    /// When the batcher is closed.
    pub async fn push(&self, namespace: &str, mut add: BatchItem) -> Result<Pending, Error> {
        let bytes = size(namespace, &add);
        // What is larger than all the room there is waits until it has that room for itself.
        let charged = u32::try_from(bytes.min(self.pending_bytes)).unwrap_or(u32::MAX);
        let (items, room) = (Arc::clone(&self.items), Arc::clone(&self.bytes));
        let permits = (
            items.acquire_owned().await.map_err(|_| closed())?,
            room.acquire_many_owned(charged)
                .await
                .map_err(|_| closed())?,
        );
        add.token.get_or_insert_with(new_token);
        let (told, pending) = oneshot::channel();
        let entry = Entry { add, told, permits };
        let command = Command::Add {
            namespace: namespace.to_owned(),
            entry,
            bytes,
        };
        self.commands.send(command).await.map_err(|_| closed())?;
        Ok(Pending(pending))
    }

    /// Sends what is gathered, and resolves once everything that was accepted before is settled.
    /// Tells what became of it since the last report.
    ///
    /// # Errors
    /// When the batcher is closed.
    pub async fn flush(&self) -> Result<Report, Error> {
        self.ask(Command::Flush).await
    }

    /// Accepts nothing more, from any clone, and resolves once all that was accepted is settled.
    ///
    /// # Errors
    /// When the batcher was closed before.
    pub async fn close(self) -> Result<Report, Error> {
        self.ask(Command::Close).await
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Report>) -> Command,
    ) -> Result<Report, Error> {
        let (told, report) = oneshot::channel();
        self.commands
            .send(command(told))
            .await
            .map_err(|_| closed())?;
        report.await.map_err(|_| closed())
    }
}

fn closed() -> Error {
    Error::unsent(Failure::invalid("the batcher is closed; nothing was sent"))
}

/// About what an add takes in memory, and on the wire.
fn size(namespace: &str, add: &BatchItem) -> usize {
    const FIXED: usize = 128;
    let token = add.token.as_ref().map_or(36, |token| token.text().len());
    FIXED + namespace.len() + add.counter.len() + add.item_key.len() + token
}
