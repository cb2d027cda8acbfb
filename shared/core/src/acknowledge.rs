//! What a gateway may acknowledge (R7), for the gateway that says it, and for the ingest that
//! counts where it was said wrongly.

use crate::{event::NamespaceId, policy::NamespaceHistory, time::Micros};

/// The life that accepts an event at every effective time from `first` to `last`, if one does.
pub fn accepted_throughout(
    history: &NamespaceHistory,
    first: Micros,
    last: Micros,
    event_time: Micros,
) -> Option<NamespaceId> {
    let id = history.decide(first, event_time).ok()?;
    let changed = history
        .at(first)?
        .versions()
        .iter()
        .map(|version| version.from);
    // The horizon only rises, so its end decides; how far ahead an event may be can fall where
    // the limits change.
    changed
        .filter(|from| first < *from && *from < last)
        .chain([last])
        .all(|at| history.decide(at, event_time) == Ok(id))
        .then_some(id)
}
