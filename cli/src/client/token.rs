//! The idempotency token of one mutation: made once, kept through all retries (R16).

use super::{retry::Entropy, verdict::Failure};
use quipu_core::time::Micros;
use quipu_schemas::{timestamp, v1};

/// A token and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    text: String,
    time: Micros,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The caller gave it, and alone may replace it.
    Given,
    /// Made here, as the how-manieth.
    Made(u32),
}

impl Token {
    /// A fresh token that is refused as late this often has a clock as its cause.
    const MOST_MADE: u32 = 3;

    /// A new token.
    pub(crate) fn make(now: Micros, entropy: Entropy) -> Self {
        Self {
            text: entropy.uuid().to_string(),
            time: now,
            origin: Origin::Made(1),
        }
    }

    /// The caller's own token.
    pub(crate) fn given(text: String, time: Micros) -> Self {
        Self {
            text,
            time,
            origin: Origin::Given,
        }
    }

    /// The token for the next attempt after a definitive refusal as late, which alone proves that
    /// no earlier attempt was or will be counted. `None` when there is to be no other attempt.
    pub(crate) fn renew(&self, failure: &Failure, now: Micros, entropy: Entropy) -> Option<Self> {
        match (failure, self.origin) {
            (Failure::Late(_), Origin::Made(made)) if made < Self::MOST_MADE => Some(Self {
                text: entropy.uuid().to_string(),
                time: now,
                origin: Origin::Made(made + 1),
            }),
            _ => None,
        }
    }

    /// How many tokens were made so far, this one included; 1 for a given one.
    pub(crate) fn number(&self) -> u32 {
        match self.origin {
            Origin::Given => 1,
            Origin::Made(number) => number,
        }
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its generation time in RFC 3339.
    pub(crate) fn time_text(&self) -> String {
        timestamp::to_rfc3339(self.time)
    }

    /// On the wire.
    pub(crate) fn to_proto(&self) -> v1::IdempotencyToken {
        v1::IdempotencyToken {
            token: self.text.clone(),
            generation_time: Some(timestamp::to_proto(self.time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::new(1_000_000);

    #[test]
    fn only_a_refusal_as_late_gives_a_new_token_and_only_three_are_made() {
        let late = Failure::Late(String::new());
        let unknown = Failure::OutcomeUnknown(String::new());
        let unsettled = Failure::unsettled("");
        let first = Token::make(NOW, Entropy::fixed(1));
        assert_eq!(first.renew(&unknown, NOW, Entropy::fixed(2)), None);
        assert_eq!(first.renew(&unsettled, NOW, Entropy::fixed(2)), None);
        let second = first.renew(&late, NOW, Entropy::fixed(2)).unwrap();
        assert_ne!(first.text(), second.text());
        let third = second.renew(&late, NOW, Entropy::fixed(3)).unwrap();
        assert_eq!(third.renew(&late, NOW, Entropy::fixed(4)), None);
    }

    #[test]
    fn a_token_that_the_caller_gave_is_never_replaced() {
        let given = Token::given("order-17".to_owned(), NOW);
        assert_eq!(
            given.renew(&Failure::Late(String::new()), NOW, Entropy::fixed(2)),
            None
        );
    }
}
