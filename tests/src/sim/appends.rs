//! Appends to the simulated log, and how they fail.

use super::{
    faults::LogKind,
    port::{Fate, Port},
    world::{World, log::Stamper},
};
use quipu_adapters::ports::{Appended, Body, LogError, NewRecord, Producer, Topic};
use quipu_core::time::Micros;

impl Producer for Port {
    fn partitions(&self, topic: Topic) -> u32 {
        let world = self.sim.lock();
        let partitions = match topic {
            Topic::Events => world.events_topic.partitions.len(),
            Topic::Signals => world.signals_topic.partitions.len(),
            Topic::DeadLetters => 1,
        };
        u32::try_from(partitions).expect("few partitions")
    }

    async fn append(
        &self,
        topic: Topic,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Appended>, LogError> {
        self.sim.pause().await;
        let mut appended = Vec::with_capacity(records.len());
        let failed = {
            let mut world = self.sim.lock();
            let fate = Fate::draw(&mut world);
            let taken = match fate {
                Fate::Works => records.len(),
                Fate::Fails => 0,
                Fate::FailsApplied => world.rng.index(records.len() + 1),
            };
            for record in records.into_iter().take(taken) {
                appended.push(world.append(topic, record));
            }
            !matches!(fate, Fate::Works)
        };
        self.sim.pause().await;
        if failed {
            return Err(LogError::Unavailable("simulated".to_owned()));
        }
        Ok(appended)
    }
}

impl World {
    /// Appends to the events topic. Returns the offset and the time that the log answers with.
    pub(super) fn append_event(
        &mut self,
        partition: u32,
        stamper: Stamper,
        body: Body,
    ) -> (u64, Micros) {
        let state = self.events_topic.partition(partition);
        let (offset, shown) = state.append(&mut self.rng, self.now, stamper, body);
        let effective = state.effective();
        self.check_append(partition, offset);
        self.note(&format!(
            "append {partition}/{offset} effective {effective}"
        ));
        (
            offset,
            if self.faults.log == LogKind::Embedded {
                effective
            } else {
                shown
            },
        )
    }

    fn append(&mut self, topic: Topic, record: NewRecord) -> Appended {
        let NewRecord { partition, body } = record;
        let (offset, append_time) = match topic {
            Topic::Events => self.append_event(partition, Stamper::Log, body),
            Topic::Signals => {
                if self.strikes(|faults| faults.signal_lost) {
                    return Appended {
                        partition,
                        offset: 0,
                        append_time: self.now,
                    };
                }
                let doubled = self.rng.chance(10);
                let state = self.signals_topic.partition(partition);
                if doubled {
                    state.append(&mut self.rng, self.now, Stamper::Log, body.clone());
                }
                state.append(&mut self.rng, self.now, Stamper::Log, body)
            }
            Topic::DeadLetters => {
                self.check_dead_letter(&body);
                (0, self.now)
            }
        };
        Appended {
            partition,
            offset,
            append_time,
        }
    }
}
