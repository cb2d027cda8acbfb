//! The JSON of requests and answers.

use super::{body::Object, error::ErrorObject};
use crate::{
    call::{Applied, Count, EventToken, MutationRequest, Status, TokenRequest},
    failure::Failure,
    read::EventOutcome,
};
use quipu_core::{
    event::{Mutation, StoredEvent},
    time::Micros,
};
use quipu_schemas::{namespace::NamespaceDocument, timestamp};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddBody<'a> {
    pub(super) delta: Int64,
    #[serde(borrow)]
    pub(super) idempotency_token: Option<Object<TokenBody<'a>>>,
    #[serde(borrow, default)]
    pub(super) item_key: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClearBody<'a> {
    #[serde(borrow)]
    pub(super) idempotency_token: Option<Object<TokenBody<'a>>>,
    #[serde(borrow, default)]
    pub(super) item_key: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<Object<ItemBody<'a>>>,
}

/// A batch whose items are not read yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBatchBody<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemBody<'a> {
    #[serde(borrow)]
    pub(super) counter_name: Cow<'a, str>,
    pub(super) delta: Int64,
    #[serde(borrow)]
    pub(super) idempotency_token: Option<Object<TokenBody<'a>>>,
    #[serde(borrow, default)]
    pub(super) item_key: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookupBody<'a> {
    #[serde(borrow)]
    pub(super) counter_name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) idempotency_token: Object<TokenBody<'a>>,
    #[serde(borrow, default)]
    pub(super) item_key: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBody<'a> {
    #[serde(borrow)]
    token: Cow<'a, str>,
    generation_time: Time,
}

impl AddBody<'_> {
    pub(super) fn request<'a>(&'a self, counter_name: &'a str) -> MutationRequest<'a> {
        MutationRequest {
            counter_name,
            mutation: Mutation::Add(self.delta.0),
            token: self
                .idempotency_token
                .as_ref()
                .map(|token| token.0.request()),
            item_key: &self.item_key,
        }
    }
}

impl ClearBody<'_> {
    pub(super) fn request<'a>(&'a self, counter_name: &'a str) -> MutationRequest<'a> {
        MutationRequest {
            counter_name,
            mutation: Mutation::Clear,
            token: self
                .idempotency_token
                .as_ref()
                .map(|token| token.0.request()),
            item_key: &self.item_key,
        }
    }
}

impl ItemBody<'_> {
    pub(super) fn request(&self) -> MutationRequest<'_> {
        MutationRequest {
            counter_name: &self.counter_name,
            mutation: Mutation::Add(self.delta.0),
            token: self
                .idempotency_token
                .as_ref()
                .map(|token| token.0.request()),
            item_key: &self.item_key,
        }
    }
}

impl TokenBody<'_> {
    pub(super) fn request(&self) -> TokenRequest<'_> {
        TokenRequest {
            token: &self.token,
            generation_time: self.generation_time.0,
        }
    }
}

/// A signed 64-bit integer: a JSON number or a string of decimal digits in, a string out, because
/// JavaScript's numbers are exact only up to 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Int64(pub(super) i64);

/// A time as RFC 3339 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Micros);

impl Serialize for Int64 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&timestamp::to_rfc3339(self.0))
    }
}

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Int64Visitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TimeVisitor).map(Self)
    }
}

struct Int64Visitor;

impl Visitor<'_> for Int64Visitor {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an integer from {} to {}, as a number or a string",
            i64::MIN,
            i64::MAX
        )
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
        i64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i64, E> {
        text.parse()
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Micros;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an RFC 3339 time such as \"2026-01-31T12:00:00.000001Z\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Micros, E> {
        timestamp::from_rfc3339(text).map_err(E::custom)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct MutationAnswer<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_token: Option<TokenAnswer<'a>>,
    /// Said where a repeated call would count twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotent: Option<bool>,
}

#[derive(Debug, Serialize)]
struct TokenAnswer<'a> {
    token: &'a str,
    generation_time: Time,
}

impl<'a> From<&'a Applied> for MutationAnswer<'a> {
    fn from(applied: &'a Applied) -> Self {
        let token = |made: &'a EventToken| TokenAnswer {
            token: made.token.as_str(),
            generation_time: Time(made.generation_time),
        };
        let status = match applied.status {
            Status::Accepted | Status::BestEffort => "ACCEPTED",
            Status::AlreadyApplied => "ALREADY_APPLIED",
        };
        Self {
            status,
            idempotency_token: applied.made_token.as_ref().map(token),
            idempotent: (!applied.status.is_idempotent()).then_some(false),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct CountAnswer {
    count: Int64,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_through: Option<Time>,
    /// Said where some may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate: Option<bool>,
}

impl From<Count> for CountAnswer {
    fn from(count: Count) -> Self {
        Self {
            count: Int64(count.count),
            complete_through: count.complete_through.map(Time),
            approximate: count.complete_through.is_none().then_some(true),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct AddAndGetAnswer<'a> {
    #[serde(flatten)]
    pub(super) applied: MutationAnswer<'a>,
    #[serde(flatten)]
    pub(super) count: CountAnswer,
    pub(super) includes_add: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct BatchAnswer<'a> {
    pub(super) results: Vec<ItemAnswer<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ItemAnswer<'a> {
    Applied(MutationAnswer<'a>),
    Failed { error: ErrorObject<'a> },
}

impl<'a> From<&'a Result<Applied, Failure>> for ItemAnswer<'a> {
    fn from(result: &'a Result<Applied, Failure>) -> Self {
        match result {
            Ok(applied) => Self::Applied(applied.into()),
            Err(failure) => Self::Failed {
                error: ErrorObject::new(failure),
            },
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct LookupAnswer {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<EventAnswer>,
}

#[derive(Debug, Serialize)]
struct EventAnswer {
    #[serde(flatten)]
    mutation: MutationField,
    event_time: Time,
    source_partition: u32,
    source_offset: String,
    effective_time: Time,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum MutationField {
    Delta(Int64),
    Clear(bool),
}

impl From<&EventOutcome> for LookupAnswer {
    fn from(outcome: &EventOutcome) -> Self {
        let (outcome, event) = match outcome {
            EventOutcome::Stored(event) => ("STORED", Some(event.into())),
            EventOutcome::NotStored => ("NOT_STORED", None),
            EventOutcome::NotYetKnown => ("NOT_YET_KNOWN", None),
            EventOutcome::Unknown => ("UNKNOWN", None),
        };
        Self { outcome, event }
    }
}

impl From<&StoredEvent> for EventAnswer {
    fn from(event: &StoredEvent) -> Self {
        Self {
            mutation: match event.mutation {
                Mutation::Add(delta) => MutationField::Delta(Int64(delta)),
                Mutation::Clear => MutationField::Clear(true),
            },
            event_time: Time(event.key.event_time),
            source_partition: event.source.partition,
            source_offset: event.source.offset.to_string(),
            effective_time: Time(event.source.effective_time),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct NamespacesAnswer {
    pub(super) namespaces: Vec<NamespaceDocument>,
    /// A cluster did not tell its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) incomplete: bool,
}
