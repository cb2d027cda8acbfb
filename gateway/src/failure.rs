//! Why a call was not answered with what it asked for: one shape, which HTTP and gRPC render.

use crate::machine::NoNamespace;
use quipu_adapters::ports::{ControlError, LogError, StoreError};
use quipu_core::{policy::Incarnation, time::Micros};
use quipu_schemas::timestamp::to_rfc3339;
use std::{fmt, time::Duration};
use tonic::Code;

/// The domain of [`reason`]s in a google.rpc.ErrorInfo.
pub const DOMAIN: &str = "quipu";

/// Reasons, as google.rpc.ErrorInfo carries them. Clients may rely on them.
pub mod reason {
    /// No attempt with this token was counted and none ever will be: make a new token.
    pub const LATE: &str = "LATE";
    /// The token is older than what is kept: nobody can tell what became of it.
    pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";
    /// An earlier attempt may still be in the log: retry with the same token.
    pub const WINDOW_OPEN: &str = "WINDOW_OPEN";
    /// The log took so long that the event may be late: retry with the same token.
    pub const UNDECIDED: &str = "UNDECIDED";
    /// The generation time is too far ahead of the server's time. This call wrote nothing.
    pub const TOO_FAR_AHEAD: &str = "TOO_FAR_AHEAD";
    /// The namespace does not exist.
    pub const UNKNOWN_NAMESPACE: &str = "UNKNOWN_NAMESPACE";
    /// The control plane refused the change of a namespace.
    pub const NAMESPACE_REFUSED: &str = "NAMESPACE_REFUSED";
    /// Another version of the namespace is in force than the change was made for (HTTP 412).
    pub const VERSION_MOVED: &str = "VERSION_MOVED";
    /// The cluster is not declared.
    pub const UNKNOWN_CLUSTER: &str = "UNKNOWN_CLUSTER";
    /// The declaration of a cluster was refused.
    pub const CLUSTER_REFUSED: &str = "CLUSTER_REFUSED";
    /// The gateway has not joined the namespace's cluster: retry with the same token.
    pub const CLUSTER_UNAVAILABLE: &str = "CLUSTER_UNAVAILABLE";
    /// The gateway has not heard from the control plane in time: retry.
    pub const POLICY_EXPIRED: &str = "POLICY_EXPIRED";
    /// A field is missing, unknown, of a wrong type, or outside its rules.
    pub const INVALID_FIELD: &str = "INVALID_FIELD";
    /// The body is not JSON.
    pub const MALFORMED_JSON: &str = "MALFORMED_JSON";
    /// The body is over 4 MiB (HTTP 413).
    pub const BODY_TOO_LARGE: &str = "BODY_TOO_LARGE";
    /// The body did not arrive whole.
    pub const BODY_INCOMPLETE: &str = "BODY_INCOMPLETE";
    /// The content type is not application/json (HTTP 415).
    pub const WRONG_CONTENT_TYPE: &str = "WRONG_CONTENT_TYPE";
    /// The batch has over 1,000 items.
    pub const TOO_MANY_ITEMS: &str = "TOO_MANY_ITEMS";
    /// The count does not fit an int64; the message has the exact value.
    pub const COUNT_OUT_OF_RANGE: &str = "COUNT_OUT_OF_RANGE";
    /// The log or a store cannot be reached: retry with the same token.
    pub const STORAGE_UNAVAILABLE: &str = "STORAGE_UNAVAILABLE";
    /// The log or a store holds what it never should: an operator must look.
    pub const STORAGE_DAMAGED: &str = "STORAGE_DAMAGED";
    /// The server asks for an API key, and the call has none.
    pub const API_KEY_MISSING: &str = "API_KEY_MISSING";
    /// The API key is none of this server's.
    pub const API_KEY_INVALID: &str = "API_KEY_INVALID";
    /// The API key has ended.
    pub const API_KEY_EXPIRED: &str = "API_KEY_EXPIRED";
    /// The API key is not for this namespace, or not for this call.
    pub const NOT_ALLOWED: &str = "NOT_ALLOWED";
    /// The namespace's quota is used up for now.
    pub const QUOTA_EXCEEDED: &str = "QUOTA_EXCEEDED";
    /// The namespace is `BEST_EFFORT`: it keeps no events to look up.
    pub const KEEPS_NO_EVENTS: &str = "KEEPS_NO_EVENTS";
    /// A `BEST_EFFORT` mutation may or may not have been applied: it must not be retried blindly.
    pub const NOT_IDEMPOTENT: &str = "NOT_IDEMPOTENT";
    /// An accurate read would have to scan more than it may: the message names the bound.
    pub const SCAN_LIMIT: &str = "SCAN_LIMIT";
    /// No count can be complete through that time by the call's deadline.
    pub const FRESHNESS_OUT_OF_REACH: &str = "FRESHNESS_OUT_OF_REACH";
    /// The count was not complete through the time asked for by the call's deadline.
    pub const NOT_FRESH: &str = "NOT_FRESH";
    /// The server has too many requests in flight: retry with the same token.
    pub const OVERLOADED: &str = "OVERLOADED";
    /// The request took too long; it may have been applied: retry with the same token, unless the
    /// namespace is `BEST_EFFORT`.
    pub const TIMED_OUT: &str = "TIMED_OUT";
    /// There is no such call.
    pub const NO_SUCH_CALL: &str = "NO_SUCH_CALL";
    /// The call exists, but not with this method (HTTP 405).
    pub const METHOD_NOT_ALLOWED: &str = "METHOD_NOT_ALLOWED";
    /// The server is not ready: the message says why.
    pub const NOT_READY: &str = "NOT_READY";
}

