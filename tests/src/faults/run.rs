//! Runs cases, and puts their outcomes together.

use super::{
    case::{Action, Case, Step, Target},
    chaos::Chaos,
    leftovers, memory,
    proxy::Proxy,
    roles::Roles,
    stack::{Addresses, Stack},
};
use quipu_certify::{
    Failure, Run, Volume,
    report::{self, Label},
};
use quipu_client::{Client, ClientOptions};
use quipu_core::name::Namespace;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// How cases are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// A binary of quipu that has the distributed roles.
    pub binary: PathBuf,
    /// How much each run attempts.
    pub volume: Volume,
    /// How many counters.
    pub counters: u32,
    /// Where ledgers and logs of the roles go, a directory for each run.
    pub directory: PathBuf,
}

/// Runs a case once, on an installation of its own.
///
/// # Errors
/// When there is no verdict.
pub async fn run(
    case: &Case,
    number: u32,
    options: &Options,
    (addresses, stack): (&Addresses, Option<&Arc<Stack>>),
) -> Result<report::Case, Failure> {
    let began = Instant::now();
    let seed = fastrand::u64(..);
    let place = options.directory.join(format!("{}-{number}", case.name));
    let chaos = install(case, options, (addresses, stack), &place.join("logs")).await?;
    let client = Client::new(ClientOptions::new(chaos.roles.server()));
    let client = client.map_err(|error| Failure::new(error.to_string()))?;
    client.ready().await?;
    let namespace = format!("faults-{:08x}", fastrand::u32(..));
    let namespace = Namespace::new(&namespace).map_err(|error| Failure::new(error.to_string()))?;
    let plan = Run {
        client,
        config: chaos.config.clone(),
        namespace,
        accept_limit: case.accept_limit,
        counters: options.counters,
        mix: case.mix,
        volume: options.volume,
        seed,
        ledger: place.join("ledger"),
    };
    let stop = AtomicBool::new(false);
    let running = async {
        let ran = quipu_certify::run(&plan, async |journal| chaos.run(case, journal).await).await;
        stop.store(true, Ordering::Relaxed);
        ran
    };
    let (outcome, memory) = tokio::join!(running, memory::watch(&chaos.roles, &stop));
    let label = Label {
        name: case.name.to_owned(),
        about: case.about.to_owned(),
        run: number,
        seed,
    };
    let mut done = report::Case::new(label, outcome?, memory, began.elapsed());
    let panics = chaos.roles.panics()?;
    let config = chaos.config.clone();
    // The roles end before what they stand on is removed.
    drop(chaos);
    leftovers::remove(&config, &addresses.cassandra).await?;
    done.survived &= panics.is_empty();
    done.violations += panics.len();
    done.first_violations.extend(panics);
    Ok(done)
}

/// Sets an installation up, and starts one of each role.
async fn install(
    case: &Case,
    options: &Options,
    (addresses, stack): (&Addresses, Option<&Arc<Stack>>),
    logs: &Path,
) -> Result<Chaos, Failure> {
    let forges = |step: &Step| matches!(step.action, Action::Forge(_));
    let proxy = if case.tracks.iter().flatten().any(forges) {
        Some(Proxy::start(&addresses.cassandra).await?)
    } else {
        None
    };
    let mut seen = addresses.clone();
    if let Some(proxy) = &proxy {
        seen.cassandra.clone_from(&proxy.address);
    }
    let roles = Arc::new(Roles::new(&options.binary, &seen, logs)?);
    let setting_up = Arc::clone(&roles);
    tokio::task::spawn_blocking(move || setting_up.set_up()).await??;
    for role in [Target::Gateway, Target::Ingest, Target::RollupWorker] {
        roles.start(role)?;
    }
    Ok(Chaos {
        config: roles.config()?,
        roles,
        stack: stack.map(Arc::clone),
        addresses: addresses.clone(),
        proxy,
    })
}
