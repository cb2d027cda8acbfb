//! What a namespace does with a token that comes twice, as far as it is known.

use quick_cache::sync::Cache;
use quipu_schemas::namespace::Mode;
use serde_json::Value;
use std::time::Duration;

/// What happens when a mutation is sent twice with the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// It counts once: the namespace keeps events.
    CountOnce,
    /// It counts twice: the namespace keeps counts only (`BEST_EFFORT`).
    CountTwice,
}

impl Repeats {
    /// Reads a namespace's document. A kind of counter that is not known here may keep no events.
    pub(crate) fn of_document(document: &Value) -> Self {
        match serde_json::from_value(document["type"].clone()) {
            Ok(Mode::EventuallyConsistent | Mode::Accurate) => Self::CountOnce,
            Ok(Mode::BestEffort) | Err(_) => Self::CountTwice,
        }
    }
}

/// What was learned, for a while. A namespace keeps its kind for life, but may be deleted and made
/// anew as another.
#[derive(Debug)]
pub(crate) struct Modes {
    learned: Cache<String, (Repeats, Duration)>,
}

impl Modes {
    const MOST: usize = 1_024;
    /// How long something learned is relied on.
    const KEPT: Duration = Duration::from_mins(1);

    pub(crate) fn new() -> Self {
        Self {
            learned: Cache::new(Self::MOST),
        }
    }

    /// What is known of a namespace at a time of the steady clock.
    pub(crate) fn known(&self, namespace: &str, now: Duration) -> Option<Repeats> {
        let (repeats, learned_at) = self.learned.get(namespace)?;
        (now < learned_at + Self::KEPT).then_some(repeats)
    }

    /// Keeps what was learned.
    pub(crate) fn learn(&self, namespace: &str, repeats: Repeats, now: Duration) {
        self.learned.insert(namespace.to_owned(), (repeats, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_kinds_that_keep_events_may_see_a_token_twice() {
        for (document, repeats) in [
            (json!({"namespace": "web"}), Repeats::CountTwice),
            (json!({"type": "EVENTUALLY_CONSISTENT"}), Repeats::CountOnce),
            (json!({"type": "ACCURATE"}), Repeats::CountOnce),
            (json!({"type": "BEST_EFFORT"}), Repeats::CountTwice),
            (json!({"type": "OF_TOMORROW"}), Repeats::CountTwice),
            (json!({"type": 3}), Repeats::CountTwice),
        ] {
            assert_eq!(Repeats::of_document(&document), repeats, "{document}");
        }
    }

    #[test]
    fn what_was_learned_is_forgotten_after_a_minute_and_is_bounded() {
        let (modes, start) = (Modes::new(), Duration::from_secs(7));
        modes.learn("web", Repeats::CountTwice, start);
        let known_after = |seconds| modes.known("web", start + Duration::from_secs(seconds));
        assert_eq!(known_after(59), Some(Repeats::CountTwice));
        assert_eq!(known_after(60), None);
        for number in 0..10 * Modes::MOST {
            modes.learn(&number.to_string(), Repeats::CountOnce, start);
        }
        assert!(modes.learned.len() <= Modes::MOST + 1);
    }
}