/// How long a caller waits before a retry, when nothing better is known.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The google.rpc code: what a caller does about it.
    pub code: Code,
    /// One of [`reason`].
    pub reason: &'static str,
    /// What was wrong, where, and what to do.
    pub message: String,
    /// The field of the request that is to blame, by its path.
    pub field: Option<String>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// The quota that is used up, as the subject of a google.rpc.QuotaFailure.
    pub exhausted: Option<String>,
}

impl Failure {
    /// A failure that no retry will change.
    pub fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            field: None,
            retry_after: None,
            exhausted: None,
        }
    }

    /// A request that breaks a rule of its own.
    pub fn invalid(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, reason, message)
    }

    /// A failure that passes. The same call with the same token may be tried again.
    pub fn unavailable(reason: &'static str, message: impl Into<String>) -> Self {
        let failure = Self::new(Code::Unavailable, reason, message);
        Self {
            retry_after: Some(RETRY_DELAY),
            ..failure
        }
    }

    /// The same, with the field that is to blame.
    #[must_use]
    pub fn at(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }

    /// The same, for a field inside of `parent`.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        let field = match &self.field {
            Some(field) => format!("{parent}.{field}"),
            None => parent.to_owned(),
        };
        self.at(field)
    }

    pub(crate) fn no_namespace(name: &str, why: NoNamespace) -> Self {
        match why {
            NoNamespace::Unknown => Self::new(
                Code::NotFound,
                reason::UNKNOWN_NAMESPACE,
                format!(
                    "namespace {name} does not exist; create it with PUT /v1/namespaces/{name}"
                ),
            ),
            NoNamespace::PolicyExpired { valid_through } => Self::unavailable(
                reason::POLICY_EXPIRED,
                format!(
                    "the policy is known through {} only; retry once the control plane is back",
                    to_rfc3339(valid_through)
                ),
            ),
        }
    }

    pub(crate) fn late(life: &Incarnation, effective: Micros) -> Self {
        Self::new(
            Code::FailedPrecondition,
            reason::LATE,
            format!(
                "generation_time is older than the accept limit of {:?} at the server's time {}; no \
                 attempt with this token was counted and none will be: make a new token",
                life.limits_at(effective).accept_limit,
                to_rfc3339(effective)
            ),
        )
    }

    pub(crate) fn too_far_ahead(life: &Incarnation, effective: Micros) -> Self {
        let message = format!(
            "generation_time is more than {:?} ahead of the server's time {}; nothing was written: \
             check the client's clock",
            life.limits_at(effective).max_future,
            to_rfc3339(effective)
        );
        Self::invalid(reason::TOO_FAR_AHEAD, message).at("idempotency_token.generation_time")
    }

    pub(crate) fn outcome_unknown() -> Self {
        Self::new(
            Code::FailedPrecondition,
            reason::OUTCOME_UNKNOWN,
            "outcome_unknown: generation_time lies before what is kept, so nobody can tell whether \
             an earlier attempt was counted",
        )
    }

    pub(crate) fn window_open() -> Self {
        Self::unavailable(
            reason::WINDOW_OPEN,
            "an earlier attempt with this token may still be in the log; retry with the same token",
        )
    }

    pub(crate) fn undecided() -> Self {
        Self::unavailable(
            reason::UNDECIDED,
            "the log took so long that the event may be late; retry with the same token",
        )
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::new(
            Code::DeadlineExceeded,
            reason::TIMED_OUT,
            format!(
                "the request took longer than {after:?}; it may have been applied: ask again with \
                 the same token, but not where the namespace is BEST_EFFORT, which would count it \
                 twice"
            ),
        )
    }

    /// What contradicts an invariant concerns operators, not only the caller.
    fn damaged(error: &impl fmt::Display) -> Self {
        tracing::error!(%error, "a call met damaged storage");
        Self::new(Code::Internal, reason::STORAGE_DAMAGED, error.to_string())
    }

    pub(crate) fn overloaded() -> Self {
        Self::unavailable(
            reason::OVERLOADED,
            "too many requests are in flight; nothing was written: retry with the same token",
        )
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Unavailable(_) | LogError::ClockJumped(_) | LogError::ClientLost(_) => {
                Self::unavailable(reason::STORAGE_UNAVAILABLE, error.to_string())
            }
            LogError::TooLarge { .. } => Self::invalid(reason::INVALID_FIELD, error.to_string()),
            LogError::Damaged(_) => Self::damaged(&error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::SliceNotReady(_) => {
                Self::unavailable(reason::STORAGE_UNAVAILABLE, error.to_string())
            }
            StoreError::Damaged(_) => Self::damaged(&error),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Refused(why) => {
                Self::new(Code::FailedPrecondition, reason::NAMESPACE_REFUSED, why)
            }
            ControlError::VersionMoved { .. } => Self::new(
                Code::FailedPrecondition,
                reason::VERSION_MOVED,
                error.to_string(),
            ),
            ControlError::NotFound(name) => Self::no_namespace(name.as_str(), NoNamespace::Unknown),
            ControlError::Store(error) => error.into(),
        }
    }
}
