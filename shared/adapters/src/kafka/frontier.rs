//! What a committed offset carries in its metadata: the effective time of the frontier (R2). A
//! persistent format.

use super::list;
use quipu_core::time::Micros;
use rdkafka::{Offset, TopicPartitionList};

const PREFIX: &str = "quipu1 effective_micros=";

/// The metadata of a frontier's offset.
pub(super) fn metadata(effective_time: Micros) -> String {
    format!("{PREFIX}{}", effective_time.get())
}

/// The effective time in an offset's metadata; `None` when somebody else committed it.
pub(super) fn effective_time(metadata: &str) -> Option<Micros> {
    let micros = metadata.strip_prefix(PREFIX)?.parse().ok()?;
    Some(Micros::new(micros))
}

/// A partition's committed offset and the effective time beside it.
pub(super) fn committed_in(
    list: &TopicPartitionList,
    partition: u32,
) -> Option<(u64, Option<Micros>)> {
    let elements = list.elements();
    let number = list::number(partition);
    let found = elements
        .iter()
        .find(|element| element.partition() == number)?;
    let Offset::Offset(offset) = found.offset() else {
        return None;
    };
    let time = effective_time(found.metadata());
    Some((u64::try_from(offset).ok()?, time))
}

/// An append time of the log, which counts in milliseconds.
pub(super) fn from_millis(millis: i64) -> Micros {
    Micros::new(millis.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_reads_back_and_is_written_as_it_always_was() {
        let text = metadata(Micros::new(-5));
        assert_eq!(text, "quipu1 effective_micros=-5");
        assert_eq!(effective_time(&text), Some(Micros::new(-5)));
        assert_eq!(effective_time(""), None);
        assert_eq!(effective_time("quipu1 effective_micros=x"), None);
    }
}
