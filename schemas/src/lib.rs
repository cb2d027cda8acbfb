//! Wire formats: protobuf messages, the namespace document, and their conversions to the domain.

pub mod cluster;
pub mod code;
pub mod codec;
pub mod event;
pub mod namespace;
pub mod signal;
pub mod timestamp;
pub mod watermark;

pub use quipu::v1;

// Generated code names other packages relative to its own, so modules follow the packages.
mod quipu {
    /// The protobuf package `quipu.v1`, generated from `proto/`.
    #[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    pub mod v1 {
        tonic::include_proto!("quipu.v1");
    }
}

/// The wire form of `google.rpc.Status`.
pub mod google {
    /// The protobuf package `google.rpc`.
    #[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

/// The compiled descriptors of all messages and services, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/quipu.v1.bin"));
