//! What an installation leaves behind.

use quipu_adapters::config::Config;
use quipu_certify::Failure;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};
use scylla::client::session_builder::SessionBuilder;

/// Removes topics and tables, which would burden the installations after it.
pub(super) async fn remove(config: &Config, node: &str) -> Result<(), Failure> {
    let kafka = config.kafka.settings()?;
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &kafka.brokers);
    let admin: AdminClient<DefaultClientContext> = client.create()?;
    let topics = &kafka.topics;
    let topics = [
        &topics.events,
        &topics.signals,
        &topics.watermarks,
        &topics.dead_letters,
    ];
    let topics = topics.map(String::as_str);
    admin.delete_topics(&topics, &AdminOptions::new()).await?;
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("Cassandra: {error}"));
    let session = SessionBuilder::new().known_node(node).build().await;
    let session = session.map_err(|error| failed(&error))?;
    let keyspace = &config.cassandra.keyspace;
    let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
    let dropped = session.query_unpaged(drop, ()).await;
    dropped.map_err(|error| failed(&error))?;
    Ok(())
}
