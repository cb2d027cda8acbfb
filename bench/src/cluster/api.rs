//! Calls of a gateway over gRPC, beside what a user would call instead of each: as many as are
//! answered, and at a rate.

mod calls;
mod direct;
mod grpc;
mod load;
mod meter;
mod pace;
mod stream;

use super::{
    costs::Processes,
    events::{Shape, counter},
    installation::{Installation, NAMESPACE, Roles},
    publish::publish,
    watermarks::Watermarks,
};
use crate::{
    http::{Client, Failure},
    peers::counter_columns::{self, CounterColumns},
    report::{self, thousands},
    server::Server,
};
use calls::{COUNTERS, Calls, TOGETHER, drawn};
use clap::ValueEnum;
use direct::{Keys, Producer};
use meter::{Meter, WARM};
use std::time::Duration;

/// Connections of each client.
const CONNECTIONS: usize = 4;
/// Calls under way in the loads of calls that wait for no log.
const FEW: usize = 64;
/// Calls under way in the loads of calls that wait for the log, which gathers what comes together.
const MANY: usize = 512;
/// Batches under way.
const BATCHES: usize = 16;
/// Events that are published at once, without an answer for each.
const PUBLISHED: u64 = 1_000_000;
const BEST_EFFORT: &str = "best_effort";

/// What runs beside the gateway, other than for the reads of counts that go on being rolled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Beside {
    /// Nothing: the other roles are on other machines, or find the adds in the log later
    Nothing,
    /// Ingest and a rollup worker, which take their CPU from the same cores
    Roles,
}

/// What is measured on, and beside what.
struct Bench<'a> {
    installation: &'a Installation<'a>,
    /// Topics that nobody reads.
    unread: &'a Installation<'a>,
    gateway: Server,
    /// Ingest and a rollup worker, while they run.
    others: Option<(Server, Server)>,
    lasts: Duration,
}

