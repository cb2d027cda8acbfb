//! Measures writes to the event store and reads of the rollup store on a real Cassandra:
//! `cargo run --release -p quipu-adapters --features cluster --example cassandra_writes`.
//! It makes a keyspace `quipu_bench`, which stays: `DROP KEYSPACE quipu_bench` when you are done.

use futures::{StreamExt, TryStreamExt, stream};
use quipu_adapters::{
    cassandra::{Cassandra, CassandraDataset, CassandraSettings, KeyspaceSetup},
    clock::Clock,
    ports::{EventStore, RollupStore},
};
use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    event::{CounterKey, EventKey, EventRow, LogPosition, Mutation, NamespaceId, StoredEvent},
    name::{CounterName, ItemKey, Token},
    time::Micros,
    window::Window,
};
use std::{error::Error, ops::ControlFlow, time::Instant};

const ROWS: u64 = 500_000;
const BATCH: usize = 5_000;
const BATCHES_AT_ONCE: usize = 4;

fn counter(n: u64) -> Result<CounterKey, Box<dyn Error>> {
    Ok(CounterKey {
        namespace: NamespaceId(1),
        name: CounterName::new(&format!("counter-{n}"))?,
    })
}

fn row(n: u64, counters: u64, at: Micros) -> Result<EventRow, Box<dyn Error>> {
    // A walk over the counters that does not repeat soon.
    let which = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % counters;
    let key = EventKey {
        event_time: Micros::new(at.get() + i64::try_from(n)?),
        event_id: Token::new(&format!("{n:016x}-token"))?,
        item_key: ItemKey::new("")?,
    };
    let source = LogPosition {
        effective_time: key.event_time,
        partition: 0,
        offset: n,
    };
    let mutation = Mutation::Add(1);
    Ok(EventRow {
        counter: counter(which)?,
        event: StoredEvent {
            key,
            mutation,
            source,
        },
    })
}

/// Processor time of this process so far, in clock ticks of 10 ms.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Runs work on a number of things and tells how fast it was.
async fn measure<T>(what: &str, things: u64, work: impl Future<Output = T>) -> T {
    let (started, ticks) = (Instant::now(), cpu_ticks());
    let result = work.await;
    let (micros, ticks) = (started.elapsed().as_micros(), cpu_ticks() - ticks);
    let rate = u128::from(things) * 1_000_000 / micros.max(1);
    let cpu_nanos = ticks * 10_000_000 / things;
    println!("{what}: {rate}/s, {cpu_nanos} ns of CPU each in this process");
    result
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("QUIPU_TEST_CASSANDRA");
    let settings = CassandraSettings {
        contact_points: vec![address.unwrap_or_else(|_| "127.0.0.1:19042".to_owned())],
        keyspace: "quipu_bench".to_owned(),
        ..CassandraSettings::default()
    };
    let clock = Clock::system();
    let cassandra = Cassandra::connect(settings, clock.clone()).await?;
    cassandra.setup_tables(KeyspaceSetup::Create).await?;
    let events = cassandra.events(CassandraDataset::default()).await?;
    let rollups = cassandra.rollups().await?;
    let now = clock.now();
    let through = Micros::new(now.get() + 10_000_000);
    let window = Window {
        after: now,
        through,
    };
    events.prepare(window).await?;
    for counters in [10_000, 1_000_000] {
        let rows: Result<Vec<_>, _> = (0..ROWS).map(|n| row(n, counters, now)).collect();
        let rows = rows?;
        let written = stream::iter(rows.chunks(BATCH).map(Ok))
            .try_for_each_concurrent(BATCHES_AT_ONCE, |rows| events.write(rows));
        measure(&format!("rows of {counters} counters"), ROWS, written).await?;
        let began = Instant::now();
        let durability = events.sync().await?;
        println!("{durability:?} after {:?}", began.elapsed());
    }
    let counters: Result<Vec<_>, _> = (0..10_000).map(counter).collect();
    let counters = counters?;
    let checkpoint = |n: usize| Checkpoint {
        generation: Generation::default(),
        count: Count::new(n as i128),
        last_rollup: now,
    };
    let checkpoints = counters
        .iter()
        .cloned()
        .zip((0..).map(checkpoint))
        .collect();
    measure("checkpoints put", 10_000, rollups.put(checkpoints)).await?;
    measure("checkpoints loaded", 10_000, rollups.load(&counters)).await?;
    let scans = stream::iter(&counters).map(|counter| async {
        let mut events_of = 0_u64;
        let mut sink = |_| {
            events_of += 1;
            ControlFlow::Continue(())
        };
        events.scan(counter, window, &mut sink).await?;
        Ok::<_, quipu_adapters::ports::StoreError>(events_of)
    });
    let scans = scans.buffered(32).try_collect::<Vec<_>>();
    let scanned = measure("counters scanned", 10_000, scans).await?;
    println!("{} events in all", scanned.iter().sum::<u64>());
    Ok(())
}
