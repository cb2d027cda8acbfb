//! A pace that is finer than a millisecond, which is as fine as tokio's timers are.

use std::{sync::Arc, thread, time::Duration};
use tokio::sync::Notify;

/// The system sleeps for some 50 µs longer.
const PERIOD: Duration = Duration::from_micros(100);

/// Ticks several thousand times a second, for as long as it lives.
pub(super) struct Pace(Arc<Notify>);

impl Pace {
    pub(super) fn new() -> Self {
        let ticks = Arc::new(Notify::new());
        let ticking = Arc::downgrade(&ticks);
        thread::spawn(move || {
            while let Some(ticks) = ticking.upgrade() {
                ticks.notify_one();
                drop(ticks);
                thread::sleep(PERIOD);
            }
        });
        Self(ticks)
    }

    /// Waits for the next tick. Those that nobody waited for are one.
    pub(super) async fn tick(&self) {
        self.0.notified().await;
    }
}
