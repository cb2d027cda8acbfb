//! The progress bar, on a terminal only.

use super::report::Tally;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quipu_adapters::clock::Clock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How far an import is: how much of the file is read, and what was settled.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    position: Arc<AtomicU64>,
    clock: Clock,
    started: Duration,
}

impl Progress {
    /// A bar for a file of `size` bytes, or a spinner when nobody knows. `position` says how many
    /// of them were read.
    pub(crate) fn new(size: Option<u64>, position: Arc<AtomicU64>, clock: Clock) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
        let template = match size {
            Some(_) => "{bar:40} {percent:>3} % {msg}, {eta} left",
            None => "{spinner} {bytes} {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is constant"));
        let started = clock.read().steady;
        Self {
            bar,
            position,
            clock,
            started,
        }
    }

    /// Shows the newest numbers.
    pub(crate) fn update(&self, tally: &Tally) {
        if self.bar.is_hidden() {
            return;
        }
        let rate = tally.rate(self.clock.read().steady.saturating_sub(self.started));
        self.bar
            .set_message(format!("{} adds, {rate:.0} adds/s", tally.adds()));
        self.bar.set_position(self.position.load(Ordering::Relaxed));
    }

    /// Prints a line above the bar.
    pub(crate) fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
