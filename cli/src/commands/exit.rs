//! Exit codes: the one table that code, help and documentation share.

use quipu_client::{Error, Failure, Token};
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

impl Exit {
    /// Of `namespace diff`: something differs. As in `diff`, where 1 is no failure.
    pub(crate) const DIFFERS: Self = Self::Internal;
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

    /// A call that did not succeed.
    pub(crate) fn of_call(error: &Error, server: &str) -> Self {
        let exit = match &error.failure {
            Failure::Late(_) => Exit::Refused,
            Failure::OutcomeUnknown(_) => Exit::OutcomeUnknown,
            _ if error.may_be_applied => Exit::OutcomeUnknown,
            Failure::Refused(_) | Failure::Denied(_) => Exit::Refused,
            Failure::Unreachable { .. } | Failure::Unsettled { .. } => Exit::Unreachable,
        };
        Self::of_failure(exit, &error.failure, server)
    }

    /// A failure of a client, and what to do about it.
    pub(crate) fn of_failure(exit: Exit, failure: &Failure, server: &str) -> Self {
        let mut message = match failure {
            Failure::Unreachable { .. } => failure.to_string(),
            _ => format!("{server}: {failure}"),
        };
        if let Some(advice) = advice(failure) {
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

    /// The same, ending otherwise.
    pub(crate) fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
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

/// What the user can do about a failure.
pub(crate) fn advice(failure: &Failure) -> Option<&'static str> {
    match failure {
        Failure::Unreachable { .. } => Some(
            "is it running? Start one with `quipu serve --data DIR`, or name another with --server",
        ),
        Failure::Refused(said) if said.reason == "UNKNOWN_NAMESPACE" => {
            Some("create it with: echo '{\"namespace\": \"NAME\"}' | quipu namespace apply -f -")
        }
        _ => None,
    }
}
