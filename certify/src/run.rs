//! One run: a namespace of its own, a load with a ledger, faults meanwhile, and the verdict.

use crate::{
    failure::Failure,
    journal::{Injected, Journal},
    ledger::{self, Ledger},
    load::{self, Volume},
    observed::Observed,
    plan::{Generator, Mix, Plan},
    reads::{Reader, Reads},
    send::Sender,
    stores::Stores,
    timeline::{Second, Timeline},
    topics::{self, Ends, Publisher},
    verdict::{Verdict, judge},
};
use quipu_adapters::{clock::Clock, config::Config, kafka::KafkaSettings};
use quipu_client::Client;
use quipu_core::{event::NamespaceId, name::Namespace};
use serde_json::json;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Before the first fault, so that every counter is active.
const WARM: Duration = Duration::from_secs(5);
/// After so long without it, counts do not come back.
const PATIENCE: Duration = Duration::from_mins(3);
/// For so long after its caller gave up, a gateway or a producer may still append an event.
const STILL_UNDER_WAY: Duration = Duration::from_secs(12);
/// How far clocks of brokers and of this machine may differ.
const SKEW: Duration = Duration::from_secs(1);

/// What to run, and against what.
#[derive(Clone)]
pub struct Run {
    /// A client of a gateway of the installation.
    pub client: Client,
    /// How the installation is configured, to look at its topics and stores.
    pub config: Config,
    /// The namespace to make, use and delete.
    pub namespace: Namespace,
    /// Its accept limit.
    pub accept_limit: Duration,
    /// How many counters.
    pub counters: u32,
    /// What is attempted.
    pub mix: Mix,
    /// How much of it.
    pub volume: Volume,
    /// What all randomness comes from.
    pub seed: u64,
    /// Where the ledger is to be; there must be none.
    pub ledger: PathBuf,
}

/// How long it took until all was well again, in seconds beyond the last fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// Until every count was complete through the moment at which the fault ended. Without any
    /// fault that takes [`Self::without`].
    pub counts: Option<f64>,
    /// The same before the first fault: the accept limit, and what rollups take.
    pub without: Option<f64>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether what is there is what was attempted and promised.
    pub verdict: Verdict,
    /// What was injected.
    pub injected: Vec<Injected>,
    /// How long it took until all was well again.
    pub recovery: Recovery,
    /// How long before its answer each count was complete, in seconds, sorted.
    pub staleness: Vec<f64>,
    /// What happened in each second.
    pub seconds: Vec<Second>,
}

/// Runs the load while `chaos` injects faults, and compares in the end. `chaos` begins once
/// everything works, and the load goes on for as long as it does, and until it is recovered.
///
/// # Errors
/// When there is no verdict: nothing can be reached, or something is misconfigured.
pub async fn run(
    run: &Run,
    chaos: impl AsyncFnOnce(&Journal) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let kafka = run.config.kafka.settings()?;
    declare(run, "EVENTUALLY_CONSISTENT").await?;
    let before = Before::look(&kafka).await?;
    let timeline = Timeline::begin();
    let ledger = Ledger::create(&run.ledger)?;
    let plan = Plan {
        namespace: run.namespace.clone(),
        counters: run.counters,
        partitions: u32::try_from(before.events.len()).unwrap_or(u32::MAX),
        accept_limit: run.accept_limit,
        mix: run.mix,
    };
    let generator = Generator::new(plan, run.seed);
    let reader = Reader {
        client: run.client.clone(),
        namespace: run.namespace.clone(),
        counters: generator.names().to_vec(),
        timeline: timeline.clone(),
    };
    let sender = Sender {
        client: run.client.clone(),
        namespace: run.namespace.clone(),
        publisher: Publisher::new(&kafka, &run.namespace)?,
        pen: ledger.pen(),
        timeline: timeline.clone(),
    };
    let (goes_on, stop) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let journal = Journal::new(timeline.clone());
    let more = Arc::clone(&goes_on);
    let load = tokio::spawn(load::run(generator, sender, run.volume, move || {
        more.load(Ordering::Relaxed)
    }));
    let breaking = async {
        let recovery = break_and_recover(&reader, &journal, chaos).await;
        goes_on.store(false, Ordering::Relaxed);
        if recovery.is_err() {
            // There is no verdict: what is under way may never be settled.
            load.abort();
        }
        let loaded = load.await;
        stop.store(true, Ordering::Relaxed);
        let recovery = recovery?;
        loaded??;
        Ok::<_, Failure>(recovery)
    };
    let (recovery, reads) = tokio::join!(breaking, reader.run(&stop));
    let recovery = recovery?;
    tokio::task::spawn_blocking(move || ledger.close()).await??;
    let seconds = timeline.seconds();
    let (staleness, verdict) = conclude(run, &kafka, before, &reader, reads).await?;
    Ok(Outcome {
        verdict,
        injected: journal.injected(),
        recovery,
        staleness,
        seconds,
    })
}

