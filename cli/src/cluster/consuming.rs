//! What the roles that read a topic have in common: probes that answer while they start, the
//! cluster that they join, and their end.

use super::{
    connect::Cluster,
    declared::Asked,
    dependencies::{Dependencies, LookAt},
    health,
    serving::{self, Serving},
    watched::Watch,
};
use crate::{
    commands::exit::{Exit, Failed},
    process::{metrics, readiness::Readiness, threads::Threads},
};
use quipu_adapters::{
    config::Config,
    ports::{ControlPlane, LogError},
    retry::Backoff,
};
use quipu_gateway::Transport;
use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

/// Who the role is.
pub(super) struct Identity<'a> {
    /// As in `quipu NAME`.
    pub(super) name: &'static str,
    /// Where its probes are answered.
    pub(super) http: &'a str,
    /// A partition that makes no progress for this long is no longer live.
    pub(super) stuck_after: Duration,
}

/// A role that has joined its cluster and does nothing yet.
pub(super) struct Joined {
    pub(super) cluster: Cluster,
    /// What holds for it.
    pub(super) config: Config,
    /// Told of the progress of each partition.
    pub(super) watch: Watch,
    /// Where its work runs.
    pub(super) roles: Threads,
    name: &'static str,
    readiness: Readiness,
    serving: Serving,
    address: SocketAddr,
}

/// Answers probes and joins the cluster; `None` when the process was asked to stop first.
pub(super) async fn join(
    asked: &Asked,
    identity: Identity<'_>,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Joined>, Failed> {
    let metrics = metrics::install()?;
    let taken = serving::take(identity.http, "http").await?;
    let (readiness, watch) = (Readiness::starting(), Watch::default());
    let dependencies = Dependencies::unknown();
    let (ready, watched, answers) = (readiness.clone(), watch.clone(), dependencies.clone());
    let stuck_after = identity.stuck_after;
    let probes = health::Probes {
        live: Arc::new(move || watched.progress().check(stuck_after)),
        ready: Arc::new(move || ready.check().and_then(|()| answers.check())),
        metrics,
    };
    let address = taken.address;
    let serving = Serving::start(
        vec![taken],
        &Transport::Plain,
        &health::router(probes),
        health::limits(),
    );
    let (cluster, target) = tokio::select! {
        joined = Cluster::join_patiently(asked) => joined?,
        () = stop => return Ok(None),
    };
    let look = LookAt {
        log: cluster.log.clone(),
        policies: cluster.control.policies(),
        clock: cluster.clock.clone(),
        watch: watch.clone(),
    };
    tokio::spawn(dependencies.follow(look));
    Ok(Some(Joined {
        cluster,
        config: target.config,
        watch,
        roles: Threads::new(readiness.clone()),
        name: identity.name,
        readiness,
        serving,
        address,
    }))
}

impl Joined {
    /// Lets the role work until it is to stop or has failed. Probes are answered for `afterwards`
    /// once its work has ended.
    pub(super) async fn work(
        mut self,
        stop: Pin<&mut impl Future<Output = ()>>,
        afterwards: Duration,
    ) -> Result<Exit, Failed> {
        self.readiness.started();
        serving::announce(&format!(
            "quipu {} runs; health and metrics on http://{}",
            self.name, self.address
        ));
        let failure = serving::until_stopped(&mut self.roles, stop).await;
        self.readiness.stopping();
        let stopped = self.roles.stop().await;
        tokio::time::sleep(afterwards).await;
        self.serving.stop().await;
        stopped?;
        failure.map_or(Ok(Exit::Done), |failure| Err(failure.into()))
    }
}

/// Runs a role with one consumer after another, until it is to stop or has failed: the next one
/// takes the place of one that has lost its cluster, and goes on from what is committed.
pub(super) async fn run_with<C, E, Connecting, Running>(
    first: C,
    connect: impl Fn() -> Connecting,
    run: impl Fn(C) -> Running,
    is_lost: impl Fn(&E) -> bool,
    stopped: impl Future<Output = ()> + Clone,
) -> Result<(), E>
where
    E: From<LogError> + std::fmt::Display,
    Connecting: Future<Output = Result<C, LogError>>,
    Running: Future<Output = Result<(), E>>,
{
    let mut consumer = first;
    loop {
        match run(consumer).await {
            Err(error) if is_lost(&error) => {
                tracing::info!(%error, "going on from what is committed, with another consumer");
            }
            ended => return ended,
        }
        consumer = tokio::select! {
            next = connect_patiently(&connect) => next?,
            () = stopped.clone() => return Ok(()),
        };
    }
}

