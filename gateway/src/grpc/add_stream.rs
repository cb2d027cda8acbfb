//! The stream of adds: reads messages while there is room for them, answers each when it is done.

use super::{
    convert::{item, result},
    flow::{Bounds, Load},
    status::{item_status, status},
};
use crate::{
    Served,
    auth::{LastingCaller, allow_message},
    call,
    failure::{Failure, reason},
    metrics::Method,
    serve::Closing,
};
use futures::{Stream, StreamExt, stream, stream::FuturesUnordered};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_schemas::v1::{StreamAddRequest, StreamAddResponse};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, Permit, Sender},
    },
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status};

#[cfg(test)]
mod tests;

/// What a stream goes by.
pub(super) struct Terms {
    pub(super) caller: LastingCaller,
    pub(super) closing: Closing,
    /// How long the client lets the stream last, if it says so.
    pub(super) time: Option<Duration>,
    pub(super) bounds: Bounds,
    /// Its place among all streams.
    pub(super) room: OwnedSemaphorePermit,
}

/// What happens next to a stream.
enum Event<'a> {
    Came(Option<Result<StreamAddRequest, Status>>),
    Done(Load, StreamAddResponse),
    /// The client can take an answer.
    CanTake(Permit<'a, StreamAddResponse>),
    Closing,
    /// The client is gone.
    Left,
}

/// The answers to the messages of a stream, and how it ends. Dropped, it takes with it what is under
/// way.
///
/// Nobody asks for answers while the client takes none, so a task of its own sees to the stream:
/// otherwise it could not end then.
pub(super) fn answers<L, E, R, C, P>(
    served: Arc<Served<L, E, R, C, P>>,
    terms: Terms,
    messages: impl Stream<Item = Result<StreamAddRequest, Status>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<StreamAddResponse, Status>> + Send + 'static
where
    L: Producer,
    E: EventStore,
    R: RollupStore,
    C: Cache,
    P: ControlPlane,
{
    let (sender, answers) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        let limit = terms.time.unwrap_or(Duration::MAX);
        let ended = timeout(limit, run(&served, &terms, messages, sender)).await;
        drop(terms.room);
        ended.unwrap_or_else(|_| Err(status(&Failure::timed_out(limit))))
    });
    let task = Some(AbortOnDropHandle::new(task));
    stream::unfold((answers, task), |(mut answers, task)| async move {
        if let Some(answer) = answers.recv().await {
            return Some((Ok(answer), (answers, task)));
        }
        let broken = |_| Err(Status::internal("the stream broke: open a new one"));
        let ended = task?.await.unwrap_or_else(broken);
        ended.err().map(|status| (Err(status), (answers, None)))
    })
}

async fn run<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane>(
    served: &Served<L, E, R, C, P>,
    terms: &Terms,
    mut messages: impl Stream<Item = Result<StreamAddRequest, Status>> + Unpin,
    answers: Sender<StreamAddResponse>,
) -> Result<(), Status> {
    let bounds = &terms.bounds;
    let mut load = Load::default();
    let mut under_way = FuturesUnordered::new();
    let mut done = VecDeque::new();
    // Set once nothing more is read.
    let mut end = None;
    loop {
        if under_way.is_empty()
            && done.is_empty()
            && let Some(end) = end
        {
            return end;
        }
        let (open, room) = (end.is_none(), load.leaves_room(bounds));
        let next = async {
            // What was taken goes before what is to come.
            tokio::select! {
                biased;
                () = terms.closing.begun(), if open => Event::Closing,
                place = answers.reserve(), if !done.is_empty() => {
                    place.map_or(Event::Left, Event::CanTake)
                }
                Some((load, answer)) = under_way.next() => Event::Done(load, answer),
                message = messages.next(), if open && room => Event::Came(message),
            }
        };
        // What is under way takes less than this: the client lets it wait.
        let Ok(event) = timeout(bounds.silence, next).await else {
            return Err(status(&Failure::silent(bounds.silence)));
        };
        match event {
            Event::Came(Some(Ok(mut message))) => {
                let refused = admit(&terms.caller, &mut message);
                let one = Load::of(&message);
                load += one;
                under_way.push(async move {
                    let answer = answer(served, message, refused, bounds.message).await;
                    (one, answer)
                });
            }
            Event::Came(Some(Err(status))) => end = Some(Err(status)),
            Event::Came(None) => end = Some(Ok(())),
            Event::Closing => end = Some(Err(status(&Failure::stopping()))),
            Event::Done(one, answer) => done.push_back((one, answer)),
            Event::CanTake(place) => {
                let (one, answer) = done.pop_front().expect("only then a place is asked for");
                load -= one;
                place.send(answer);
            }
            Event::Left => return Ok(()),
        }
    }
}

/// Looks at a message as soon as it is read. Of one that is refused the items are not kept: there
/// may be thousands.
fn admit(caller: &LastingCaller, message: &mut StreamAddRequest) -> Result<(), Failure> {
    let allowed = allow_message(caller, message);
    let admitted = allowed.and_then(|()| call::check_batch_size("items", message.items.len()));
    if admitted.is_err() {
        message.items = Vec::new();
    }
    admitted
}

async fn answer<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane>(
    served: &Served<L, E, R, C, P>,
    message: StreamAddRequest,
    admitted: Result<(), Failure>,
    limit: Duration,
) -> StreamAddResponse {
    let home = &served.home;
    let measured = home.meters.begin(&home.clock, Method::StreamAdd);
    let answered = async {
        admitted?;
        let items = message.items.iter().map(item).collect();
        let results = timeout(limit, async {
            let gateway = served.of(&message.namespace).await?;
            gateway.batch_add(&message.namespace, items).await
        });
        let results = results.await;
        results.unwrap_or_else(|_| Err(Failure::timed_out(limit)))
    }
    .await;
    let code = answered
        .as_ref()
        .map_or_else(|failure| failure.code, |_| Code::Ok);
    measured.finish(code);
    let sequence = message.sequence;
    match answered {
        Ok(results) => StreamAddResponse {
            sequence,
            results: results.into_iter().map(result).collect(),
            error: None,
        },
        Err(failure) => StreamAddResponse {
            sequence,
            results: Vec::new(),
            error: Some(item_status(&failure)),
        },
    }
}

impl Failure {
    /// The end of a stream whose client neither sends messages nor takes answers.
    fn silent(limit: Duration) -> Self {
        let message = format!(
            "no message came and no answer was taken for {limit:?}; messages without an answer may \
             have been applied: send them again, with the same tokens, on a new stream, but not \
             those of a BEST_EFFORT namespace, which would count them twice"
        );
        Self::new(Code::DeadlineExceeded, reason::TIMED_OUT, message)
    }

    /// The end of a stream whose server shuts down.
    fn stopping() -> Self {
        Self::unavailable(
            reason::NOT_READY,
            "the server is stopping; messages without an answer were not taken: send them again, \
             with the same tokens, on a new stream",
        )
    }
}
