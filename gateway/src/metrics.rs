//! The handles of the metrics that every call touches.

use crate::names;
use ::metrics::{Counter, Histogram, counter, histogram};
use quipu_adapters::clock::Clock;
use quipu_schemas::code::code_name;
use std::{sync::OnceLock, time::Duration};
use tonic::Code;

/// The calls, as the label `method` names them. Of a stream it is each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Add,
    AddAndGet,
    Get,
    Clear,
    BatchAdd,
    StreamAdd,
    BatchGet,
    ListCounters,
    Lookup,
    ApplyNamespace,
    ShowNamespace,
    NamespaceHistory,
    DeleteNamespace,
    ListNamespaces,
    ApplyCluster,
    ShowCluster,
    ListClusters,
}

pub(crate) const METHODS: usize = Method::ListClusters as usize + 1;
const CODES: usize = Code::Unauthenticated as usize + 1;

impl Method {
    fn label(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::AddAndGet => "add_and_get",
            Self::Get => "get",
            Self::Clear => "clear",
            Self::BatchAdd => "batch_add",
            Self::StreamAdd => "stream_add",
            Self::BatchGet => "batch_get",
            Self::ListCounters => "list_counters",
            Self::Lookup => "lookup",
            Self::ApplyNamespace => "apply_namespace",
            Self::ShowNamespace => "show_namespace",
            Self::NamespaceHistory => "namespace_history",
            Self::DeleteNamespace => "delete_namespace",
            Self::ListNamespaces => "list_namespaces",
            Self::ApplyCluster => "apply_cluster",
            Self::ShowCluster => "show_cluster",
            Self::ListClusters => "list_clusters",
        }
    }
}

/// Handles, made at their first use: looking one up by its labels costs more than the call.
#[derive(Default)]
pub(crate) struct Meters {
    requests: [[OnceLock<Counter>; CODES]; METHODS],
    seconds: [OnceLock<Histogram>; METHODS],
    accepted: OnceLock<Counter>,
    already_applied: OnceLock<Counter>,
    cache_reads: [OnceLock<Counter>; CacheRead::Failed as usize + 1],
}

/// What the cache said to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheRead {
    Hit,
    Miss,
    Failed,
}

impl CacheRead {
    fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Failed => "error",
        }
    }
}

impl Meters {
    pub(crate) fn accepted(&self) -> &Counter {
        self.accepted.get_or_init(|| counter!(names::ACCEPTED))
    }

    pub(crate) fn already_applied(&self) -> &Counter {
        self.already_applied
            .get_or_init(|| counter!(names::ALREADY_APPLIED))
    }

    pub(crate) fn cache_read(&self, result: CacheRead) {
        self.cache_reads[result as usize]
            .get_or_init(|| counter!(names::CACHE_READS, "result" => result.label()))
            .increment(1);
    }

    /// Starts to measure a call.
    pub(crate) fn begin<'a>(&'a self, clock: &'a Clock, method: Method) -> Measured<'a> {
        let began = clock.read().steady;
        Measured {
            meters: self,
            clock,
            method,
            began,
            code: Code::Cancelled,
        }
    }
}

/// A call that is being measured. Dropped before it is finished, it counts as cancelled.
pub(crate) struct Measured<'a> {
    meters: &'a Meters,
    clock: &'a Clock,
    method: Method,
    began: Duration,
    code: Code,
}

impl Measured<'_> {
    pub(crate) fn finish(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        let (method, code) = (self.method, self.code);
        let elapsed = self.clock.read().steady.saturating_sub(self.began);
        self.meters.requests[method as usize][code as usize]
            .get_or_init(
                || counter!(names::REQUESTS, "method" => method.label(), "code" => code_name(code)),
            )
            .increment(1);
        self.meters.seconds[method as usize]
            .get_or_init(|| histogram!(names::REQUEST_SECONDS, "method" => method.label()))
            .record(elapsed);
    }
}
