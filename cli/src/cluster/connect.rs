//! Connections to Kafka, Cassandra and Redis, and the refusal of a cluster that is not fit.

use super::{
    declared::{Asked, Target},
    fitness::{self, Found},
    registered,
};
use crate::commands::exit::{Exit, Failed};
use quipu_adapters::{
    cassandra::{
        Cassandra, CassandraControlPlane, CassandraError, CassandraEventStore,
        CassandraRollupStore, ControlSettings, FirstNamespace, KeyspaceSetup, SetupPlan,
    },
    clock::Clock,
    config::Config,
    kafka::{
        KafkaProducer, KafkaSettings, Registered,
        admin::{self, AcceptLimit, Installed},
    },
    ports::{ControlPlane, LogError, Producer, Topic},
    redis::RedisCache,
    retry::Backoff,
};
use quipu_core::policy;
use quipu_schemas::{cluster::DEFAULT_CLUSTER, namespace::NamespaceDocument};
use std::collections::BTreeMap;

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
    pub(super) cassandra: Cassandra,
}

/// What knows the namespaces and the partitions.
pub(super) struct Control {
    pub(super) clock: Clock,
    pub(super) kafka: KafkaSettings,
    pub(super) plane: CassandraControlPlane,
    pub(super) registered: Registered,
    cassandra: Cassandra,
    plan: SetupPlan,
}

impl Cluster {
    /// The same, however long the cluster is away.
    pub(super) async fn join_patiently(asked: &Asked) -> Result<(Self, Target), Failed> {
        let mut backoff = Backoff::new("reach the cluster");
        loop {
            let joined: Result<_, Failed> = async {
                let target = asked.find().await?;
                Ok((Self::join(&target).await?, target))
            }
            .await;
            match joined {
                Err(failed) if failed.exit == Exit::Unreachable => {
                    backoff.wait(&failed.message()).await;
                }
                joined => return joined,
            }
        }
    }

    /// Connects to everything, and refuses a cluster on which counts could be wrong.
    pub(super) async fn join(target: &Target) -> Result<Self, Failed> {
        let (control, config) = (Control::connect(target).await?, &target.config);
        for finding in fitness::fit(&control).await?.tolerated() {
            tracing::warn!("{finding}");
        }
        let Control {
            clock,
            kafka,
            plane,
            registered,
            cassandra,
            plan,
        } = control;
        let log = KafkaProducer::connect(kafka.clone(), registered.clone()).await?;
        let signals = log.partitions(Topic::Signals);
        check_signals(&kafka.topics.signals, signals, plan.signal_partitions)?;
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
            cassandra,
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
    pub(super) async fn connect(target: &Target) -> Result<Self, Failed> {
        let clock = Clock::system();
        let cassandra = cassandra(&target.config, &clock).await?;
        let opened = Self::open(target, &clock, &cassandra).await?;
        opened.ok_or_else(|| {
            let keyspace = &target.config.cassandra.keyspace;
            let message = format!(
                "setup was not run, or not to its end, in keyspace {keyspace}; run `{}`",
                target.setup()
            );
            Failed::new(Exit::Refused, message)
        })
    }

    /// Opens the control plane; none where setup has not made one.
    pub(super) async fn open(
        target: &Target,
        clock: &Clock,
        cassandra: &Cassandra,
    ) -> Result<Option<Self>, Failed> {
        let config = &target.config;
        let (kafka, plan) = (config.kafka.settings()?, plan(target)?);
        let Some(settled) = cassandra.settled().await? else {
            return Ok(None);
        };
        settled.check(&plan.settled())?;
        let settings = ControlSettings {
            cluster: target.name.clone(),
            claims: target.claims.clone(),
            events_topic: plan.events_topic.clone(),
            dataset: plan.dataset.clone(),
            cache_ttl: Some(config.redis.ttl),
            append_guard: config.gateway.append_guard,
        };
        let plane = cassandra.control(settings).await?;
        Ok(Some(Self {
            clock: clock.clone(),
            registered: registered::follow(plane.topics(), kafka.topics.events.clone()),
            kafka,
            plane,
            cassandra: cassandra.clone(),
            plan,
        }))
    }

    /// What is wrong with the cluster, and how each is mended.
    pub(super) async fn check(&self) -> Result<Found, Failed> {
        let documents = self.documents().await?;
        let longest = documents
            .iter()
            .max_by_key(|document| document.accept_limit);
        let installed = Installed {
            registered: BTreeMap::clone(&self.registered.borrow()),
            signal_partitions: self.plan.signal_partitions,
            events_stored: self.plan.dataset.shape.retention,
            longest_limit: longest.map(|document| AcceptLimit {
                namespace: document.namespace.clone(),
                limit: document.accept_limit,
            }),
        };
        let topics = admin::check(&self.kafka, Some(&installed)).await?;
        let stores = self.cassandra.check().await?;
        Ok(Found::new([topics, stores].concat()))
    }

    /// The namespaces whose events are kept. All are on the one events topic that setup fixed.
    pub(super) async fn documents(&self) -> Result<Vec<NamespaceDocument>, Failed> {
        let listed = self.plane.list().await;
        let listed = listed.map_err(|error| Failed::new(Exit::Internal, error.to_string()))?;
        let documents = listed.into_iter().map(|record| record.document);
        let keeps_events = |it: &NamespaceDocument| policy::Mode::from(it.mode).keeps_events();
        Ok(documents.filter(keeps_events).collect())
    }
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

/// What setup makes, and roles expect.
pub(super) fn plan(target: &Target) -> Result<SetupPlan, Failed> {
    let config = &target.config;
    Ok(SetupPlan {
        first_namespace: if target.name == DEFAULT_CLUSTER {
            FirstNamespace::Make
        } else {
            FirstNamespace::Leave
        },
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
            LogError::Unavailable(_) | LogError::ClientLost(_) => Exit::Unreachable,
            LogError::ClockJumped(_) | LogError::TooLarge { .. } => Exit::Internal,
            LogError::Damaged(_) => Exit::Refused,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
