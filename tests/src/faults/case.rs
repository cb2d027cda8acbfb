//! What a case is made of. Data only.

use quipu_certify::Mix;
use std::time::Duration;

/// What a fault is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// `quipu gateway`.
    Gateway,
    /// `quipu ingest`.
    Ingest,
    /// `quipu rollup-worker`.
    RollupWorker,
    /// The broker.
    Kafka,
    /// The node.
    Cassandra,
    /// The cache.
    Redis,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL, and after so long it is started again. Of a role, one process is.
    Kill(Duration),
    /// SIGTERM, and after so long it is started again. Of a role, every process is.
    Restart(Duration),
    /// SIGSTOP, and after so long SIGCONT. Of a role, one process is: the oldest.
    Freeze(Duration),
    /// So many processes of a role more for so long, which are then asked to end.
    More(usize, Duration),
    /// Every two seconds, so often, another process of a role joins and the oldest leaves.
    Churn(usize),
    /// Everything that the cache has is removed.
    Flush,
    /// All records of the signals topic are deleted.
    DropSignals,
    /// For so long, of a hundred writes that were done twenty are said to have timed out, and of a
    /// hundred other calls ten are refused as too many.
    Forge(Duration),
}

/// A fault at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// After the end of the step before.
    pub after: Duration,
    /// What it is done to.
    pub target: Target,
    /// What is done.
    pub action: Action,
}

/// A case of the suite.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What it does, as a sentence.
    pub about: &'static str,
    /// What is attempted meanwhile.
    pub mix: Mix,
    /// The accept limit of the namespace.
    pub accept_limit: Duration,
    /// Faults, one after the other; tracks run at the same time.
    pub tracks: Vec<Vec<Step>>,
    /// All tracks begin again until this is over.
    pub lasts: Duration,
}

impl Step {
    /// What it does, for people.
    pub fn about(&self) -> String {
        let target = self.target.name();
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        match self.action {
            Action::Kill(back) => format!("SIGKILL of {target}, back after {}", seconds(back)),
            Action::Restart(back) => format!("SIGTERM of {target}, back after {}", seconds(back)),
            Action::Freeze(time) => format!("SIGSTOP of {target} for {}", seconds(time)),
            Action::More(more, time) => {
                format!("{more} more of {target} for {}", seconds(time))
            }
            Action::Churn(times) => format!("a new {target} every 2 s, {times} times"),
            Action::Flush => format!("FLUSHALL of {target}"),
            Action::DropSignals => "all signals deleted".to_owned(),
            Action::Forge(time) => {
                format!(
                    "timeouts and refusals of {target} forged for {}",
                    seconds(time)
                )
            }
        }
    }
}

impl Target {
    /// Its name: of a role, the verb that runs it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Ingest => "ingest",
            Self::RollupWorker => "rollup-worker",
            Self::Kafka => "kafka",
            Self::Cassandra => "cassandra",
            Self::Redis => "redis",
        }
    }

    /// Whether it is a role of Quipu, not a server that roles stand on.
    pub fn is_role(self) -> bool {
        matches!(self, Self::Gateway | Self::Ingest | Self::RollupWorker)
    }
}
