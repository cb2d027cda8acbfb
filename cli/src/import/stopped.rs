//! Why an import stops before its end.

use super::{block::Block, journal::JournalError, settle::Pick};
use quipu_client::Failure;
use std::{fmt::Write, io, time::Duration};

/// Why an import stopped before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file of rejected rows cannot be written.
    #[error("the file of rejected rows: {0}")]
    Rejections(#[from] io::Error),
    /// The server refused a row in a way that concerns all others too, or cannot tell any more.
    #[error("line {lines}: {failure}")]
    At {
        /// The lines of the rows.
        lines: String,
        /// What the server said of the first.
        failure: Failure,
    },
    /// A whole call was refused.
    #[error("{0}")]
    Call(Failure),
    /// New tokens are late again and again.
    #[error(
        "the server finds times made just now too old: is the clock of this machine behind its?"
    )]
    AlwaysLate,
    /// The server confirmed nothing for too long.
    #[error("nothing was confirmed for {0:.0?}: {1}")]
    GaveUp(Duration, Failure),
}

impl Stopped {
    /// The answer of the server, or the lack of one, that is the cause.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::At { failure, .. } | Self::Call(failure) | Self::GaveUp(_, failure) => {
                Some(failure)
            }
            Self::Journal(_) | Self::Rejections(_) | Self::AlwaysLate => None,
        }
    }
}

/// The lines of some adds, as text of a readable length.
pub(crate) fn lines_of(block: &Block, picks: &[Pick]) -> String {
    let mut lines: Vec<_> = picks
        .iter()
        .map(|pick| block.describe(pick.place).0)
        .collect();
    lines.dedup();
    let mut text = lines
        .iter()
        .take(10)
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if lines.len() > 10 {
        let (more, last) = (lines.len() - 10, lines[lines.len() - 1]);
        write!(text, " and {more} more up to {last}").expect("text grows");
    }
    text
}