async fn connect_patiently<C, Connecting>(connect: &impl Fn() -> Connecting) -> Result<C, LogError>
where
    Connecting: Future<Output = Result<C, LogError>>,
{
    let mut backoff = Backoff::new("join the group with another consumer");
    loop {
        match connect().await {
            Err(error @ LogError::Unavailable(_)) => backoff.wait(&error).await,
            made => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{
        FutureExt,
        future::{self, BoxFuture},
    };
    use quipu_adapters::{
        clock::Clock,
        memory::{MemoryConsumer, MemoryEventStore, MemoryLog},
        ports::{Body, Committed, Consumer, NewRecord, Polled, Producer, Topic},
        watermarks::WatermarkBoard,
    };
    use quipu_core::{policy::PolicyBook, slice::Slicing, time::Micros, watermark::Watermarks};
    use quipu_ingest::{IngestError, Ports, Settings, ticks::TickSettings};
    use std::{cell::Cell, collections::VecDeque};
    use tokio::sync::{oneshot, watch};

    /// Has lost its cluster after so many polls.
    struct Losing {
        consumer: MemoryConsumer,
        polls: usize,
        last: VecDeque<Result<Polled, LogError>>,
    }

    impl Losing {
        fn new(log: &MemoryLog, polls: usize) -> Self {
            let lost = LogError::ClientLost("the cluster answers others".to_owned());
            Self {
                consumer: log.consumer(Topic::Events),
                polls,
                last: [Ok(Polled::Lost(vec![0])), Err(lost)].into(),
            }
        }
    }

    impl Consumer for Losing {
        async fn poll(&mut self) -> Result<Polled, LogError> {
            if self.polls == 0 {
                return self.last.pop_front().expect("the role has ended");
            }
            let polled = self.consumer.poll().await;
            self.polls -= 1;
            polled
        }

        fn commit(
            &mut self,
            frontiers: Vec<(u32, Committed)>,
        ) -> BoxFuture<'static, Result<(), LogError>> {
            self.consumer.commit(frontiers)
        }

        fn release(&mut self, _: Vec<u32>) {}

        fn seek(&mut self, partition: u32, next_offset: u64) {
            self.consumer.seek(partition, next_offset);
        }

        fn pause(&mut self, partition: u32) {
            self.consumer.pause(partition);
        }

        fn resume(&mut self, partition: u32) {
            self.consumer.resume(partition);
        }
    }

    fn settings() -> Settings {
        let tick = Duration::from_secs(1);
        Settings {
            topic: "quipu-events",
            batch_rows: 10,
            linger: Duration::from_millis(10),
            in_flight: 2,
            ticks: TickSettings {
                active: tick,
                idle: tick,
                idle_after: tick,
            },
            most_refused_percent: 100,
            append_guard: Duration::ZERO,
        }
    }

    fn ports(log: &MemoryLog, clock: Clock) -> Ports<MemoryLog, MemoryEventStore> {
        let slicing = Slicing::new(Duration::from_hours(24)).expect("a valid length");
        Ports {
            log: log.clone(),
            events: MemoryEventStore::new(slicing),
            watermarks: WatermarkBoard::new(Watermarks::new([(0, Micros::new(0))])),
            policies: watch::channel(Arc::new(PolicyBook::new([], Micros::MAX))).1,
            clock,
        }
    }

    #[tokio::test]
    async fn a_role_whose_client_lost_the_log_goes_on_with_another_from_what_is_committed() {
        const RECORDS: u64 = 5;
        let (clock, _) = Clock::manual(Micros::new(0));
        let log = MemoryLog::new(clock.clone(), 1);
        let record = |_| NewRecord {
            partition: 0,
            body: Body::value("no event"),
        };
        let records = (0..RECORDS).map(record).collect();
        log.append(Topic::Events, records).await.expect("appended");
        let (ports, connected) = (ports(&log, clock), Cell::new(0));
        let connect = || {
            connected.set(connected.get() + 1);
            future::ready(match connected.get() {
                // As after an outage.
                2 => Err(LogError::Unavailable("nobody answers".to_owned())),
                // The first one has brought all records then, and none is committed.
                1 => Ok(Losing::new(&log, 2)),
                _ => Ok(Losing::new(&log, usize::MAX)),
            })
        };
        let first = connect().await.expect("the first one");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = stopped.map(drop).shared();
        let run =
            |consumer| quipu_ingest::run(consumer, ports.clone(), settings(), stopped.clone());
        let is_lost = |error: &_| matches!(error, IngestError::Log(LogError::ClientLost(_)));
        let work = run_with(first, connect, run, is_lost, stopped.clone());
        let until_committed = async {
            while log.committed(Topic::Events)[0].next_offset < RECORDS {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.send(()).expect("it runs");
        };
        let both = async { tokio::join!(work, until_committed) };
        let ended = tokio::time::timeout(Duration::from_secs(10), both).await;
        assert!(matches!(ended, Ok((Ok(()), ()))), "{ended:?}");
        assert_eq!(connected.get(), 3);
    }

    #[tokio::test]
    async fn a_role_that_failed_for_another_reason_ends() {
        let connect = || future::ready(Ok(()));
        let run = |()| future::ready(Err(LogError::Damaged("a record is gone".to_owned())));
        let is_lost = |error: &_| matches!(error, LogError::ClientLost(_));
        let ended = run_with((), connect, run, is_lost, future::pending::<()>()).await;
        assert!(matches!(ended, Err(LogError::Damaged(_))), "{ended:?}");
    }
}
