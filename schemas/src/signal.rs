//! `quipu.v1.Signal` to the domain and back.

use crate::v1;
use prost::Message;
use quipu_core::{
    event::{CounterKey, NamespaceId},
    name::{CounterName, NameError},
    time::Micros,
};

/// "Look at this counter": never a delta, so a lost or doubled one changes no count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSignal {
    /// The counter.
    pub counter: CounterKey,
    /// The newest event that the sender knows of; `None` from a stale read.
    pub last_write: Option<Micros>,
}

/// Why bytes are no signal.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignalError {
    /// Not protobuf.
    #[error("not a quipu.v1.Signal: {0}")]
    Decode(#[from] prost::DecodeError),
    /// A name outside its rules.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Encodes a signal for the signals topic.
pub fn encode(signal: &CheckedSignal) -> Vec<u8> {
    v1::Signal {
        namespace_id: signal.counter.namespace.0,
        counter_name: signal.counter.name.as_str().to_owned(),
        last_write_micros: signal.last_write.map(Micros::get),
    }
    .encode_to_vec()
}

/// Decodes and checks a value of the signals topic.
pub fn decode(value: &[u8]) -> Result<CheckedSignal, SignalError> {
    let signal = v1::Signal::decode(value)?;
    let name = CounterName::new(&signal.counter_name)?;
    Ok(CheckedSignal {
        counter: CounterKey {
            namespace: NamespaceId(signal.namespace_id),
            name,
        },
        last_write: signal.last_write_micros.map(Micros::new),
    })
}
