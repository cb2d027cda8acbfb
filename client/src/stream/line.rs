//! One gRPC stream, and who waits for an answer on it.

use super::AddStream;
use crate::{failure::Failure, transport::Transport, verdict::of_rpc_status};
use futures::stream;
use prost::Message;
use quipu_schemas::v1::{self, counter_client::CounterClient};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use tonic::{Status, Streaming};

/// The answer to one message: the results of its items, or why it failed as a whole.
type Answered = Result<Vec<v1::BatchAddResult>, Failure>;

/// The most bytes that a server takes in one message.
const MESSAGE_BYTES: usize = 4 << 20;

/// A server ends a stream after a minute without a message; one that is silent for half of that is
/// not used again, so that no message meets the end.
const SILENCE: Duration = Duration::from_secs(30);

/// The stream that is used now.
#[derive(Default)]
pub(super) struct Lines(tokio::sync::Mutex<Option<Arc<Line>>>);

impl Lines {
    /// The stream that is used now; opens one when there is none, or it is of no use any more.
    pub(super) async fn current(
        &self,
        channel: Transport,
        now: Duration,
    ) -> Result<Arc<Line>, Status> {
        let mut current = self.0.lock().await;
        if let Some(line) = current.as_ref().filter(|line| line.is_of_use(now)) {
            return Ok(Arc::clone(line));
        }
        let line = Arc::new(Line::open(channel, now).await?);
        Ok(Arc::clone(current.insert(line)))
    }
}

/// One open stream. It is given up when nobody waits on it any more, and it is not the current one.
pub(super) struct Line {
    messages: mpsc::Sender<v1::StreamAddRequest>,
    waiting: Arc<Mutex<Waiting>>,
    answers: AbortHandle,
}

struct Waiting {
    last_sequence: u64,
    last_used: Duration,
    /// Set once nobody is to begin to wait: why the stream ended, or that an answer was not waited
    /// for to its end.
    ended: Option<Failure>,
    by_sequence: HashMap<u64, oneshot::Sender<Answered>>,
}

impl Line {
    async fn open(channel: Transport, now: Duration) -> Result<Self, Status> {
        // It holds all that may be under way.
        let (messages, received) = mpsc::channel(AddStream::BATCHES);
        let outgoing = stream::unfold(received, |mut received| async move {
            let message: v1::StreamAddRequest = received.recv().await?;
            Some((message, received))
        });
        let answers = CounterClient::new(channel)
            .stream_add_count(outgoing)
            .await?
            .into_inner();
        let waiting = Arc::new(Mutex::new(Waiting {
            last_sequence: 0,
            last_used: now,
            ended: None,
            by_sequence: HashMap::new(),
        }));
        let task = tokio::spawn(deliver(answers, Arc::clone(&waiting)));
        Ok(Self {
            messages,
            waiting,
            answers: task.abort_handle(),
        })
    }

    fn is_of_use(&self, now: Duration) -> bool {
        let waiting = locked(&self.waiting);
        waiting.ended.is_none() && now.saturating_sub(waiting.last_used) < SILENCE
    }

    /// Sends a message, and waits for its answer. However the stream ends before, it tells nothing
    /// of what became of the message.
    pub(super) async fn ask(
        &self,
        namespace: String,
        items: Vec<v1::BatchAddItem>,
        now: Duration,
    ) -> Answered {
        let mut message = v1::StreamAddRequest {
            sequence: u64::MAX,
            namespace,
            items,
        };
        let bytes = message.encoded_len();
        if bytes > MESSAGE_BYTES {
            // A server would end the stream for it, and so fail others, too.
            return Err(Failure::invalid(format!(
                "the batch takes {bytes} bytes, which is over {MESSAGE_BYTES}; split it"
            )));
        }
        let (tell, told) = oneshot::channel();
        message.sequence = locked(&self.waiting).begin(tell, now)?;
        let _wait = Wait {
            line: self,
            sequence: message.sequence,
        };
        // When the stream has ended, whoever reads its answers tells why.
        let _ = self.messages.send(message).await;
        told.await
            .unwrap_or_else(|_| Err(broken("it was given up")))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

impl Waiting {
    fn begin(&mut self, tell: oneshot::Sender<Answered>, now: Duration) -> Result<u64, Failure> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        self.last_used = self.last_used.max(now);
        self.last_sequence += 1;
        self.by_sequence.insert(self.last_sequence, tell);
        Ok(self.last_sequence)
    }

    fn end(&mut self, why: &Failure) {
        self.ended = Some(why.clone());
        for (_, tell) in self.by_sequence.drain() {
            // Who no longer waits has given up.
            let _ = tell.send(Err(why.clone()));
        }
    }
}

/// Somebody waits for an answer. Who stops before it came takes the stream out of use: it may hang.
struct Wait<'a> {
    line: &'a Line,
    sequence: u64,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.line.waiting);
        if waiting.by_sequence.remove(&self.sequence).is_some() {
            let unanswered = || broken("an answer did not come in time");
            waiting.ended.get_or_insert_with(unanswered);
        }
    }
}

/// Hands the answers of a stream to those who wait for them, until it ends.
async fn deliver(mut answers: Streaming<v1::StreamAddResponse>, waiting: Arc<Mutex<Waiting>>) {
    let ended = loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                let tell = locked(&waiting).by_sequence.remove(&answer.sequence);
                let answered = match answer.error {
                    Some(error) => Err(of_rpc_status(error)),
                    None => Ok(answer.results),
                };
                // Nobody: a second answer, or to who gave up.
                if let Some(tell) = tell {
                    let _ = tell.send(answered);
                }
            }
            Ok(None) => break broken("the server ended it"),
            Err(status) => break broken(status.message()),
        }
    };
    locked(&waiting).end(&ended);
}

fn broken(why: &str) -> Failure {
    Failure::unsettled(format!(
        "the stream of adds ended before the answer came: {why}"
    ))
}

fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
