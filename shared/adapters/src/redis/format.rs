//! Keys and values as Redis keeps them: a persistent format, though a short-lived one.
//!
//! A value is `STAMP:COUNT`. The stamp is the place of the checkpoint among the counter's others:
//! the generation in 4 digits and the time in 20, zero-padded, so that stamps compare as strings.
//! A Lua number is a double, and would lose the microseconds; digits compare alike in every locale.

use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    event::CounterKey,
    time::Micros,
};

/// Digits of a stamp.
pub(super) const STAMP_DIGITS: usize = GENERATION_DIGITS + TIME_DIGITS;
const GENERATION_DIGITS: usize = 4;
const TIME_DIGITS: usize = 20;
/// Times begin at this one, so that none is negative.
const FIRST: i128 = i64::MIN as i128;

/// The key of a counter. Its empty braces come before any in the name, so that no part of a name
/// is taken for a hash tag: the counters of a cluster spread over all slots.
pub(super) fn key(prefix: &str, counter: &CounterKey) -> String {
    format!(
        "{prefix}{{}}:{}:{}",
        counter.namespace.0,
        counter.name.as_str()
    )
}

/// The key of a counter of which Redis alone knows the count. No prefix has braces, so what follows
/// the first ones tells it from the key of a checkpoint.
pub(super) fn best_effort_key(prefix: &str, counter: &CounterKey) -> String {
    format!(
        "{prefix}{{}}best_effort:{}:{}",
        counter.namespace.0,
        counter.name.as_str()
    )
}

/// The place of a checkpoint among the counter's others.
pub(super) fn stamp(checkpoint: &Checkpoint) -> String {
    let generation = checkpoint.generation.get();
    let time = i128::from(checkpoint.last_rollup.get()) - FIRST;
    format!("{generation:0GENERATION_DIGITS$}{time:0TIME_DIGITS$}")
}

/// The count as it follows the stamp.
pub(super) fn count(checkpoint: &Checkpoint) -> String {
    format!(":{}", checkpoint.count.get())
}

/// Reads a value back. What quipu did not write is as good as nothing: the next set replaces it.
pub(super) fn parse(value: &str) -> Option<Checkpoint> {
    let (stamp, count) = value.split_once(':')?;
    if stamp.len() != STAMP_DIGITS || !stamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (generation, time) = stamp.split_at(GENERATION_DIGITS);
    let time = i64::try_from(time.parse::<i128>().ok()? + FIRST).ok()?;
    Some(Checkpoint {
        generation: Generation::new(generation.parse().ok()?)?,
        count: Count::new(count.parse().ok()?),
        last_rollup: Micros::new(time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quipu_core::{event::NamespaceId, name::CounterName};

    fn checkpoints() -> impl Strategy<Value = Checkpoint> {
        (0..Generation::LIMIT, any::<i128>(), any::<i64>()).prop_map(|(generation, count, time)| {
            Checkpoint {
                generation: Generation::new(generation).unwrap(),
                count: Count::new(count),
                last_rollup: Micros::new(time),
            }
        })
    }

    proptest! {
        #[test]
        fn a_value_is_read_back_as_it_was_written(checkpoint in checkpoints()) {
            let value = stamp(&checkpoint) + &count(&checkpoint);
            prop_assert_eq!(parse(&value), Some(checkpoint));
        }

        #[test]
        fn stamps_compare_as_checkpoints_do(a in checkpoints(), b in checkpoints()) {
            prop_assert_eq!(stamp(&a) > stamp(&b), a.supersedes(&b));
            prop_assert_eq!(stamp(&a).len(), STAMP_DIGITS);
        }

        #[test]
        fn no_value_of_others_is_misread(value in ".{0,60}") {
            if let Some(checkpoint) = parse(&value) {
                prop_assert_eq!(parse(&(stamp(&checkpoint) + &count(&checkpoint))), Some(checkpoint));
            }
        }
    }

    #[test]
    fn keys_and_values_stay_as_they_are() {
        let counter = CounterKey {
            namespace: NamespaceId(7),
            name: CounterName::new("a{b}:c").unwrap(),
        };
        assert_eq!(key("quipu", &counter), "quipu{}:7:a{b}:c");
        let best_effort = best_effort_key("quipu", &counter);
        assert_eq!(best_effort, "quipu{}best_effort:7:a{b}:c");
        let checkpoint = Checkpoint {
            generation: Generation::new(3).unwrap(),
            count: Count::new(-5),
            last_rollup: Micros::new(1),
        };
        assert_eq!(
            stamp(&checkpoint) + &count(&checkpoint),
            "000309223372036854775809:-5"
        );
    }
}
