//! Whether what a role depends on answers: what readiness says, and liveness must not.

use super::watched::Watch;
use quipu_adapters::{clock::Clock, kafka::KafkaProducer};
use quipu_core::policy::PolicyBook;
use quipu_schemas::timestamp::to_rfc3339;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What was found at the last look. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(super) struct Dependencies(Arc<Mutex<Result<(), String>>>);

/// What is looked at.
pub(super) struct LookAt {
    pub(super) log: KafkaProducer,
    /// It is granted by Cassandra, second by second (R5).
    pub(super) policies: watch::Receiver<Arc<PolicyBook>>,
    pub(super) clock: Clock,
    /// Whose partitions wait while something does not answer.
    pub(super) watch: Watch,
}

impl Dependencies {
    /// Nothing was looked at yet.
    pub(super) fn unknown() -> Self {
        Self(Arc::new(Mutex::new(Err(
            "the cluster was not asked yet".to_owned()
        ))))
    }

    /// Why the role cannot do its work, if it cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks again and again, for ever.
    pub(super) async fn follow(self, at: LookAt) {
        let mut before = at.clock.read().steady;
        loop {
            let found = look(&at).await;
            let now = at.clock.read().steady;
            let answers = found.as_ref().copied().map_err(String::as_str);
            at.watch
                .progress()
                .passed(now.saturating_sub(before), answers);
            before = now;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn look(at: &LookAt) -> Result<(), String> {
    let valid_through = at.policies.borrow().valid_through();
    if valid_through < at.clock.now() {
        let through = to_rfc3339(valid_through);
        return Err(format!(
            "the policy is known through {through} only: the control plane in Cassandra does not answer"
        ));
    }
    at.log.ping().await.map_err(|error| error.to_string())
}
