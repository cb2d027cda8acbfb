//! Why something did not succeed, by what the caller does about it.

use crate::token::Token;
use quipu_schemas::code::code_name;
use std::{fmt, time::Duration};
use tonic::Code;

/// What was said of a call that did not succeed: by the server, by the transport, or here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The google.rpc code, by name; empty when there was no answer.
    pub code: String,
    /// The reason of the answer's `ErrorInfo`, as `docs/errors.md` lists them; may be empty.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why an attempt did not succeed, by what the caller does about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Retry later: there was no connection, so nothing was sent.
    #[error("cannot reach the server at {server}: {cause}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// What went wrong.
        cause: String,
    },
    /// Retry later, with the same token: it may or may not have been applied.
    #[error("{said}")]
    Unsettled {
        /// What the server or the transport said.
        said: Said,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// Make a new token, or give up: no attempt with this one was counted, and none will be (R16).
    #[error("{0}")]
    Late(Said),
    /// Nobody can tell whether it was counted, and asking again does not help.
    #[error("{0}")]
    OutcomeUnknown(Said),
    /// Fix the request: this attempt applied nothing.
    #[error("{0}")]
    Refused(Said),
    /// Ask for the permission: this attempt applied nothing.
    #[error("{0}")]
    Denied(Said),
}

impl Failure {
    /// No answer, or none that tells anything.
    pub fn unsettled(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Unsettled {
            said: Said {
                message,
                ..Said::default()
            },
            retry_after: None,
        }
    }

    /// A request that was refused here, before anything was sent.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Refused(Said {
            code: code_name(Code::InvalidArgument).to_owned(),
            reason: "INVALID_FIELD".to_owned(),
            message: message.into(),
        })
    }

    /// Whether the same attempt may succeed later: no connection, no answer, or an answer that says
    /// so.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Unsettled { said, .. } => {
                said.code.is_empty()
                    || said.code == code_name(Code::Unavailable)
                    || said.code == code_name(Code::DeadlineExceeded)
            }
            Self::Late(_) | Self::OutcomeUnknown(_) | Self::Refused(_) | Self::Denied(_) => false,
        }
    }

    /// Whether the fault lies in the mutation itself, so that others of a batch may go on. A time
    /// too far ahead is the fault of a clock, and so concerns them all.
    pub fn is_malformed_item(&self) -> bool {
        matches!(self, Self::Refused(said)
            if said.code == code_name(Code::InvalidArgument) && said.reason != "TOO_FAR_AHEAD")
    }

    /// How long the server asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unsettled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The google.rpc code and the reason that the server gave, by name; each may be empty.
    pub fn code_and_reason(&self) -> (&str, &str) {
        match self {
            Self::Unreachable { .. } => ("", ""),
            Self::Unsettled { said, .. }
            | Self::Late(said)
            | Self::OutcomeUnknown(said)
            | Self::Refused(said)
            | Self::Denied(said) => (&said.code, &said.reason),
        }
    }
}

/// A call that did not succeed, after all its attempts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct Error {
    /// Why, and so what to do.
    pub failure: Failure,
    /// Whether the call may have been applied: some attempt was sent, and no answer settled it. A
    /// refusal settles only the attempt that it answers.
    pub may_be_applied: bool,
    /// The token of a mutation, to try again with.
    pub token: Option<Box<Token>>,
}

impl Error {
    /// A failure before anything was sent.
    pub(crate) fn unsent(failure: Failure) -> Self {
        Self {
            failure,
            may_be_applied: false,
            token: None,
        }
    }

    pub(crate) fn with_token(self, token: Token) -> Self {
        let token = Some(Box::new(token));
        Self { token, ..self }
    }
}
