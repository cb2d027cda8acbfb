//! What a check of a cluster finds.

use std::fmt;

/// Something about a cluster that should be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is so, and what follows from it.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

/// How bad a finding is; the worst is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing: something is slow, or lost only in rarer cases.
    Advice,
    /// Something does not do what it should, and roles work.
    Problem,
    /// Like [`Severity::Unfit`], but it may be gone some seconds later: while partitions are added,
    /// it is so for a while.
    Passing,
    /// Counts may be wrong, or roles cannot work: they refuse to start.
    Unfit,
}

impl Severity {
    /// Whether roles refuse to start on it.
    pub fn is_refused(self) -> bool {
        self >= Self::Passing
    }
}

impl Finding {
    /// A finding with its fix.
    pub fn new(severity: Severity, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            severity,
            what: what.into(),
            fix: fix.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.fix)
    }
}
