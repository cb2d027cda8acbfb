//! Messages to what is asked, and answers to messages.

use super::status::item_status;
use crate::{
    call::{Applied, Count, EventToken, MutationRequest, Status, TokenRequest},
    failure::{Failure, reason},
    read::EventOutcome,
};
use quipu_core::{
    event::{Mutation, StoredEvent},
    time::Micros,
};
use quipu_schemas::{timestamp, v1};

const GENERATION_TIME: &str = "idempotency_token.generation_time";

pub(super) fn token(token: &v1::IdempotencyToken) -> Result<TokenRequest<'_>, Failure> {
    let refuse = |problem: String| {
        Failure::invalid(
            reason::INVALID_FIELD,
            format!("{GENERATION_TIME}: {problem}"),
        )
        .at(GENERATION_TIME)
    };
    let time = token
        .generation_time
        .as_ref()
        .ok_or_else(|| refuse("it is missing".to_owned()))?;
    let generation_time = timestamp::from_proto(time).map_err(|error| refuse(error.to_string()))?;
    Ok(TokenRequest {
        token: &token.token,
        generation_time,
    })
}

pub(super) fn mutation<'a>(
    counter_name: &'a str,
    mutation: Mutation,
    idempotency_token: Option<&'a v1::IdempotencyToken>,
    item_key: &'a str,
) -> Result<MutationRequest<'a>, Failure> {
    let token = idempotency_token.map(token).transpose()?;
    Ok(MutationRequest {
        counter_name,
        mutation,
        token,
        item_key,
    })
}

pub(super) fn item(item: &v1::BatchAddItem) -> Result<MutationRequest<'_>, Failure> {
    let token = item.idempotency_token.as_ref();
    mutation(
        &item.counter_name,
        Mutation::Add(item.delta),
        token,
        &item.item_key,
    )
}

pub(super) fn mutation_status(status: Status) -> i32 {
    let status = match status {
        Status::Accepted | Status::BestEffort => v1::MutationStatus::Accepted,
        Status::AlreadyApplied => v1::MutationStatus::AlreadyApplied,
    };
    status.into()
}

/// Set where a repeated call would count twice.
pub(super) fn idempotent(status: Status) -> Option<bool> {
    (!status.is_idempotent()).then_some(false)
}

pub(super) fn made_token(made: Option<EventToken>) -> Option<v1::IdempotencyToken> {
    made.map(|made| v1::IdempotencyToken {
        token: made.token.as_str().to_owned(),
        generation_time: Some(timestamp::to_proto(made.generation_time)),
    })
}

pub(super) fn result(result: Result<Applied, Failure>) -> v1::BatchAddResult {
    match result {
        Ok(applied) => v1::BatchAddResult {
            status: mutation_status(applied.status),
            idempotent: idempotent(applied.status),
            error: None,
            idempotency_token: made_token(applied.made_token),
        },
        Err(failure) => v1::BatchAddResult {
            status: v1::MutationStatus::Unspecified.into(),
            error: Some(item_status(&failure)),
            idempotency_token: None,
            idempotent: None,
        },
    }
}

/// The time that a read waits for.
pub(super) fn min_freshness(
    time: Option<&prost_types::Timestamp>,
) -> Result<Option<Micros>, Failure> {
    let time = time.map(timestamp::from_proto).transpose();
    time.map_err(|error| {
        let message = format!("min_freshness: {error}");
        Failure::invalid(reason::INVALID_FIELD, message).at("min_freshness")
    })
}

pub(super) fn count_result(result: Result<Count, Failure>) -> v1::BatchGetResult {
    match result {
        Ok(count) => v1::BatchGetResult {
            count: count.count,
            complete_through: count.complete_through.map(timestamp::to_proto),
            approximate: count.complete_through.is_none(),
            error: None,
        },
        Err(failure) => v1::BatchGetResult {
            error: Some(item_status(&failure)),
            ..v1::BatchGetResult::default()
        },
    }
}

pub(super) fn outcome(outcome: EventOutcome) -> v1::LookupEventResponse {
    let (outcome, event) = match outcome {
        EventOutcome::Stored(event) => (v1::EventOutcome::Stored, Some(stored(&event))),
        EventOutcome::NotStored => (v1::EventOutcome::NotStored, None),
        EventOutcome::NotYetKnown => (v1::EventOutcome::NotYetKnown, None),
        EventOutcome::Unknown => (v1::EventOutcome::Unknown, None),
    };
    v1::LookupEventResponse {
        outcome: outcome.into(),
        event,
    }
}

fn stored(event: &StoredEvent) -> v1::StoredEvent {
    v1::StoredEvent {
        mutation: Some(match event.mutation {
            Mutation::Add(delta) => v1::stored_event::Mutation::Delta(delta),
            Mutation::Clear => v1::stored_event::Mutation::Clear(true),
        }),
        event_time: Some(timestamp::to_proto(event.key.event_time)),
        source_partition: event.source.partition,
        source_offset: event.source.offset,
        effective_time: Some(timestamp::to_proto(event.source.effective_time)),
    }
}
