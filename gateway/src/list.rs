//! The counters of a namespace, in pages.

use crate::{
    failure::{Failure, reason},
    gateway::Gateway,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, ListPosition, Producer, RollupStore};
use quipu_core::{event::NamespaceId, key::route, name::CounterName};
use tonic::Code;

/// The most counters of one page; who asks for more gets this many.
pub const MAX_PAGE_SIZE: usize = 1_000;

/// Counters of a page whose size the caller leaves open.
const DEFAULT_PAGE_SIZE: usize = 100;

/// A page of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Their names, in no order that means anything.
    pub names: Vec<CounterName>,
    /// For the next page; none at the end. A page may be short or empty and not the last.
    pub next_page_token: Option<String>,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// Counters of a namespace that have been rolled up. `page_size` 0 leaves the size open, and an
    /// empty `page_token` begins.
    pub async fn list_counters(
        &self,
        namespace: &str,
        page_size: i32,
        page_token: &str,
    ) -> Result<Counters, Failure> {
        let view = self.view(namespace)?;
        if !view.life.mode().keeps_events() {
            let message =
                format!("namespace {namespace} is BEST_EFFORT: it has no list of counters");
            return Err(Failure::new(
                Code::FailedPrecondition,
                reason::KEEPS_NO_EVENTS,
                message,
            ));
        }
        let limit = size(page_size)?;
        let id = view.life.id();
        let from = match page_token {
            "" => ListPosition::START,
            token => read_token(token, id).ok_or_else(|| {
                let message = "page_token: it is none that an answer for this namespace had as \
                               next_page_token; leave it out to begin anew";
                Failure::invalid(reason::INVALID_FIELD, message).at("page_token")
            })?,
        };
        let page = self.ports.rollups.counters(id, from, limit).await?;
        Ok(Counters {
            names: page.counters,
            next_page_token: page.next.map(|next| token(next, id)),
        })
    }
}

fn size(asked: i32) -> Result<usize, Failure> {
    let asked = usize::try_from(asked).map_err(|_| {
        let message =
            format!("page_size: it is {asked}; give 1 to {MAX_PAGE_SIZE}, or leave it out");
        Failure::invalid(reason::INVALID_FIELD, message).at("page_size")
    })?;
    Ok(if asked == 0 {
        DEFAULT_PAGE_SIZE
    } else {
        asked.min(MAX_PAGE_SIZE)
    })
}

/// A token: the namespace, the position, and a check of both. Whoever makes one up gets to another
/// place in the same list, and sees nothing else.
const FIELDS: usize = 16;
const TOKEN: usize = FIELDS + 8;

fn check(fields: &[u8]) -> [u8; 8] {
    route(fields).to_be_bytes()
}

fn token(position: ListPosition, namespace: NamespaceId) -> String {
    let mut bytes = Vec::with_capacity(TOKEN);
    bytes.extend_from_slice(&namespace.0.to_be_bytes());
    bytes.extend_from_slice(&position.at.to_be_bytes());
    bytes.extend_from_slice(&position.passed.to_be_bytes());
    let check = check(&bytes);
    bytes.extend_from_slice(&check);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn read_token(token: &str, namespace: NamespaceId) -> Option<ListPosition> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let bytes: [u8; TOKEN] = bytes.try_into().ok()?;
    let (fields, given) = bytes.split_at(FIELDS);
    let (id, rest) = fields.split_first_chunk()?;
    let (at, passed) = rest.split_first_chunk()?;
    let position = ListPosition {
        at: i64::from_be_bytes(*at),
        passed: u32::from_be_bytes(passed.try_into().ok()?),
    };
    (given == check(fields) && u32::from_be_bytes(*id) == namespace.0).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_is_read_as_it_was_made_and_for_its_namespace_only(
            (at, passed, id) in any::<(i64, u32, u32)>(),
            (byte, bit) in (0..TOKEN, 0_u8..8),
        ) {
            let position = ListPosition { at, passed };
            let text = token(position, NamespaceId(id));
            prop_assert_eq!(read_token(&text, NamespaceId(id)), Some(position));
            prop_assert_eq!(read_token(&text, NamespaceId(!id)), None);
            let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(&text).unwrap();
            bytes[byte] ^= 1 << bit;
            let changed = BASE64_URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(read_token(&changed, NamespaceId(id)), None);
        }

        #[test]
        fn what_is_no_token_is_refused(text in ".{0,40}") {
            prop_assert_eq!(read_token(&text, NamespaceId(1)), None);
        }
    }

    #[test]
    fn a_page_has_a_size_within_its_limits() {
        assert_eq!(size(0), Ok(DEFAULT_PAGE_SIZE));
        assert_eq!(size(1), Ok(1));
        assert_eq!(size(i32::MAX), Ok(MAX_PAGE_SIZE));
        assert_eq!(size(-1).unwrap_err().field.as_deref(), Some("page_size"));
    }
}
