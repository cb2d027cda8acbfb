//! Connections to Kafka, Cassandra and Redis, and the refusal of a cluster that is not fit.

use super::registered;
use crate::commands::exit::{Exit, Failed};
use quipu_adapters::{
    cassandra::{
        Cassandra, CassandraControlPlane, CassandraError, CassandraEventStore,
        CassandraRollupStore, ControlSettings, KeyspaceSetup, SetupPlan, Severity,
    },
    clock::Clock,
    config::Config,
    kafka::{
        KafkaProducer, KafkaSettings, Registered,
        admin::{self, Finding},
    },
    ports::{LogError, Producer, Topic},
    redis::RedisCache,
    retry::Backoff,
};
use std::time::Duration;

/// Everything that a role works with.
pub(super) struct Cluster {
    pub(super) clock: Clock,
    pub(super) kafka: KafkaSettings,
    pub(super) registered: Registered,
    pub(super) log: KafkaProducer,
    pub(super) control: CassandraControlPlane,
    pub(super) events: CassandraEventStore,
    pub(super) rollups: CassandraRollupStore,
    /// Another user of the rollup store, who is told of lost writes as well.
    pub(super) sweep_rollups: CassandraRollupStore,
    pub(super) cache: RedisCache,
}

/// What knows the namespaces and the partitions.
pub(super) struct Control {
    pub(super) clock: Clock,
    pub(super) kafka: KafkaSettings,
    pub(super) plane: CassandraControlPlane,
    pub(super) registered: Registered,
    cassandra: Cassandra,
    signal_partitions: u32,
}

impl Cluster {
    /// The same, however long the cluster is away.
    pub(super) async fn join_patiently(config: &Config) -> Result<Self, Failed> {
        let mut backoff = Backoff::new("reach the cluster");
        loop {
            match Self::join(config).await {
                Err(failed) if failed.exit == Exit::Unreachable => {
                    backoff.wait(&failed.message()).await;
                }
                joined => return joined,
            }
        }
    }

    /// Connects to everything, and refuses a cluster on which counts could be wrong.
    pub(super) async fn join(config: &Config) -> Result<Self, Failed> {
        let control = Control::connect(config).await?;
        let found = fit(PATIENCE, async || control.check().await).await?;
        for advice in &found.advice {
            tracing::warn!("{advice}");
        }
        let Control {
            clock,
            kafka,
            plane,
            registered,
            cassandra,
            signal_partitions,
        } = control;
        let log = KafkaProducer::connect(kafka.clone(), registered.clone()).await?;
        let signals = log.partitions(Topic::Signals);
        check_signals(&kafka.topics.signals, signals, signal_partitions)?;
        Ok(Self {
            clock,
            log,
            events: cassandra.events(config.cassandra.dataset()?).await?,
            rollups: cassandra.rollups().await?,
            sweep_rollups: cassandra.rollups().await?,
            cache: RedisCache::connect(&config.redis.settings()?)
                .map_err(|error| Failed::new(Exit::Usage, error.to_string()))?,
            control: plane,
            kafka,
            registered,
        })
    }
}

/// Reaches Cassandra.
pub(super) async fn cassandra(config: &Config, clock: &Clock) -> Result<Cassandra, Failed> {
    let settings = config.cassandra.settings()?;
    Ok(Cassandra::connect(settings, clock.clone()).await?)
}

impl Control {
    /// Connects to the control plane, which setup must have made.
    pub(super) async fn connect(config: &Config) -> Result<Self, Failed> {
        let clock = Clock::system();
        let cassandra = cassandra(config, &clock).await?;
        let kafka = config.kafka.settings()?;
        let plan = plan(config)?;
        cassandra.settled().await?.check(&plan.settled())?;
        let settings = ControlSettings {
            events_topic: plan.events_topic,
            dataset: plan.dataset,
            cache_ttl: Some(config.redis.ttl),
        };
        let plane = cassandra.control(settings).await?;
        Ok(Self {
            clock,
            registered: registered::follow(plane.topics(), kafka.topics.events.clone()),
            kafka,
            plane,
            cassandra,
            signal_partitions: plan.signal_partitions,
        })
    }

    /// What is wrong with the cluster, and how each is mended.
    pub(super) async fn check(&self) -> Result<Found, Failed> {
        let topics = admin::check(&self.kafka, &self.registered, self.signal_partitions).await?;
        let (problems, advice) = self
            .cassandra
            .check()
            .await?
            .into_iter()
            .partition::<Vec<_>, _>(|finding| finding.severity == Severity::Problem);
        let problems = problems.into_iter().map(|finding| finding.text);
        Ok(Found {
            is_passing: topics.iter().any(|finding| finding.is_passing),
            problems: topics
                .iter()
                .map(Finding::to_string)
                .chain(problems)
                .collect(),
            advice: advice.into_iter().map(|finding| finding.text).collect(),
        })
    }
}

/// What a check found, with what to change.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Counts may be wrong, or roles cannot work.
    problems: Vec<String>,
    /// Some of the problems are there while partitions are added.
    is_passing: bool,
    /// Worth knowing.
    pub(super) advice: Vec<String>,
}

