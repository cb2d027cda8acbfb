//! A client that brings nothing for long may have lost its cluster.

use super::{Delivered, Group, Reader};
use crate::{
    kafka::lost::{self, Answers},
    ports::LogError,
};
use rdkafka::consumer::Consumer;
use std::time::Instant;

impl Reader {
    /// Asks whether the client can still hear the cluster, once that is due. One that cannot is
    /// of no more use to the role.
    pub(super) fn keep_vigil(&mut self, consumer: &Group) {
        if !self.vigil.is_due(Instant::now()) {
            return;
        }
        let answers = if lost::answers(consumer.client(), self.name()) {
            Answers::It
        } else {
            lost::ask_for_another(&self.setup.settings, self.name())
        };
        if self.vigil.is_lost(Instant::now(), answers) {
            lost::tell("consumer");
            self.give_up();
        }
    }

    /// The role is told that its partitions are gone, and then why. What the group still waits for
    /// is answered when the role drops the consumer.
    fn give_up(&mut self) {
        let all: Vec<u32> = self.positions.keys().copied().collect();
        let mut gone = self.stop_reading(&all);
        if let Some((_, unreleased)) = &self.leaving {
            gone.extend(unreleased);
        }
        if !gone.is_empty() {
            let gone = gone.into_iter().collect();
            self.outbox.push_back(Delivered::Lost(gone));
        }
        let text = format!("topic {}: the cluster answers others", self.name());
        self.fail(LogError::ClientLost(text));
    }
}
