//! Many counters and many events: memory, disk, and a restart after a kill.

use crate::{
    http::Failure,
    imports::{Shape, check_sum, import, wait_until_complete, write_csv},
    report::{self, thousands},
    server::{Place, bytes_on_disk},
};
use std::time::Duration;

const COUNTERS: u64 = 1_000_000;
const EVENTS: u64 = 10_000_000;
/// The counters that the later events go to.
const ACTIVE: u64 = 10_000;

pub(crate) fn measure(place: &Place) -> Result<(), Failure> {
    report::subject("1,000,000 counters, then 10,000,000 events");
    let (counters, events) = (
        place.directory.join("counters.csv"),
        place.directory.join("events.csv"),
    );
    write_csv(&counters, COUNTERS, Shape::Distinct)?;
    write_csv(&events, EVENTS - COUNTERS, Shape::Uniform(ACTIVE))?;
    let server = place.serve()?;
    import(place, &server, &counters)?;
    let complete = wait_until_complete(&server, COUNTERS, COUNTERS)?;
    let (peak, now) = (server.memory("VmHWM")?, server.memory("VmRSS")?);
    report::figure(
        "1,000,000 new counters complete after",
        &format!("{complete:?}"),
        "",
    );
    report::figure(
        "memory, peak / now",
        &format!("{peak} / {now} MiB"),
        "300 MB",
    );

    import(place, &server, &events)?;
    wait_until_complete(&server, COUNTERS, EVENTS)?;
    let peak = server.memory("VmHWM")?;
    report::figure(
        "memory, peak with 10,000,000 events",
        &format!("{peak} MiB"),
        "300 MB",
    );
    // Compactions end, and the log drops what was consumed.
    std::thread::sleep(Duration::from_secs(10));
    let bytes = bytes_on_disk(&place.data())?;
    report::figure(
        "disk",
        &format!("{} B, {} B an event", thousands(bytes), bytes / EVENTS),
        "100 B an event",
    );
    server.kill()?;
    let server = place.serve()?;
    let started_in = server.started_in;
    report::figure(
        "restart after kill -9, until it serves",
        &format!("{started_in:?}"),
        "3 s",
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(check_sum(&server.http, COUNTERS, EVENTS))?;
    report::figure("counts after the restart", "all exact", "");
    Ok(())
}
