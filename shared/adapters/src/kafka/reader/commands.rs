//! What the role asks of the thread.

use super::Reader;
use std::sync::mpsc::TryRecvError;

/// A wish of the role. One that names an assignment which has ended changes nothing.
#[derive(Debug)]
pub(crate) enum Command {
    /// Go on at an offset: the seek of this number.
    Seek {
        partition: u32,
        assignment: u64,
        next_offset: u64,
        seeks: u64,
    },
    /// Bring nothing more for now.
    Pause { partition: u32, assignment: u64 },
    /// Go on.
    Resume { partition: u32, assignment: u64 },
    /// These revoked partitions are finished.
    Release(Vec<u32>),
}

impl Reader {
    /// Does what was asked. Returns whether the consumer still lives.
    pub(super) fn obey(&mut self) -> bool {
        loop {
            match self.setup.commands.try_recv() {
                Ok(command) => self.on_command(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Release(partitions) => self.on_released(&partitions),
            Command::Seek {
                partition,
                assignment,
                next_offset,
                seeks,
            } => {
                let position = self.positions.get_mut(&partition);
                if let Some(position) = position.filter(|it| it.is_assignment(assignment)) {
                    position.seek(next_offset, seeks);
                }
            }
            Command::Pause {
                partition,
                assignment,
            } => {
                let position = self.positions.get_mut(&partition);
                if let Some(position) = position.filter(|it| it.is_assignment(assignment)) {
                    position.paused = true;
                    self.pause(&[partition]);
                }
            }
            Command::Resume {
                partition,
                assignment,
            } => {
                let position = self.positions.get_mut(&partition);
                if let Some(position) = position.filter(|it| it.is_assignment(assignment)) {
                    position.paused = false;
                    // While everything is paused, this one is resumed with the rest.
                    if !self.throttled {
                        self.resume(|it| it.is_assignment(assignment));
                    }
                }
            }
        }
    }
}
