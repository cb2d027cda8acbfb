//! Adaptive back-pressure: the pause before the next batch follows the last batch's performance.
//! The rate rises additively and falls multiplicatively, on evidence only (Chiu and Jain, 1989).

use std::time::Duration;

/// What a batch showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It ended within the target.
    Fast,
    /// It took longer than the target.
    Slow,
    /// A part of it failed.
    Failed,
}

/// Batches a second, between a floor and a ceiling.
#[derive(Clone, Debug)]
pub struct Pressure {
    per_second: f64,
}

impl Pressure {
    const FLOOR: f64 = 0.5;
    const CEILING: f64 = 1000.0;
    const RISE: f64 = 20.0;

    /// Starts without any pause to speak of.
    pub fn new() -> Self {
        Self {
            per_second: Self::CEILING,
        }
    }

    /// Learns from a batch.
    pub fn learn(&mut self, evidence: Evidence) {
        let next = match evidence {
            Evidence::Fast => self.per_second + Self::RISE,
            Evidence::Slow => self.per_second * 0.7,
            Evidence::Failed => self.per_second * 0.5,
        };
        self.per_second = next.clamp(Self::FLOOR, Self::CEILING);
    }

    /// How long to pause before the next batch, given how long the last one took.
    pub fn pause(&self, last_batch: Duration) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second).saturating_sub(last_batch)
    }

    /// The rate now, in batches a second.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self::new()
    }
}
