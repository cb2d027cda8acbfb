//! What time slices take on disk, told to the metrics.

use metrics::gauge;
use quipu_adapters::{clock::Clock, metrics::stores::SLICE_BYTES, ports::StoreError};
use quipu_core::{
    slice::{SliceId, Slicing},
    time::Micros,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What each kept slice takes, in bytes.
type Sizes = BTreeMap<SliceId, u64>;

const EVERY: Duration = Duration::from_secs(15);
/// Slices that are older than this many share a label, however long they are kept.
const MOST: i64 = 99;

/// Asks again and again, for ever.
pub(crate) async fn follow<F: Future<Output = Result<Sizes, StoreError>>>(
    clock: Clock,
    slicing: Slicing,
    sizes: impl Fn() -> F,
) {
    let mut known = BTreeSet::new();
    loop {
        match sizes().await {
            Ok(sizes) => tell(&mut known, by_age(&sizes, slicing, clock.now())),
            // Whoever works with the store says what is wrong with it.
            Err(error) => tracing::debug!(%error, "could not ask for the sizes of slices"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rounded size says the same")]
fn tell(known: &mut BTreeSet<String>, sizes: BTreeMap<String, u64>) {
    for gone in known.iter().filter(|age| !sizes.contains_key(*age)) {
        gauge!(SLICE_BYTES, "age" => gone.clone()).set(0.0);
    }
    for (age, bytes) in sizes {
        gauge!(SLICE_BYTES, "age" => age.clone()).set(bytes as f64);
        known.insert(age);
    }
}

/// By how many slices lie between each and the current one. Names of slices would be new ones every
/// day; ages are few.
fn by_age(sizes: &Sizes, slicing: Slicing, now: Micros) -> BTreeMap<String, u64> {
    let current = slicing.slice_of(now);
    let mut ages = BTreeMap::new();
    for (slice, bytes) in sizes {
        let label = match current.0.saturating_sub(slice.0) {
            ..0 => "ahead".to_owned(),
            age @ 0..=MOST => age.to_string(),
            _ => "older".to_owned(),
        };
        *ages.entry(label).or_default() += bytes;
    }
    ages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_few_labels_however_many_they_are() {
        let slicing = Slicing::new(Duration::from_hours(1)).expect("a length");
        let sizes: Sizes = (1..=1_000).map(|id| (SliceId(id), 1)).collect();
        let ages = by_age(&sizes, slicing, slicing.start(SliceId(998)));
        assert_eq!((ages["0"], ages["99"]), (1, 1));
        assert_eq!((ages["ahead"], ages["older"]), (2, 898));
        assert_eq!(ages.len(), 102);
    }
}
