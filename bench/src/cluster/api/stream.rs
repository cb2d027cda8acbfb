//! Streams of adds, of which each message has an answer.

use super::grpc::{Connections, Frames, check};
use crate::http::Failure;
use bytes::Bytes;
use futures::channel::oneshot;
use h2::{RecvStream, SendStream};
use quipu_schemas::v1::StreamAddResponse;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// An open stream.
pub(super) struct AddStream {
    messages: Mutex<SendStream<Bytes>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits for the answer of which sequence; or why nobody may any more.
#[derive(Default)]
struct Waiting {
    callers: HashMap<u64, oneshot::Sender<StreamAddResponse>>,
    broken: Option<String>,
}

impl AddStream {
    pub(super) async fn open(connections: &Connections) -> Result<Self, Failure> {
        let method = connections.method("StreamAddCount")?;
        let (messages, answers) = connections.stream(&method).await?;
        let waiting = Arc::default();
        tokio::spawn(hand_out(answers, Arc::clone(&waiting)));
        Ok(Self {
            messages: Mutex::new(messages),
            waiting,
        })
    }

    /// Sends a message and waits for its answer. Callers see to it that few are under way, for what
    /// the server does not read yet is kept here.
    pub(super) async fn call(
        &self,
        sequence: u64,
        message: Bytes,
    ) -> Result<StreamAddResponse, Failure> {
        let (caller, answer) = oneshot::channel();
        {
            let mut waiting = locked(&self.waiting);
            if let Some(why) = &waiting.broken {
                return Err(format!("the stream broke: {why}").into());
            }
            waiting.callers.insert(sequence, caller);
        }
        locked(&self.messages).send_data(message, false)?;
        answer.await.map_err(|_| {
            let why = locked(&self.waiting).broken.clone().unwrap_or_default();
            format!("the stream broke: {why}").into()
        })
    }
}

/// Hands answers out to their callers until the stream ends.
async fn hand_out(mut answers: RecvStream, waiting: Arc<Mutex<Waiting>>) {
    let why = match read_all(&mut answers, &waiting).await {
        Ok(()) => "the server ended it".to_owned(),
        Err(error) => error.to_string(),
    };
    let mut waiting = locked(&waiting);
    waiting.broken = Some(why);
    waiting.callers.clear();
}

async fn read_all(answers: &mut RecvStream, waiting: &Mutex<Waiting>) -> Result<(), Failure> {
    let mut frames = Frames::default();
    while frames.read(answers).await? {
        while let Some(answer) = frames.take::<StreamAddResponse>()? {
            let caller = locked(waiting).callers.remove(&answer.sequence);
            let caller = caller.ok_or_else(|| format!("an answer to {}", answer.sequence))?;
            // Whoever asked may have gone.
            let _ = caller.send(answer);
        }
    }
    answers.trailers().await?.as_ref().map_or(Ok(()), check)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
