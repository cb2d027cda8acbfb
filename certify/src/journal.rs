//! What was injected, and when.

use crate::timeline::Timeline;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// A fault, in seconds since the run began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Injected {
    /// What was done.
    pub what: String,
    /// When it began.
    pub began: f64,
    /// When it was over.
    pub ended: f64,
}

/// Notes faults while they are injected.
#[derive(Debug)]
pub struct Journal {
    timeline: Timeline,
    injected: Mutex<Vec<Injected>>,
}

impl Journal {
    pub(crate) fn new(timeline: Timeline) -> Self {
        Self {
            timeline,
            injected: Mutex::default(),
        }
    }

    /// Notes a fault that lasts for as long as this takes.
    pub async fn during<T>(&self, what: &str, fault: impl Future<Output = T>) -> T {
        let began = self.timeline.elapsed().as_secs_f64();
        let done = fault.await;
        let injected = Injected {
            what: what.to_owned(),
            began,
            ended: self.timeline.elapsed().as_secs_f64(),
        };
        let mut all = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(injected);
        done
    }

    /// Everything so far, in the order in which it ended.
    pub fn injected(&self) -> Vec<Injected> {
        let all = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }
}
