//! What the writer is asked for.

use super::meta::FrontierKey;
use crate::ports::{Appended, Committed, LogError, NewRecord, Topic};
use quipu_core::time::Micros;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Where the answer to a request goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, LogError>>;

/// A request, in the order of arrival.
pub(super) enum Request {
    /// Append records.
    Append(Append),
    /// Commit frontiers.
    Commit(Vec<(FrontierKey, Committed)>, Answer<()>),
    /// Change something at a moment of the log's time.
    Change(MakeChange, Answer<()>),
    /// Sync, and end.
    Close,
}

/// Records of one topic to append, in order.
pub(super) struct Append {
    pub(super) topic: Topic,
    pub(super) records: Vec<NewRecord>,
    pub(super) answer: Answer<Vec<Appended>>,
    /// Its part of the queue's budget, given back once it is answered.
    pub(super) charge: OwnedSemaphorePermit,
}

/// Makes a change once its effective time is known, unless it finds that there is none to make.
pub(in crate::embedded) type MakeChange = Box<dyn FnOnce(Micros) -> Option<Change> + Send>;

/// A change of what the log's records mean (R5).
pub(in crate::embedded) struct Change {
    /// Its key in the control keyspace.
    pub(in crate::embedded) key: Vec<u8>,
    /// Its value there.
    pub(in crate::embedded) value: Vec<u8>,
    /// Puts it in force, once it is durable and before anything more is stamped.
    pub(in crate::embedded) install: Box<dyn FnOnce() + Send>,
}