/// How long something that may pass is waited for.
#[derive(Clone, Copy)]
struct Patience {
    looks: u32,
    pause: Duration,
}

/// Partitions are announced for some ten seconds before they are made (R12).
const PATIENCE: Patience = Patience {
    looks: 20,
    pause: Duration::from_secs(1),
};

/// Looks at a cluster until it is fit, for as long as what is wrong may pass by itself.
async fn fit(
    patience: Patience,
    mut look: impl AsyncFnMut() -> Result<Found, Failed>,
) -> Result<Found, Failed> {
    for looks in 1.. {
        let found = look().await?;
        let Err(unfit) = found.refuse() else {
            return Ok(found);
        };
        if !found.is_passing || looks >= patience.looks {
            return Err(unfit);
        }
        if looks == 1 {
            let message = unfit.message();
            tracing::warn!("{message}\nthis may pass while partitions are added: waiting for it");
        }
        tokio::time::sleep(patience.pause).await;
    }
    unreachable!("patience ends")
}

/// Roles route by the number of partitions that they see, so all must see the same (R17).
fn check_signals(topic: &str, partitions: u32, settled: u32) -> Result<(), Failed> {
    if partitions == settled {
        return Ok(());
    }
    let message = format!(
        "topic {topic} has {partitions} partitions, but {settled} were fixed at setup: signals of \
         one counter would reach several workers. Stop all roles, delete {topic} and create it \
         again with `quipu admin setup`; the sweep makes up for its signals"
    );
    Err(Failed::new(Exit::Refused, message))
}

impl Found {
    /// Refuses a cluster with problems.
    pub(super) fn refuse(&self) -> Result<(), Failed> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let lines = self.problems.iter().map(|problem| format!("\n- {problem}"));
        let message = format!("the cluster is not fit:{}", lines.collect::<String>());
        Err(Failed::new(Exit::Refused, message))
    }
}

/// What setup makes, and roles expect.
pub(super) fn plan(config: &Config) -> Result<SetupPlan, Failed> {
    Ok(SetupPlan {
        keyspace: KeyspaceSetup::Create,
        events_topic: config.kafka.topics.events.clone(),
        event_partitions: config.kafka.event_partitions,
        signal_partitions: config.kafka.signal_partitions,
        dataset: config.cassandra.dataset()?,
    })
}

impl From<CassandraError> for Failed {
    fn from(error: CassandraError) -> Self {
        let exit = match error {
            CassandraError::Unreachable { .. } => Exit::Unreachable,
            CassandraError::Refused(_) => Exit::Refused,
            CassandraError::Store(_) => Exit::Internal,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<LogError> for Failed {
    fn from(error: LogError) -> Self {
        let exit = match error {
            LogError::Unavailable(_) => Exit::Unreachable,
            LogError::ClockJumped(_) | LogError::TooLarge { .. } => Exit::Internal,
            LogError::Damaged(_) => Exit::Refused,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn wrong(is_passing: bool) -> Found {
        Found {
            problems: vec!["partitions [4] are registered only".to_owned()],
            is_passing,
            ..Found::default()
        }
    }

    /// How often a cluster was looked at that shows these one after the other, the last for ever.
    async fn looks(found: impl IntoIterator<Item = Found>) -> (usize, Result<Found, Failed>) {
        let (mut found, mut looks) = (VecDeque::from_iter(found), 0);
        let patience = Patience {
            looks: 5,
            pause: Duration::ZERO,
        };
        let ended = fit(patience, async || {
            looks += 1;
            Ok(match found.len() {
                1 => wrong(found[0].is_passing),
                _ => found.pop_front().expect("one at least"),
            })
        });
        let ended = ended.await;
        (looks, ended)
    }

    #[tokio::test]
    async fn partitions_that_are_being_added_are_waited_for() {
        let now_fit = [wrong(true), wrong(true), Found::default(), wrong(true)];
        let (looks, ended) = looks(now_fit).await;
        assert_eq!((looks, ended.is_ok()), (3, true));
    }

    #[tokio::test]
    async fn what_stays_wrong_is_refused_at_once_and_what_may_pass_after_a_while() {
        let (once, ended) = looks([wrong(false)]).await;
        assert_eq!(once, 1);
        let refused = ended.expect_err("refused");
        assert_eq!(refused.exit, Exit::Refused);
        assert!(refused.message().contains("partitions [4]"));
        let (often, ended) = looks([wrong(true)]).await;
        assert_eq!((often, ended.is_err()), (5, true));
    }

    #[test]
    fn a_role_that_sees_another_number_of_signal_partitions_than_was_fixed_is_refused() {
        assert!(check_signals("s", 8, 8).is_ok());
        for partitions in [7, 9] {
            let refused = check_signals("s", partitions, 8).expect_err("refused");
            assert!(refused.message().contains("quipu admin setup"));
            assert_eq!(refused.exit, Exit::Refused);
        }
    }
}
