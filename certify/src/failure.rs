//! Why a run came to no verdict.

use crate::ledger::LedgerClosed;
use quipu_adapters::{cassandra::CassandraError, config::ConfigError, ports::StoreError};
use rdkafka::error::KafkaError;

/// A run that came to no verdict: what was wrong, and where. Try again once that is mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// From its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

macro_rules! from {
    ($($error:ty: $where:literal),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self(format!(concat!($where, "{}"), error))
            }
        })*
    };
}

from!(
    KafkaError: "Kafka: ",
    StoreError: "",
    CassandraError: "",
    ConfigError: "",
    LedgerClosed: "",
    quipu_client::Error: "the gateway: ",
    std::io::Error: "",
    tokio::task::JoinError: ""
);
