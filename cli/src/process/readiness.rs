//! What `/healthz/ready` says of the process itself.

use std::sync::{Arc, Mutex, PoisonError};

/// Whether all parts of the process run. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Readiness(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Running,
    Stopping,
    Stopped(&'static str),
}

impl Readiness {
    /// Of a process that starts.
    pub(crate) fn starting() -> Self {
        Self(Arc::new(Mutex::new(State::Starting)))
    }

    /// Everything was started.
    pub(crate) fn started(&self) {
        self.set(|state| matches!(state, State::Starting), State::Running);
    }

    /// The process was asked to stop.
    pub(crate) fn stopping(&self) {
        self.set(|state| !matches!(state, State::Stopped(_)), State::Stopping);
    }

    /// A part ended, which is no news while the process stops.
    pub(crate) fn stopped(&self, part: &'static str) {
        self.set(
            |state| !matches!(state, State::Stopping),
            State::Stopped(part),
        );
    }

    /// Why the process is not ready, if it is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Running => Ok(()),
            State::Starting => Err("the server is starting".to_owned()),
            State::Stopping => Err("the server is stopping".to_owned()),
            State::Stopped(part) => Err(format!("{part} stopped; the log says why")),
        }
    }

    fn set(&self, may: impl Fn(State) -> bool, next: State) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if may(*state) {
            *state = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_only_between_its_start_and_its_stop() {
        let readiness = Readiness::starting();
        assert!(readiness.check().unwrap_err().contains("starting"));
        readiness.started();
        assert_eq!(readiness.check(), Ok(()));
        readiness.stopping();
        readiness.stopped("ingest");
        readiness.started();
        assert!(readiness.check().unwrap_err().contains("stopping"));
    }

    #[test]
    fn a_process_without_one_of_its_parts_is_not_ready() {
        for started_before in [true, false] {
            let readiness = Readiness::starting();
            if started_before {
                readiness.started();
            }
            readiness.stopped("ingest");
            readiness.started();
            readiness.stopping();
            assert!(readiness.check().unwrap_err().starts_with("ingest stopped"));
        }
    }
}