pub(super) async fn measure(
    [installation, unread]: [&Installation<'_>; 2],
    lasts: Duration,
    beside: Beside,
) -> Result<(), Failure> {
    report::subject(&format!(
        "Calls of one gateway over gRPC, {} counters, {CONNECTIONS} connections",
        thousands(u64::from(COUNTERS)),
    ));
    println!(
        "The load is one thread on the same cores, and speaks HTTP/2 without a client library. N under\n\
         way: a closed loop, latencies from when a call is made. At a rate: an open loop, latencies\n\
         from when a call was meant to begin. CPU is in µs for each call or add."
    );
    unread.set_up()?;
    let Roles {
        gateway,
        ingest,
        worker,
    } = installation.start_roles("LOW").await?;
    make_best_effort(&gateway).await?;
    let mut bench = Bench {
        installation,
        unread,
        gateway,
        others: Some((ingest, worker)),
        lasts,
    };
    bench.fill().await?;
    bench.reads("GetCount, stale ones rolled up beside").await?;
    if beside == Beside::Nothing {
        bench.others = None;
        println!("From here on the gateway runs alone, as with the other roles on other machines.");
        bench.reads("GetCount").await?;
    }
    bench.direct_reads().await?;
    bench.best_effort_adds().await?;
    bench.single_adds().await?;
    bench.settle()?;
    bench.batches().await
}

async fn make_best_effort(gateway: &Server) -> Result<(), Failure> {
    let document = format!(r#"{{"namespace":"{BEST_EFFORT}","type":"BEST_EFFORT"}}"#);
    let path = format!("/v1/namespaces/{BEST_EFFORT}");
    let mut client = Client::connect(&gateway.http).await?;
    client.call("PUT", &path, document).await.map(drop)
}

impl Bench<'_> {
    fn meter(&self) -> Result<Meter, Failure> {
        let mut roles = vec![("gateway", &self.gateway)];
        if let Some((ingest, worker)) = &self.others {
            roles.extend([("ingest", ingest), ("rollup-worker", worker)]);
        }
        Ok(Meter {
            processes: Processes::of(self.installation, &roles)?,
            lasts: self.lasts,
        })
    }

    async fn calls(&self) -> Result<Calls, Failure> {
        Calls::open(&self.gateway.grpc, CONNECTIONS).await
    }

    /// Adds one to every counter, and waits until all are counted.
    async fn fill(&self) -> Result<(), Failure> {
        let calls = self.calls().await?;
        for batch in 0..u64::from(COUNTERS / TOGETHER) {
            calls.batch_add(batch).await?;
        }
        calls.wait_for_counts(1).await
    }

    async fn reads(&self, what: &str) -> Result<(), Failure> {
        let (meter, calls) = (self.meter()?, self.calls().await?);
        let get = |number| calls.get(number, 1);
        let target = "25,000 /s";
        meter.saturate(what, (FEW, 1), target, get).await?;
        meter.keep_rate(what, 10_000, "p99 < 5 ms", get).await
    }

    async fn direct_reads(&self) -> Result<(), Failure> {
        let meter = self.meter()?;
        let keys = Keys::open(self.installation, CONNECTIONS).await?;
        load::saturate(FEW, WARM, |number| keys.increment(number)).await?;
        let get = |number| keys.get(number);
        meter.saturate("Redis, GET", (FEW, 1), "", get).await?;
        meter.keep_rate("Redis, GET", 10_000, "", get).await
    }

    async fn best_effort_adds(&self) -> Result<(), Failure> {
        let (meter, calls) = (self.meter()?, self.calls().await?);
        let what = "AddCount, BEST_EFFORT";
        let add = |number| calls.add(BEST_EFFORT, number);
        meter.saturate(what, (FEW, 1), "", add).await?;
        meter.keep_rate(what, 10_000, "p99 < 2 ms", add).await?;

        let keys = Keys::open(self.installation, CONNECTIONS).await?;
        let add = |number| keys.increment(number);
        meter.saturate("Redis, INCR", (FEW, 1), "", add).await?;
        meter.keep_rate("Redis, INCR", 10_000, "", add).await
    }

    async fn single_adds(&self) -> Result<(), Failure> {
        let (meter, calls) = (self.meter()?, self.calls().await?);
        let add = |number| calls.add(NAMESPACE, number);
        let target = "15,000 /s";
        meter.saturate("AddCount", (MANY, 1), target, add).await?;
        let target = "p99 < 10 ms";
        meter.keep_rate("AddCount", 5_000, target, add).await?;

        let what = "Kafka, produce and await";
        let producer = Producer::open(self.unread)?;
        let add = |number| producer.produce(number);
        meter.saturate(what, (MANY, 1), "", add).await?;
        meter.keep_rate(what, 5_000, "", add).await?;

        let what = "Cassandra, update of a counter column";
        let session = counter_columns::connect(&self.installation.stack.cassandra).await?;
        let keyspace = self.unread.topic("peer");
        let columns = CounterColumns::create(&session, &keyspace).await?;
        let add = |number| columns.increment(counter(drawn(number)));
        meter.saturate(what, (MANY, 1), "", add).await?;
        meter.keep_rate(what, 5_000, "", add).await?;
        columns.remove().await
    }

    async fn batches(&self) -> Result<(), Failure> {
        let (meter, calls) = (self.meter()?, self.calls().await?);
        let (shape, target) = ((BATCHES, TOGETHER), "100,000 /s");
        let what = format!("BatchAddCount of {TOGETHER}, adds");
        let add = |number| calls.batch_add(number);
        meter.saturate(&what, shape, target, add).await?;
        let what = format!("StreamAddCount of {TOGETHER}, adds");
        let add = |number| calls.stream_add(number);
        meter.saturate(&what, shape, target, add).await?;

        let before = meter.processes.now()?;
        let published = publish(self.unread, PUBLISHED, Shape::Uniform(COUNTERS))?;
        let after = meter.processes.now()?;
        let what = "Kafka, produce in bulk";
        report::rate(what, PUBLISHED, published.took, "");
        meter.report_cpu(&before, &after, PUBLISHED);
        Ok(())
    }

    /// Waits until ingest has decided all that was added, if it runs.
    fn settle(&self) -> Result<(), Failure> {
        if self.others.is_some() {
            Watermarks::follow(self.installation)?.wait_for_all(self.installation)?;
        }
        Ok(())
    }
}
