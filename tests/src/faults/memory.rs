//! The memory of each role while a case runs.

use super::{processes::memory, roles::Roles};
use quipu_certify::report::Memory;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const EVERY: Duration = Duration::from_secs(1);

/// Looks at all roles every second until `stop`.
pub(super) async fn watch(roles: &Roles, stop: &AtomicBool) -> Memory {
    let mut watched = Memory::default();
    let mut second = 0;
    let mut pace = tokio::time::interval(EVERY);
    while !stop.load(Ordering::Relaxed) {
        pace.tick().await;
        let mut now: BTreeMap<String, u64> = BTreeMap::new();
        for (role, process) in roles.processes() {
            let resident = memory(process, "VmRSS").unwrap_or_default();
            let peak = memory(process, "VmHWM").unwrap_or_default();
            let largest = now.entry(role.name().to_owned()).or_default();
            *largest = resident.max(*largest);
            let highest = watched.peak.entry(role.name().to_owned()).or_default();
            *highest = peak.max(*highest);
        }
        second += 1;
        for (role, bytes) in now {
            let seconds = watched.seconds.entry(role).or_default();
            seconds.resize(second - 1, 0);
            seconds.push(bytes);
        }
    }
    watched
}
