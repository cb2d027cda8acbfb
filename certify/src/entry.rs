//! What a producer attempts, and what it hears of it.

use quipu_core::{
    event::{EventKey, Mutation},
    name::{CounterName, ItemKey, NameError, Token},
    time::Micros,
};
use serde::{Deserialize, Serialize};

/// One identity that a producer attempts, and all that it heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The counter.
    pub counter: CounterName,
    /// The event's place among the counter's events; with the counter its identity.
    pub key: EventKey,
    /// What it does. Deltas are random, so that a wrong count names its culprit.
    pub mutation: Mutation,
    /// What was heard of each time it was sent. Nothing, if the producer died before.
    pub heard: Vec<Heard>,
}

/// What a producer hears of one time that an event was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// `ACCEPTED`: it will be counted.
    Accepted,
    /// `ALREADY_APPLIED`: an earlier attempt is counted.
    AlreadyApplied,
    /// The log has it, at this partition and offset; nobody has judged it.
    Published(u32, u64),
    /// Refused as late, for good: no attempt was counted, and none will be (R16).
    Late,
    /// This attempt was refused, with this reason.
    Refused(String),
    /// No answer that settles it: it may or may not be in the log.
    Unknown,
}

impl Entry {
    /// An entry that nothing was heard of.
    pub fn new(counter: CounterName, key: EventKey, mutation: Mutation) -> Self {
        Self {
            counter,
            key,
            mutation,
            heard: Vec::new(),
        }
    }

    /// Whether somebody promised that it counts.
    pub fn is_acknowledged(&self) -> bool {
        let promises = [Heard::Accepted, Heard::AlreadyApplied];
        self.heard.iter().any(|heard| promises.contains(heard))
    }

    /// Whether somebody promised that it never counts.
    pub fn is_refused_for_good(&self) -> bool {
        self.heard.contains(&Heard::Late)
    }
}

/// An attempt as a line of the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    counter: String,
    /// The generation time, in microseconds since the Unix epoch.
    time: i64,
    token: String,
    item_key: String,
    /// Absent for a clear.
    delta: Option<i64>,
}

impl From<&Entry> for Attempt {
    fn from(entry: &Entry) -> Self {
        Self {
            counter: entry.counter.as_str().to_owned(),
            time: entry.key.event_time.get(),
            token: entry.key.event_id.as_str().to_owned(),
            item_key: entry.key.item_key.as_str().to_owned(),
            delta: match entry.mutation {
                Mutation::Add(delta) => Some(delta),
                Mutation::Clear => None,
            },
        }
    }
}

impl TryFrom<Attempt> for Entry {
    type Error = NameError;

    fn try_from(attempt: Attempt) -> Result<Self, NameError> {
        let key = EventKey {
            event_time: Micros::new(attempt.time),
            event_id: Token::new(&attempt.token)?,
            item_key: ItemKey::new(&attempt.item_key)?,
        };
        let mutation = attempt.delta.map_or(Mutation::Clear, Mutation::Add);
        Ok(Self::new(
            CounterName::new(&attempt.counter)?,
            key,
            mutation,
        ))
    }
}
