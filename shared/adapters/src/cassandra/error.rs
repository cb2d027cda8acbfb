//! The driver's errors, told apart by what the caller does about them.

use crate::ports::StoreError;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use std::fmt;

/// A connection to the cluster, or something opened on it, could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CassandraError {
    /// No node answered.
    #[error("cannot reach Cassandra at {contact_points}: {problem}")]
    Unreachable {
        /// The addresses that were tried.
        contact_points: String,
        /// What the driver said.
        problem: String,
    },
    /// The settings, or the cluster's, are not such that counts stay exact. The text names the
    /// setting and what to change.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a statement failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The table does not exist, or not here yet; or it lacks a column that a newer version has.
    NoTable(String),
    /// Try again: a write may or may not have been applied.
    Unavailable(String),
    /// No retry mends it.
    Damaged(String),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoTable(problem) => Self::Damaged(format!(
                "{problem}; run `quipu admin setup` to make the tables"
            )),
            Failure::Unavailable(problem) => Self::Unavailable(problem),
            Failure::Damaged(problem) => Self::Damaged(problem),
        }
    }
}

impl From<Failure> for CassandraError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.into())
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let problem = error.to_string();
        match &error {
            ExecutionError::BadQuery(_) => Self::Damaged(problem),
            ExecutionError::LastAttemptError(attempt) => of_attempt(attempt, problem),
            ExecutionError::PrepareError(error) => of_prepare(error, problem),
            _ => Self::Unavailable(problem),
        }
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        let problem = error.to_string();
        of_prepare(&error, problem)
    }
}

fn of_prepare(error: &PrepareError, problem: String) -> Failure {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => of_attempt(first_attempt, problem),
        _ => Failure::Unavailable(problem),
    }
}

fn of_attempt(error: &RequestAttemptError, problem: String) -> Failure {
    match error {
        RequestAttemptError::DbError(error, message) => of_database(error, message, problem),
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. } => Failure::Damaged(problem),
        _ => Failure::Unavailable(problem),
    }
}

fn of_database(error: &DbError, message: &str, problem: String) -> Failure {
    let says = |text| message.contains(text);
    match error {
        // Cassandra has no code of its own for this.
        DbError::Invalid | DbError::ConfigError
            if says("table")
                && (says("unconfigured") || says("does not exist") || says("exist")) =>
        {
            Failure::NoTable(problem)
        }
        DbError::Invalid if says("Undefined column name") => Failure::NoTable(problem),
        DbError::Invalid if says("keyspace") && says("does not exist") => Failure::NoTable(problem),
        DbError::SyntaxError | DbError::Invalid | DbError::ConfigError => Failure::Damaged(problem),
        _ => Failure::Unavailable(problem),
    }
}

/// A row that cannot be read.
pub(super) fn unreadable(what: &str, problem: &dyn fmt::Display) -> Failure {
    Failure::Damaged(format!("cannot read {what}: {problem}"))
}
