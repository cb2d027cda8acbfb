//! The task of a batcher: gathers, sends, and tells.

use super::{
    FailedAdd, Report,
    gather::{Closed, Gathering},
    ledger::Ledger,
    options::BatcherOptions,
};
use crate::{batch::BatchItem, client::Client, failure::Error, mutate::Receipt};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::collections::VecDeque;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc::Receiver, oneshot},
    time::sleep,
};

/// What a batcher is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Add {
        namespace: String,
        entry: Entry,
        bytes: usize,
    },
    Flush(oneshot::Sender<Report>),
    Close(oneshot::Sender<Report>),
}

/// An accepted add. It holds its room until it is settled.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) add: BatchItem,
    pub(crate) told: oneshot::Sender<Result<Receipt, Error>>,
    pub(crate) permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

type Results = Vec<Result<Receipt, Error>>;

pub(crate) struct Driver {
    client: Client,
    calls: usize,
    gathering: Gathering<Entry>,
    ready: VecDeque<(u64, Closed<Entry>)>,
    sending: FuturesUnordered<BoxFuture<'static, (u64, Closed<Entry>, Results)>>,
    ledger: Ledger<oneshot::Sender<Report>>,
}

impl Driver {
    pub(crate) fn new(client: Client, options: BatcherOptions) -> Self {
        Self {
            client,
            calls: options.calls,
            gathering: Gathering::new(options),
            ready: VecDeque::new(),
            sending: FuturesUnordered::new(),
            ledger: Ledger::new(),
        }
    }

    /// Runs until there are no more commands, and everything is settled.
    pub(crate) async fn run(mut self, mut commands: Receiver<Command>) {
        let mut more = true;
        loop {
            self.send_ready();
            for (told, report) in self.ledger.served() {
                // Whoever asked may have stopped waiting.
                let _ = told.send(report);
            }
            if !more && self.sending.is_empty() {
                return;
            }
            let now = self.client.shared.clock.steady();
            let due = self.gathering.next_due();
            let lingers = sleep(due.unwrap_or_default().saturating_sub(now));
            tokio::select! {
                Some((number, batch, results)) = self.sending.next() => {
                    self.settle(number, batch, results);
                }
                command = commands.recv(), if more => match command {
                    Some(Command::Close(told)) => {
                        // What was accepted before comes first.
                        commands.close();
                        while let Some(command) = commands.recv().await {
                            self.take(command);
                        }
                        self.take(Command::Close(told));
                        more = false;
                    }
                    Some(command) => self.take(command),
                    None => {
                        self.close_all();
                        more = false;
                    }
                },
                () = lingers, if due.is_some() => {
                    let now = self.client.shared.clock.steady();
                    let closed = self.gathering.close_due(now);
                    self.enqueue(closed);
                }
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Add {
                namespace,
                entry,
                bytes,
            } => {
                let now = self.client.shared.clock.steady();
                let closed = self.gathering.push(&namespace, entry, bytes, now);
                self.enqueue(closed);
            }
            Command::Flush(told) | Command::Close(told) => {
                self.close_all();
                self.ledger.wait(told);
            }
        }
    }

    fn close_all(&mut self) {
        let closed = self.gathering.close_all();
        self.enqueue(closed);
    }

    fn enqueue(&mut self, closed: impl IntoIterator<Item = Closed<Entry>>) {
        for batch in closed {
            self.ready.push_back((self.ledger.begin(), batch));
        }
    }

    fn send_ready(&mut self) {
        while self.sending.len() < self.calls
            && let Some((number, batch)) = self.ready.pop_front()
        {
            let client = self.client.clone();
            self.sending.push(Box::pin(async move {
                let items = batch.items.iter().map(|entry| entry.add.clone()).collect();
                let results = client.batch_add(&batch.namespace, items).await;
                (number, batch, results)
            }));
        }
    }

    fn settle(&mut self, number: u64, batch: Closed<Entry>, results: Results) {
        assert_eq!(batch.items.len(), results.len(), "one result for each add");
        for (entry, result) in batch.items.into_iter().zip(results) {
            match &result {
                Ok(_) => self.ledger.applied(),
                Err(error) => self.ledger.failed(FailedAdd {
                    namespace: batch.namespace.clone(),
                    counter: entry.add.counter,
                    delta: entry.add.delta,
                    error: error.clone(),
                }),
            }
            // Nobody may be interested.
            let _ = entry.told.send(result);
            drop(entry.permits);
        }
        self.ledger.end(number);
    }
}
