//! What a user would call without Quipu, from the same thread as the calls to it.

use super::calls::drawn;
use crate::{
    cluster::{
        events::counter,
        installation::Installation,
        publish::{self, PARTITIONS},
        redis,
    },
    http::Failure,
};
use fred::{
    clients::Pool,
    interfaces::{ClientLike, KeysInterface},
};
use quipu_core::key::{key_bytes, partition, route};
use quipu_schemas::event;
use rdkafka::{
    ClientConfig,
    producer::{FutureProducer, FutureRecord},
};

/// Keys of Redis that are counted in.
pub(super) struct Keys {
    pool: Pool,
    prefix: String,
}

impl Keys {
    pub(super) async fn open(
        installation: &Installation<'_>,
        connections: usize,
    ) -> Result<Self, Failure> {
        let config = redis::config(&installation.stack.redis)?;
        let pool = Pool::new(config, None, None, None, connections)?;
        pool.init().await?;
        let prefix = installation.topic("direct");
        Ok(Self { pool, prefix })
    }

    /// `INCR`.
    pub(super) async fn increment(&self, number: u64) -> Result<(), Failure> {
        let _: i64 = self.pool.incr(self.key(number)).await?;
        Ok(())
    }

    /// `GET`.
    pub(super) async fn get(&self, number: u64) -> Result<(), Failure> {
        let _: Option<String> = self.pool.get(self.key(number)).await?;
        Ok(())
    }

    fn key(&self, number: u64) -> String {
        format!("{}:{}", self.prefix, counter(drawn(number)))
    }
}

/// A producer whose every record is awaited.
pub(super) struct Producer {
    client: FutureProducer,
    topic: String,
}

impl Producer {
    /// With the settings of the gateway's.
    pub(super) fn open(installation: &Installation<'_>) -> Result<Self, Failure> {
        let client = ClientConfig::new()
            .set("bootstrap.servers", &installation.stack.kafka)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("compression.type", "lz4")
            .set("linger.ms", "2")
            .set("batch.size", "524288")
            .create()?;
        let topic = installation.topic("events");
        Ok(Self { client, topic })
    }

    /// Produces an event as the gateway does, and waits until the log has it.
    pub(super) async fn produce(&self, number: u64) -> Result<(), Failure> {
        let event = publish::event(number, drawn(number), 1)?;
        let key = key_bytes(&event.namespace, &event.counter);
        let to = i32::try_from(partition(route(&key), PARTITIONS))?;
        let value = event::encode(&event);
        let record: FutureRecord<'_, (), _> = FutureRecord::to(&self.topic).partition(to);
        let sent = self.client.send_result(record.payload(&value));
        let delivered = sent.map_err(|(error, _)| error)?.await?;
        delivered.map(drop).map_err(|(error, _)| error.into())
    }
}
