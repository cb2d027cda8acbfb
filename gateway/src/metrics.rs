//! The names of this role's metrics, and the handles of those that every call touches.

use ::metrics::{Counter, Histogram, counter, histogram};
use quipu_adapters::clock::Clock;
use quipu_schemas::code::code_name;
use std::{sync::OnceLock, time::Duration};
use tonic::Code;

/// Calls that were answered, by `method` and google.rpc `code`. CANCELLED: the client went away,
/// or the request timed out.
pub const REQUESTS: &str = "quipu_gateway_requests_total";
/// From the moment that a call was understood until its answer was ready, by `method`.
pub const REQUEST_SECONDS: &str = "quipu_gateway_request_seconds";
/// Mutations that were answered `ACCEPTED`.
pub const ACCEPTED: &str = "quipu_gateway_mutations_accepted_total";
/// Mutations that were answered `ALREADY_APPLIED`.
pub const ALREADY_APPLIED: &str = "quipu_gateway_mutations_already_applied_total";
/// Mutations that were answered with an error, by `reason`.
pub const REFUSED: &str = "quipu_gateway_mutations_refused_total";
/// Reads whose checkpoint was stale.
pub const STALE_READS: &str = "quipu_gateway_stale_reads_total";
/// Signals that were appended.
pub const SIGNALS: &str = "quipu_gateway_signals_published_total";
/// Signals that were dropped because the queue was full or the log unavailable. Others heal them.
pub const SIGNALS_DROPPED: &str = "quipu_gateway_signals_dropped_total";
/// Failed calls of the cache; the read went on to the rollup store.
pub const CACHE_ERRORS: &str = "quipu_gateway_cache_errors_total";
/// Connections that are open.
pub const CONNECTIONS: &str = "quipu_gateway_connections";
/// Requests that were turned away because too many were in flight.
pub const OVERLOADED: &str = "quipu_gateway_requests_overloaded_total";

/// The calls, as the label `method` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Add,
    AddAndGet,
    Get,
    Clear,
    BatchAdd,
    Lookup,
    ApplyNamespace,
    ShowNamespace,
    DeleteNamespace,
    ListNamespaces,
}

const METHODS: usize = Method::ListNamespaces as usize + 1;
const CODES: usize = Code::Unauthenticated as usize + 1;

impl Method {
    fn label(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::AddAndGet => "add_and_get",
            Self::Get => "get",
            Self::Clear => "clear",
            Self::BatchAdd => "batch_add",
            Self::Lookup => "lookup",
            Self::ApplyNamespace => "apply_namespace",
            Self::ShowNamespace => "show_namespace",
            Self::DeleteNamespace => "delete_namespace",
            Self::ListNamespaces => "list_namespaces",
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
}

impl Meters {
    pub(crate) fn accepted(&self) -> &Counter {
        self.accepted.get_or_init(|| counter!(ACCEPTED))
    }

    pub(crate) fn already_applied(&self) -> &Counter {
        self.already_applied
            .get_or_init(|| counter!(ALREADY_APPLIED))
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
                || counter!(REQUESTS, "method" => method.label(), "code" => code_name(code)),
            )
            .increment(1);
        self.meters.seconds[method as usize]
            .get_or_init(|| histogram!(REQUEST_SECONDS, "method" => method.label()))
            .record(elapsed);
    }
}
