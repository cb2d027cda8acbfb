//! What is asked and answered, whatever the transport.

use crate::failure::{Failure, reason};
use quipu_core::{
    event::{EventKey, Mutation},
    name::{ItemKey, NameError, Token},
    time::Micros,
};

/// The most items of one batch.
pub const MAX_BATCH_ITEMS: usize = 1_000;

/// The largest body of a request, in bytes.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// An idempotency token as the client sent it; its text is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct TokenRequest<'a> {
    /// The token.
    pub token: &'a str,
    /// When the client made it: the time of the event.
    pub generation_time: Micros,
}

/// A mutation as the client sent it; its names are not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct MutationRequest<'a> {
    /// The counter.
    pub counter_name: &'a str,
    /// What to do to it.
    pub mutation: Mutation,
    /// `None`: the server makes one, and the call must not be retried.
    pub token: Option<TokenRequest<'a>>,
    /// Tells apart several mutations under one token.
    pub item_key: &'a str,
}

/// A token that names an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventToken {
    /// The token.
    pub token: Token,
    /// The time of the event.
    pub generation_time: Micros,
}

/// What became of a mutation that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The log has it, durably, and it will be counted once.
    Accepted,
    /// An earlier attempt was counted; this one changed nothing.
    AlreadyApplied,
    /// The cache of a `BEST_EFFORT` namespace took it. Repeated, it would count again.
    BestEffort,
}

impl Status {
    /// Whether a repeated call would change nothing more.
    pub fn is_idempotent(self) -> bool {
        self != Self::BestEffort
    }
}

/// The answer to a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What became of it.
    pub status: Status,
    /// The token, when the server made it.
    pub made_token: Option<EventToken>,
}

/// The answer to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The count.
    pub count: i64,
    /// Every event up to this time is in it. `None`: it is approximate (`BEST_EFFORT`).
    pub complete_through: Option<Micros>,
}

/// The answer to an add with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedCount {
    /// What became of the add.
    pub applied: Applied,
    /// The count.
    pub count: Count,
    /// Whether the add is known to be in the count. If not, it will be in a later one.
    pub includes_add: bool,
}

/// Checks how many items a batch has, in the field that holds them.
pub(crate) fn check_batch_size(field: &str, items: usize) -> Result<(), Failure> {
    if items <= MAX_BATCH_ITEMS {
        return Ok(());
    }
    let message = format!(
        "a batch may have at most {MAX_BATCH_ITEMS} items, but this one has {items}: split it"
    );
    Err(Failure::invalid(reason::TOO_MANY_ITEMS, message).at(field))
}

/// Checks a token and an item key.
pub(crate) fn event_key(token: TokenRequest<'_>, item_key: &str) -> Result<EventKey, Failure> {
    Ok(EventKey {
        event_time: token.generation_time,
        event_id: Token::new(token.token)?,
        item_key: ItemKey::new(item_key)?,
    })
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        let field = match error {
            NameError::Namespace(_) => "namespace",
            NameError::CounterLength(_) | NameError::CounterNul(_) => "counter_name",
            NameError::TokenLength(_) => "idempotency_token.token",
            NameError::ItemKeyLength(_) => "item_key",
        };
        Self::invalid(reason::INVALID_FIELD, error.to_string()).at(field)
    }
}
