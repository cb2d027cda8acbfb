//! Clients that lost their cluster for good. After an outage a broker may answer a request for
//! metadata without naming a single broker, for as long as its controller has it fenced. librdkafka
//! then gives up all brokers that it knows, also those that it was told to begin with, and has
//! nobody left to ask: the client is silent for ever. What tells that from an outage is another
//! client of the same settings, which the cluster answers.

use super::{CALL_TIMEOUT, KafkaSettings, blocking, context::PlainContext};
use crate::metrics::stores::CLIENTS_LOST;
use rdkafka::{
    ClientContext,
    client::Client,
    consumer::{BaseConsumer, Consumer},
};
use std::{
    sync::Weak,
    time::{Duration, Instant},
};

/// A client that heard nothing for this long is asked whether it still can.
const QUIET: Duration = Duration::from_secs(20);
/// A client is asked again after this long.
const APART: Duration = Duration::from_secs(5);
/// How long a client has for an answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Whom the cluster answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// The client in question.
    It,
    /// Another one, and not the client in question.
    OnlyOthers,
    /// Nobody, as far as is known: an outage.
    Nobody,
}

/// Watches over a client that hears nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vigil {
    heard: Instant,
    asked: Option<Instant>,
    suspected: bool,
}

impl Vigil {
    /// Over a client that is well now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            heard: now,
            asked: None,
            suspected: false,
        }
    }

    /// Something came from the cluster.
    pub(super) fn heard(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Whether it is time to ask whom the cluster answers.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let since = |before| now.saturating_duration_since(before);
        since(self.heard) >= QUIET && self.asked.is_none_or(|asked| since(asked) >= APART)
    }

    /// Takes the answer to a question that was due. Returns whether the client is lost: once is
    /// not enough, since the cluster may have come back between the two questions.
    pub(super) fn is_lost(&mut self, now: Instant, answers: Answers) -> bool {
        match answers {
            Answers::It => self.heard(now),
            Answers::Nobody => {
                self.asked = Some(now);
                self.suspected = false;
            }
            Answers::OnlyOthers if self.suspected => {
                self.heard(now);
                return true;
            }
            Answers::OnlyOthers => {
                self.asked = Some(now);
                self.suspected = true;
            }
        }
        false
    }
}

/// Whether the cluster answers a client. Blocks for some seconds.
pub(super) fn answers<C: ClientContext>(client: &Client<C>, topic: &str) -> bool {
    client.fetch_metadata(Some(topic), ANSWER).is_ok()
}

/// Finds out whom the cluster answers, when it is not the client in question. Blocks for some
/// seconds.
pub(super) fn ask_for_another(settings: &KafkaSettings, topic: &str) -> Answers {
    let another = settings.admin().create_with_context(PlainContext);
    let metadata = another.and_then(|another: BaseConsumer<PlainContext>| {
        another.client().fetch_metadata(Some(topic), CALL_TIMEOUT)
    });
    match metadata {
        // A cluster that names no brokers is not well yet.
        Ok(metadata) if !metadata.brokers().is_empty() => Answers::OnlyOthers,
        _ => Answers::Nobody,
    }
}

/// Resolves once a client is lost, or nobody else uses it any more.
pub(super) async fn until_lost<T: Send + Sync + 'static>(
    client: Weak<T>,
    settings: KafkaSettings,
    topic: String,
    is_answered: fn(&T, &str) -> bool,
) {
    let mut vigil = Vigil::new(Instant::now());
    loop {
        tokio::time::sleep(APART).await;
        let Some(client) = client.upgrade() else {
            return;
        };
        let (settings, topic) = (settings.clone(), topic.clone());
        let due = vigil.is_due(Instant::now());
        let asked = blocking(move || {
            Ok(if is_answered(&client, &topic) {
                Answers::It
            } else if due {
                ask_for_another(&settings, &topic)
            } else {
                Answers::Nobody
            })
        });
        let answers = asked.await.unwrap_or(Answers::Nobody);
        if vigil.is_lost(Instant::now(), answers) {
            return;
        }
    }
}

/// Says that a client is lost, and that another one takes its place.
pub(super) fn tell(client: &'static str) {
    tracing::warn!(
        client,
        "a Kafka client lost its cluster, which answers others; another client takes its place"
    );
    metrics::counter!(CLIENTS_LOST, "client" => client).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_is_asked_once_it_was_quiet_for_long_and_not_too_often() {
        let start = Instant::now();
        let mut vigil = Vigil::new(start);
        assert!(!vigil.is_due(at(start, 19)));
        assert!(vigil.is_due(at(start, 20)));
        vigil.heard(at(start, 20));
        assert!(!vigil.is_due(at(start, 39)));
        assert!(vigil.is_due(at(start, 40)));
        assert!(!vigil.is_lost(at(start, 50), Answers::OnlyOthers));
        assert!(!vigil.is_due(at(start, 54)));
        assert!(vigil.is_due(at(start, 55)));
    }

    #[test]
    fn a_client_is_lost_when_only_others_are_answered_twice_in_a_row() {
        let start = Instant::now();
        let mut vigil = Vigil::new(start);
        assert!(!vigil.is_lost(at(start, 20), Answers::OnlyOthers));
        assert!(vigil.is_lost(at(start, 25), Answers::OnlyOthers));
        assert!(
            !vigil.is_due(at(start, 26)),
            "what takes its place starts afresh"
        );
    }

    #[test]
    fn an_outage_and_a_client_that_is_answered_after_all_end_the_suspicion() {
        let start = Instant::now();
        for (between, due) in [(Answers::Nobody, 30), (Answers::It, 45)] {
            let mut vigil = Vigil::new(start);
            assert!(!vigil.is_lost(at(start, 20), Answers::OnlyOthers));
            assert!(!vigil.is_lost(at(start, 25), between));
            assert!(!vigil.is_due(at(start, due - 1)), "{between:?}");
            assert!(vigil.is_due(at(start, due)), "{between:?}");
            assert!(!vigil.is_lost(at(start, due), Answers::OnlyOthers));
            assert!(vigil.is_lost(at(start, due + 5), Answers::OnlyOthers));
        }
    }
}
