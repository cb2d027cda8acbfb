//! `quipu demo`: the service on a fresh directory, with a month of real flights in it.

use crate::{
    args::{Cli, Command},
    commands::{
        exit::{Exit, Failed},
        import,
    },
    process::{
        listen,
        security::{Security, SecurityArgs},
        stop_signal,
    },
    serve::Server,
};
use clap::{Args, Parser};
use quipu_adapters::clock::Clock;
use quipu_client::{Client, ClientOptions};
use quipu_core::time::Micros;
use quipu_gateway::ScanBounds;
use quipu_schemas::timestamp;
use std::{collections::BTreeSet, fs, io, net::SocketAddr, path::Path, pin::pin, time::Duration};

/// Options of `quipu demo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// The address for HTTP/JSON; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070", value_parser = listen::address)]
    http: SocketAddr,
    /// The address for gRPC; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7071", value_parser = listen::address)]
    grpc: SocketAddr,
    /// End after the counts were shown, instead of staying up
    #[arg(long)]
    once: bool,
}

/// All flights that left New York City in January 2013: public-domain data of the US Bureau of
/// Transportation Statistics.
const FLIGHTS: &[u8] = include_bytes!("../../tests/data/flights-2013-01.csv.gz");
const TEMPLATES: [&str; 3] = [
    "flights/{carrier}/{origin}",
    "carrier/{carrier}",
    "origin/{origin}",
];
const SHOWN: usize = 12;
const PATIENCE: Duration = Duration::from_secs(30);

/// A counter as it is shown.
struct Shown {
    name: String,
    count: i64,
    complete_through: Micros,
}

/// Starts, imports, shows, and stays up.
pub(crate) async fn run(args: DemoArgs) -> Result<Exit, Failed> {
    let internal = |error: io::Error| Failed::new(Exit::Internal, error.to_string());
    let directory = tempfile::Builder::new()
        .prefix("quipu-demo-")
        .tempdir()
        .map_err(internal)?;
    let mut stopped = pin!(stop_signal()?);
    let data = directory.path().join("data");
    let (auth, tls) = SecurityArgs::default().sections()?;
    let security = Security::open(&auth, &tls, &[args.http, args.grpc], &Clock::system())?;
    let server =
        Server::start(&data, args.http, args.grpc, ScanBounds::default(), security).await?;
    let url = format!("http://{}", server.http);
    println!(
        "A fresh quipu serves {} on {url} (HTTP/JSON, gRPC).",
        data.display()
    );
    let shown = import_and_show(directory.path(), &url);
    tokio::select! {
        shown = shown => shown?,
        () = &mut stopped => return stop(server).await,
    }
    print_how_to_go_on(&url);
    if !args.once {
        stopped.await;
    }
    stop(server).await
}

async fn stop(server: Server) -> Result<Exit, Failed> {
    server.stop().await?;
    Ok(Exit::Done)
}

async fn import_and_show(directory: &Path, url: &str) -> Result<(), Failed> {
    let internal = |error: io::Error| Failed::new(Exit::Internal, error.to_string());
    let file = directory.join("flights-2013-01.csv.gz");
    fs::write(&file, FLIGHTS).map_err(internal)?;
    println!(
        "Importing 27,004 flights, each into three counters: {}",
        TEMPLATES.join(", ")
    );
    let file = file.to_string_lossy();
    let counters = TEMPLATES
        .iter()
        .flat_map(|template| ["--counter", template]);
    let line = [
        "quipu",
        "import",
        &file,
        "--namespace",
        "default",
        "--server",
        url,
    ];
    let Command::Import(import) = Cli::parse_from(line.into_iter().chain(counters)).command else {
        unreachable!("the line says import");
    };
    import::run(import).await?;
    let imported = Clock::system().now();
    println!("Waiting until every window is closed: the accept limit is 5 s.");
    let mut counters = Vec::new();
    for name in names().map_err(|error| Failed::new(Exit::Internal, error.to_string()))? {
        counters.push(wait_until_complete(url, name, imported).await?);
    }
    counters.sort_by_key(|counter| (-counter.count, counter.name.clone()));
    println!("\n{:<20} {:>9}   complete through", "counter", "count");
    for Shown {
        name,
        count,
        complete_through,
    } in counters.iter().take(SHOWN)
    {
        println!(
            "{name:<20} {count:>9}   {}",
            timestamp::to_rfc3339(*complete_through)
        );
    }
    Ok(())
}

/// The counters that the templates make of the flights.
fn names() -> Result<BTreeSet<String>, csv::Error> {
    let mut names = BTreeSet::new();
    let mut flights = csv::Reader::from_reader(flate2::read::MultiGzDecoder::new(FLIGHTS));
    let headers = flights.headers()?.clone();
    let column = |name: &str| {
        headers
            .iter()
            .position(|header| header == name)
            .unwrap_or(0)
    };
    let (carrier, origin) = (column("carrier"), column("origin"));
    for flight in flights.records() {
        let flight = flight?;
        let (carrier, origin) = (&flight[carrier], &flight[origin]);
        names.insert(format!("flights/{carrier}/{origin}"));
        names.insert(format!("carrier/{carrier}"));
        names.insert(format!("origin/{origin}"));
    }
    Ok(names)
}

async fn wait_until_complete(url: &str, name: String, through: Micros) -> Result<Shown, Failed> {
    let client = Client::new(ClientOptions::new(url).timeout(PATIENCE))
        .map_err(|error| Failed::new(Exit::Internal, error.to_string()))?;
    loop {
        let read = client.get("default", &name).await;
        let read = read.map_err(|error| Failed::of_call(&error, url))?;
        let complete_through = read.complete_through.unwrap_or(Micros::EARLIEST);
        if complete_through >= through {
            return Ok(Shown {
                name,
                count: read.count,
                complete_through,
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn print_how_to_go_on(url: &str) {
    println!(
        "\nRead a counter:\n  \
         curl '{url}/v1/namespaces/default/counters/origin%2FEWR'\n\
         Add to one, with a token that makes retries safe:\n  \
         curl -X POST '{url}/v1/namespaces/default/counters/origin%2FEWR:add' \\\n    \
         -H 'content-type: application/json' -d '{{\"delta\": 1, \"idempotency_token\": \
         {{\"token\": \"'try-$(date +%s)'\", \"generation_time\": \"'$(date -u +%FT%TZ)'\"}}}}'\n\
         Stop with Ctrl-C; the directory is removed then."
    );
}
