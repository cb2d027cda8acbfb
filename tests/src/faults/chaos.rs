//! Carries out the steps of a case.

use super::{
    case::{Action, Case, Step, Target},
    proxy::Proxy,
    roles::Roles,
    stack::{Addresses, Stack},
};
use futures::future::try_join_all;
use quipu_adapters::{config::Config, kafka::KafkaSettings};
use quipu_certify::{Failure, Journal};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    metadata::MetadataTopic,
};
use rustix::process::Signal;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};

const CHURN: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_secs(10);

/// What faults are done to.
pub(super) struct Chaos {
    pub(super) roles: Arc<Roles>,
    /// None where the servers are somebody else's: then nothing is done to them.
    pub(super) stack: Option<Arc<Stack>>,
    pub(super) addresses: Addresses,
    pub(super) proxy: Option<Proxy>,
    pub(super) config: Config,
}

impl Chaos {
    /// Runs all tracks of a case to their ends, and again until its time is over.
    pub(super) async fn run(&self, case: &Case, journal: &Journal) -> Result<(), Failure> {
        let began = Instant::now();
        let track = |steps: &Vec<Step>| {
            let steps = steps.clone();
            async move {
                loop {
                    for step in &steps {
                        sleep(step.after).await;
                        journal.during(&step.about(), self.inject(*step)).await?;
                    }
                    if steps.is_empty() || began.elapsed() >= case.lasts {
                        return Ok::<_, Failure>(());
                    }
                }
            }
        };
        try_join_all(case.tracks.iter().map(track)).await?;
        sleep(case.lasts.saturating_sub(began.elapsed())).await;
        Ok(())
    }

    async fn inject(&self, step: Step) -> Result<(), Failure> {
        let Step { target, action, .. } = step;
        match action {
            Action::Kill(back) if target.is_role() => {
                self.on_roles(move |roles| roles.kill(target)).await?;
                sleep(back).await;
                self.roles.start(target)
            }
            Action::Restart(back) if target.is_role() => {
                let processes = self.roles.count(target);
                self.on_roles(move |roles| (0..processes).try_for_each(|_| roles.end(target)))
                    .await?;
                sleep(back).await;
                (0..processes).try_for_each(|_| self.roles.start(target))
            }
            Action::Freeze(time) if target.is_role() => {
                let frozen = self.roles.freeze(target)?;
                sleep(time).await;
                drop(frozen);
                Ok(())
            }
            Action::Kill(back) => self.end_server(target, Signal::KILL, back).await,
            Action::Restart(back) => self.end_server(target, Signal::TERM, back).await,
            Action::Freeze(time) => {
                let frozen = self.stack()?.freeze(target)?;
                sleep(time).await;
                drop(frozen);
                Ok(())
            }
            Action::More(more, time) => {
                (0..more).try_for_each(|_| self.roles.start(target))?;
                sleep(time).await;
                self.on_roles(move |roles| (0..more).try_for_each(|_| roles.end(target)))
                    .await
            }
            Action::Churn(times) => {
                for _ in 0..times {
                    self.roles.start(target)?;
                    sleep(CHURN).await;
                    self.on_roles(move |roles| roles.end(target)).await?;
                }
                Ok(())
            }
            Action::Flush => self.flush().await,
            Action::DropSignals => drop_signals(&self.config.kafka.settings()?).await,
            Action::Forge(time) => self.forge(time).await,
        }
    }

    fn stack(&self) -> Result<&Arc<Stack>, Failure> {
        let none = || Failure::new("the servers are not this suite's own, and are left alone");
        self.stack.as_ref().ok_or_else(none)
    }

    /// Waits for processes away from those who wait for answers.
    async fn on_roles(
        &self,
        work: impl FnOnce(&Roles) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let roles = Arc::clone(&self.roles);
        spawn_blocking(move || work(&roles)).await?
    }

    async fn end_server(
        &self,
        server: Target,
        signal: Signal,
        back: Duration,
    ) -> Result<(), Failure> {
        let stack = Arc::clone(self.stack()?);
        stack.tell(server, signal)?;
        sleep(back).await;
        spawn_blocking(move || stack.start_again(server)).await?
    }

    async fn forge(&self, time: Duration) -> Result<(), Failure> {
        let none = || Failure::new("no proxy stands between the roles and Cassandra");
        let proxy = self.proxy.as_ref().ok_or_else(none)?;
        let before = proxy.told();
        let lying = proxy.lie();
        sleep(time).await;
        drop(lying);
        if proxy.told() == before {
            return Err(Failure::new("nothing was forged: nobody called Cassandra"));
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Failure> {
        let flushing = async {
            let mut redis = TcpStream::connect(&self.addresses.redis).await?;
            redis.write_all(b"FLUSHALL\r\n").await?;
            let mut answer = [0; 5];
            redis.read_exact(&mut answer).await?;
            Ok::<_, Failure>(answer)
        };
        let answer = timeout(CALL, flushing).await;
        let answer = answer.map_err(|_| Failure::new("Redis does not answer FLUSHALL"))??;
        if answer != *b"+OK\r\n" {
            return Err(Failure::new(format!(
                "Redis answers {answer:?} to FLUSHALL"
            )));
        }
        Ok(())
    }
}

/// Deletes all records of the signals topic.
async fn drop_signals(kafka: &KafkaSettings) -> Result<(), Failure> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &kafka.brokers);
    let (topic, looking) = (kafka.topics.signals.clone(), config.clone());
    let ends = spawn_blocking(move || {
        let consumer: BaseConsumer = looking.create()?;
        let metadata = consumer.fetch_metadata(Some(&topic), CALL)?;
        let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        let mut ends = TopicPartitionList::new();
        for partition in partitions {
            ends.add_partition_offset(&topic, partition.id(), Offset::End)?;
        }
        Ok::<_, Failure>(ends)
    });
    let ends = ends.await??;
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    admin.delete_records(&ends, &AdminOptions::new()).await?;
    Ok(())
}
