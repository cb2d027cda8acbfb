//! Exit codes: the one table that code, help and documentation share.

use crate::client::{connection::CallFailed, token::Token, verdict::Failure};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Internal = 1,
    Usage = 2,
    Refused = 3,
    OutcomeUnknown = 4,
    Unreachable = 5,
    RowsRejected = 6,
}

const TABLE: [(Exit, &str); 7] = [
    (Exit::Done, "done"),
    (
        Exit::Internal,
        "a file could not be read or written, or another internal error",
    ),
    (Exit::Usage, "the command line is wrong"),
    (Exit::Refused, "refused for good; nothing was applied"),
    (
        Exit::OutcomeUnknown,
        "outcome unknown: it may or may not have been applied",
    ),
    (
        Exit::Unreachable,
        "the server could not be reached; nothing was changed",
    ),
    (
        Exit::RowsRejected,
        "the import finished, but some rows were rejected",
    ),
];

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The table as help shows it, below a command's examples.
pub(crate) fn help(examples: &str) -> String {
    let mut text = format!("Examples:\n{examples}\n\nExit codes:\n");
    for (exit, meaning) in TABLE {
        writeln!(text, "  {}  {meaning}", exit as u8).expect("text grows");
    }
    text
}

/// A command that did not do what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// How the process ends.
    pub(crate) exit: Exit,
    message: String,
    failure: Option<Box<Failure>>,
    token: Option<(String, String)>,
}

impl Failed {
    /// A failure with its message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            failure: None,
            token: None,
        }
    }

    /// The failure of a call that changes nothing, or that may be made again as it is.
    pub(crate) fn of_call(call: &CallFailed, server: &str) -> Self {
        let exit = match &call.failure {
            Failure::Late(_) | Failure::Refused { .. } => Exit::Refused,
            Failure::OutcomeUnknown(_) => Exit::OutcomeUnknown,
            Failure::Unreachable { .. } | Failure::Unsettled { .. } if call.sent => {
                Exit::OutcomeUnknown
            }
            Failure::Unreachable { .. } | Failure::Unsettled { .. } => Exit::Unreachable,
        };
        Self::of_failure(exit, &call.failure, server)
    }

    /// A failure of a client, and what to do about it.
    pub(crate) fn of_failure(exit: Exit, failure: &Failure, server: &str) -> Self {
        let mut message = match failure {
            Failure::Unreachable { .. } => failure.to_string(),
            _ => format!("{server}: {failure}"),
        };
        if let Some(advice) = failure.advice() {
            message = format!("{message}\n{advice}");
        }
        Self::new(exit, message).because_of(failure)
    }

    /// The same, with the code and the reason that the server gave.
    pub(crate) fn because_of(self, failure: &Failure) -> Self {
        Self {
            failure: Some(Box::new(failure.clone())),
            ..self
        }
    }

    /// The same, with the token to ask again with.
    pub(crate) fn with_token(self, token: &Token) -> Self {
        let message = format!(
            "{}\nTo try again with the same token: --token {} --generation-time {}",
            self.message,
            token.text(),
            token.time_text()
        );
        Self {
            message,
            token: Some((token.text().to_owned(), token.time_text())),
            ..self
        }
    }

    /// The text for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The same for machines.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"exit_code": self.exit as u8, "message": self.message});
        let failure = self.failure.as_deref();
        let (code, reason) = failure.map_or(("", ""), Failure::code_and_reason);
        for (name, value) in [("code", code), ("reason", reason)] {
            if !value.is_empty() {
                error[name] = value.into();
            }
        }
        if let Some((token, time)) = &self.token {
            error["idempotency_token"] = json!({"token": token, "generation_time": time});
        }
        json!({ "error": error })
    }
}
