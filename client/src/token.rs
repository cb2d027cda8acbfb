//! The idempotency token of one mutation: made once, kept through all retries (R16).

use crate::{failure::Failure, retry::Entropy};
use quipu_core::time::Micros;
use quipu_schemas::{timestamp, v1};

/// A token, its generation time, and where it comes from. Together with the item key the two name
/// an event: the same text with another time counts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
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

/// What happens to a mutation that was refused as late, for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateMutations {
    /// When the client made the token it makes another one, and the mutation counts at the new
    /// time. The refusal is definitive, so nothing can count twice.
    #[default]
    Renew,
    /// The caller decides.
    Return,
}

impl Token {
    /// A fresh token that is refused as late this often has a clock as its cause.
    const MOST_MADE: u32 = 3;

    /// A new token: 128 random bits, made now.
    pub(crate) fn make(now: Micros, entropy: Entropy) -> Self {
        Self {
            text: entropy.uuid().to_string(),
            time: now,
            origin: Origin::Made(1),
        }
    }

    /// The caller's own token, for retries that outlive the process: 1 to 128 bytes of text that
    /// nothing else uses, and the time when it was made, which is the time of the event. Keep both.
    ///
    /// ```
    /// use quipu_client::{Micros, Token};
    ///
    /// let token = Token::given("order-17", Micros::new(1_769_860_800_000_000));
    /// assert_eq!(token.time_text(), "2026-01-31T12:00:00Z");
    /// ```
    pub fn given(text: impl Into<String>, generation_time: Micros) -> Self {
        Self {
            text: text.into(),
            time: generation_time,
            origin: Origin::Given,
        }
    }

    /// The token for the next attempt after a definitive refusal as late, which alone proves that
    /// no earlier attempt was or will be counted. `None` when there is to be no other attempt.
    pub(crate) fn renew(
        &self,
        failure: &Failure,
        now: Micros,
        entropy: Entropy,
        late: LateMutations,
    ) -> Option<Self> {
        match (failure, self.origin, late) {
            (Failure::Late(_), Origin::Made(made), LateMutations::Renew)
                if made < Self::MOST_MADE =>
            {
                Some(Self {
                    origin: Origin::Made(made + 1),
                    ..Self::make(now, entropy)
                })
            }
            _ => None,
        }
    }

    /// How many tokens were made so far, this one included; 1 for a given one.
    pub fn number(&self) -> u32 {
        match self.origin {
            Origin::Given => 1,
            Origin::Made(number) => number,
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it was made: the time of the event.
    pub fn generation_time(&self) -> Micros {
        self.time
    }

    /// Its generation time in RFC 3339.
    pub fn time_text(&self) -> String {
        timestamp::to_rfc3339(self.time)
    }

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
    use crate::failure::Said;
    use LateMutations::{Renew, Return};

    const NOW: Micros = Micros::new(1_000_000);

    #[test]
    fn only_a_refusal_as_late_gives_a_new_token_and_only_three_are_made() {
        let late = Failure::Late(Said::default());
        let unknown = Failure::OutcomeUnknown(Said::default());
        let unsettled = Failure::unsettled("");
        let first = Token::make(NOW, Entropy::fixed(1));
        let renew =
            |token: &Token, failure, bits| token.renew(failure, NOW, Entropy::fixed(bits), Renew);
        assert_eq!(renew(&first, &unknown, 2), None);
        assert_eq!(renew(&first, &unsettled, 2), None);
        assert_eq!(first.renew(&late, NOW, Entropy::fixed(2), Return), None);
        let second = renew(&first, &late, 2).unwrap();
        assert_ne!(first.text(), second.text());
        let third = renew(&second, &late, 3).unwrap();
        assert_eq!(third.number(), 3);
        assert_eq!(renew(&third, &late, 4), None);
    }

    #[test]
    fn a_token_that_the_caller_gave_is_never_replaced() {
        let given = Token::given("order-17", NOW);
        let late = Failure::Late(Said::default());
        assert_eq!(given.renew(&late, NOW, Entropy::fixed(2), Renew), None);
    }
}
