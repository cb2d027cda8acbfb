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
    ports::LogError,
    redis::RedisCache,
    retry::Backoff,
};

/// Everything that a role works with.
pub(super) struct Cluster {
    pub(super) clock: Clock,
    pub(super) kafka: KafkaSettings,
    pub(super) registered: Registered,
    pub(super) log: KafkaProducer,
    pub(super) control: CassandraControlPlane,
    pub(super) events: CassandraEventStore,
    pub(super) rollups: CassandraRollupStore,
    pub(super) cache: RedisCache,
}

/// What knows the namespaces and the partitions.
pub(super) struct Control {
    pub(super) clock: Clock,
    pub(super) kafka: KafkaSettings,
    pub(super) plane: CassandraControlPlane,
    registered: Registered,
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
        let found = control.check().await?;
        for advice in &found.advice {
            tracing::warn!("{advice}");
        }
        found.refuse()?;
        let Control {
            clock,
            kafka,
            plane,
            registered,
            cassandra,
            ..
        } = control;
        Ok(Self {
            clock,
            log: KafkaProducer::connect(kafka.clone(), registered.clone()).await?,
            events: cassandra.events(config.cassandra.dataset()?).await?,
            rollups: cassandra.rollups().await?,
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
pub(super) struct Found {
    /// Counts may be wrong, or roles cannot work.
    problems: Vec<String>,
    /// Worth knowing.
    pub(super) advice: Vec<String>,
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
