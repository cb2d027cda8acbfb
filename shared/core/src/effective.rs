//! Effective time: the running maximum of a partition's append times (R1, R2).

use crate::time::Micros;

/// The effective time of a partition, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTime(Micros);

impl EffectiveTime {
    /// Resumes from a committed effective time; a new partition starts from its initial one.
    pub fn resume(at: Micros) -> Self {
        Self(at)
    }

    /// The time so far.
    pub fn get(self) -> Micros {
        self.0
    }

    /// Reads the next record's append time and returns its effective time.
    pub fn observe(&mut self, append_time: Micros) -> Micros {
        self.0 = self.0.max(append_time);
        self.0
    }
}