async fn break_and_recover(
    reader: &Reader,
    journal: &Journal,
    chaos: impl AsyncFnOnce(&Journal) -> Result<(), Failure>,
) -> Result<Recovery, Failure> {
    let clock = Clock::system();
    tokio::time::sleep(WARM).await;
    let seconds = |took: Option<Duration>| took.map(|took| took.as_secs_f64());
    let without = reader.complete_after(clock.now(), PATIENCE).await;
    chaos(journal).await?;
    Ok(Recovery {
        counts: seconds(reader.complete_after(clock.now(), PATIENCE).await),
        without: seconds(without),
    })
}

/// Where the topics ended before the run.
struct Before {
    events: Ends,
    dead_letters: Ends,
}

impl Before {
    async fn look(kafka: &KafkaSettings) -> Result<Self, Failure> {
        let kafka = kafka.clone();
        let look = move || {
            Ok(Self {
                events: topics::ends(&kafka, &kafka.topics.events)?,
                dead_letters: topics::ends(&kafka, &kafka.topics.dead_letters)?,
            })
        };
        tokio::task::spawn_blocking(look).await?
    }
}

/// Waits until nothing is under way and all is closed, looks at everything, and judges.
async fn conclude(
    run: &Run,
    kafka: &KafkaSettings,
    before: Before,
    reader: &Reader,
    reads: Reads,
) -> Result<(Vec<f64>, Verdict), Failure> {
    let path = run.ledger.clone();
    let entries = tokio::task::spawn_blocking(move || ledger::read(&path)).await??;
    let unknown = |heard| matches!(heard, &crate::entry::Heard::Unknown);
    if entries.iter().any(|entry| entry.heard.iter().any(unknown)) {
        tokio::time::sleep(STILL_UNDER_WAY).await;
    }
    let now = Clock::system().now();
    let closed = now + SKEW;
    if reader.complete_after(closed, PATIENCE).await.is_none() {
        let problem = "counts do not become complete; look at the logs of the roles, and at `quipu admin check`";
        return Err(Failure::new(problem));
    }
    let stores = Stores::open(&run.config, namespace_id(run).await?).await?;
    let mut counts = stores.counts(&reader.counters, closed).await?;
    for (counter, counts) in &mut counts {
        counts.read = reader.get(counter).await;
    }
    let rows = stores.rows(&reader.counters, &entries).await?;
    declare(run, "ACCURATE").await?;
    for (counter, counts) in &mut counts {
        let read = run.client.get(run.namespace.as_str(), counter.as_str());
        counts.accurate = Some(read.await?.count.into());
    }
    let (kafka, namespace) = (kafka.clone(), run.namespace.clone());
    let (log, dead) = tokio::task::spawn_blocking(move || {
        let after = topics::ends(&kafka, &kafka.topics.events)?;
        let log = topics::events(&kafka, &namespace, (&before.events, &after))?;
        let after = topics::ends(&kafka, &kafka.topics.dead_letters)?;
        let mut dead = topics::dead_letters(&kafka, (&before.dead_letters, &after))?;
        dead.retain(|place, _| log.contains_key(place));
        Ok::<_, Failure>((log, dead))
    })
    .await??;
    let observed = Observed {
        rows,
        log,
        dead,
        counts,
        shown: reads.shown,
    };
    let mut staleness = reads.staleness;
    staleness.sort_by(f64::total_cmp);
    let verdict = tokio::task::spawn_blocking(move || judge(&entries, &observed)).await?;
    run.client
        .namespaces()
        .delete(run.namespace.as_str())
        .await?;
    Ok((staleness, verdict))
}

/// Makes the namespace, or changes it.
async fn declare(run: &Run, kind: &str) -> Result<(), Failure> {
    let document = json!({
        "namespace": run.namespace.as_str(),
        "type": kind,
        "accept_limit": format!("{}ms", run.accept_limit.as_millis()),
        "rollup": {"cardinality": "LOW"},
    });
    let (name, document) = (run.namespace.as_str(), document.to_string());
    run.client.namespaces().apply(name, document).await?;
    Ok(())
}

/// The number that the stores have in the place of the namespace's name.
async fn namespace_id(run: &Run) -> Result<NamespaceId, Failure> {
    let name = run.namespace.as_str();
    let history = run.client.namespaces().history(name, "").await?;
    let id = history["versions"][0]["namespace_id"].as_u64();
    let id = id.and_then(|id| u32::try_from(id).ok());
    let untold = || Failure::new(format!("the history of {name} tells no number: {history}"));
    id.map(NamespaceId).ok_or_else(untold)
}
