//! The role's side of a consumer.

use super::{
    KafkaSettings, Registered, admin,
    context::GroupContext,
    frontier::metadata,
    list,
    reader::{Command, Delivered, Group, Reader, Setup},
    settings::misconfigured,
};
use crate::ports::{Committed, Consumer, LogError, Polled, Topic};
use futures::{FutureExt, future::BoxFuture};
use rdkafka::{
    consumer::{CommitMode, Consumer as _},
    error::KafkaError,
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Weak, mpsc},
    time::Duration,
};
use tokio::sync::mpsc as channel;

/// Batches on their way from the thread to the role.
const BATCHES: usize = 8;
/// How long the role's end waits for the consumer to leave its group.
const LEAVE: Duration = Duration::from_secs(3);
/// How long a question that only metrics ask may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Reads a topic as a member of a consumer group. Dropping it leaves the group, and waits for that
/// a few seconds at most: commit before.
pub struct KafkaConsumer {
    client: Option<Arc<Group>>,
    topic: Arc<str>,
    owned: BTreeMap<u32, Owned>,
    /// What came for partitions that the role has paused.
    held: VecDeque<(u32, Polled)>,
    delivered: channel::Receiver<Delivered>,
    commands: Option<mpsc::Sender<Command>>,
    left: mpsc::Receiver<()>,
}

#[derive(Debug)]
struct Owned {
    assignment: u64,
    seeks: u64,
    paused: bool,
}

impl fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("topic", &self.topic)
            .field("owned", &self.owned)
            .finish_non_exhaustive()
    }
}

impl KafkaConsumer {
    /// Joins a group that reads the events topic. Only registered partitions are read.
    ///
    /// # Errors
    /// When the topic is not stamped by the log (R1), or is missing; when the cluster cannot be
    /// reached, or the settings are refused.
    pub async fn events(
        settings: KafkaSettings,
        group: &str,
        registered: Registered,
    ) -> Result<Self, LogError> {
        admin::require_log_append_time(&settings).await?;
        Self::start(settings, Topic::Events, group, Some(registered))
    }

    /// Joins a group that reads the signals topic.
    ///
    /// # Errors
    /// When the settings are refused.
    pub fn signals(settings: KafkaSettings, group: &str) -> Result<Self, LogError> {
        Self::start(settings, Topic::Signals, group, None)
    }

    fn start(
        settings: KafkaSettings,
        topic: Topic,
        group: &str,
        registered: Option<Registered>,
    ) -> Result<Self, LogError> {
        let name: Arc<str> = settings.topics.name(topic).into();
        let config = settings.consumer(group);
        let client = config.create_with_context(GroupContext::default());
        let client: Arc<Group> = Arc::new(client.map_err(|error| misconfigured(&error))?);
        client
            .subscribe(&[&name])
            .map_err(|error| misconfigured(&error))?;
        let (sender, delivered) = channel::channel(BATCHES);
        let (commands, receiver) = mpsc::channel();
        let (leaving, left) = mpsc::channel();
        let setup = Setup {
            consumer: Arc::clone(&client),
            settings,
            topic,
            group: group.to_owned(),
            registered,
            commands: receiver,
            delivered: sender,
        };
        let work = move || {
            Reader::new(setup).run();
            // The client has left by now, unless a commit still holds it.
            drop(leaving);
        };
        let thread = std::thread::Builder::new().name("quipu-kafka-poll".to_owned());
        thread.spawn(work).map_err(|error| {
            LogError::Damaged(format!("the system refuses a thread for Kafka: {error}"))
        })?;
        Ok(Self {
            client: Some(client),
            topic: name,
            owned: BTreeMap::new(),
            held: VecDeque::new(),
            delivered,
            commands: Some(commands),
            left,
        })
    }

    /// What the role is to know, if it is for its eyes now.
    fn heed(&mut self, delivered: Delivered) -> Option<Result<Polled, LogError>> {
        match delivered {
            Delivered::Assigned(assigned) => {
                let owned = assigned.iter().map(|(it, assignment)| {
                    let owned = Owned {
                        assignment: *assignment,
                        seeks: 0,
                        paused: false,
                    };
                    (it.partition, owned)
                });
                self.owned.extend(owned);
                let assigned = assigned.into_iter().map(|(it, _)| it).collect();
                Some(Ok(Polled::Assigned(assigned)))
            }
            Delivered::Revoked(partitions) => {
                self.disown(&partitions);
                Some(Ok(Polled::Revoked(partitions)))
            }
            Delivered::Lost(partitions) => {
                self.disown(&partitions);
                Some(Ok(Polled::Lost(partitions)))
            }
            Delivered::Brought {
                partition,
                position,
                polled,
            } => {
                let owned = self.owned.get(&partition)?;
                if (owned.assignment, owned.seeks) != position {
                    return None;
                }
                if owned.paused {
                    self.held.push_back((partition, polled));
                    return None;
                }
                Some(Ok(polled))
            }
            Delivered::Failed(error) => Some(Err(error)),
        }
    }

    fn disown(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.owned.remove(partition);
        }
        self.held
            .retain(|(partition, _)| !partitions.contains(partition));
    }

    fn held_no_more(&mut self) -> Option<Polled> {
        let goes_on = |(partition, _): &(u32, Polled)| !self.owned[partition].paused;
        let at = self.held.iter().position(goes_on)?;
        self.held.remove(at).map(|(_, polled)| polled)
    }

    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that has ended is told of by the next poll.
            let _ = commands.send(command);
        }
    }
}

impl Consumer for KafkaConsumer {
    async fn poll(&mut self) -> Result<Polled, LogError> {
        if let Some(polled) = self.held_no_more() {
            return Ok(polled);
        }
        loop {
            let Some(delivered) = self.delivered.recv().await else {
                return Err(LogError::Damaged(
                    "the thread that reads Kafka died of a defect; start the process again"
                        .to_owned(),
                ));
            };
            if let Some(known) = self.heed(delivered) {
                return known;
            }
        }
    }

    fn commit(
        &mut self,
        frontiers: Vec<(u32, Committed)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        // A commit must not keep a consumer in its group that is gone.
        let client = self.client.as_ref().map(Arc::downgrade);
        let topic = Arc::clone(&self.topic);
        let work = move || {
            let client = client.and_then(|client| client.upgrade());
            let client = client.ok_or("the consumer has left its group".to_owned())?;
            commit(&client, &topic, &frontiers).map_err(|error| error.to_string())
        };
        let commit = async move {
            // Asynchronous commits tell nobody whether they succeeded.
            let committed = tokio::task::spawn_blocking(work).await;
            let committed = committed.unwrap_or_else(|error| Err(error.to_string()));
            committed.map_err(|error| LogError::Unavailable(format!("the commit failed: {error}")))
        };
        commit.boxed()
    }

    fn release(&mut self, partitions: Vec<u32>) {
        self.command(Command::Release(partitions));
    }

    fn seek(&mut self, partition: u32, next_offset: u64) {
        self.held.retain(|(held, _)| *held != partition);
        let Some(owned) = self.owned.get_mut(&partition) else {
            return;
        };
        owned.seeks += 1;
        let (assignment, seeks) = (owned.assignment, owned.seeks);
        self.command(Command::Seek {
            partition,
            assignment,
            next_offset,
            seeks,
        });
    }

    fn pause(&mut self, partition: u32) {
        if let Some(owned) = self.owned.get_mut(&partition) {
            owned.paused = true;
            let assignment = owned.assignment;
            self.command(Command::Pause {
                partition,
                assignment,
            });
        }
    }

    fn resume(&mut self, partition: u32) {
        if let Some(owned) = self.owned.get_mut(&partition) {
            owned.paused = false;
            let assignment = owned.assignment;
            self.command(Command::Resume {
                partition,
                assignment,
            });
        }
    }

    fn ends(&self) -> BoxFuture<'static, BTreeMap<u32, u64>> {
        let client = self.client.as_ref().map(Arc::downgrade);
        let topic = Arc::clone(&self.topic);
        let partitions: Vec<u32> = self.owned.keys().copied().collect();
        let ask = move || {
            let mut ends = BTreeMap::new();
            for partition in partitions {
                // A question must not keep a consumer in its group that is gone.
                let Some(client) = client.as_ref().and_then(Weak::upgrade) else {
                    break;
                };
                match client.fetch_watermarks(&topic, list::number(partition), ANSWER) {
                    Ok((_, end)) => ends.insert(partition, u64::try_from(end).unwrap_or_default()),
                    Err(error) => {
                        tracing::debug!(%error, topic = &*topic, partition, "could not ask for an end");
                        break;
                    }
                };
            }
            ends
        };
        async move { tokio::task::spawn_blocking(ask).await.unwrap_or_default() }.boxed()
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.client = None;
        self.commands = None;
        // An error says that the thread has ended, which is what this waits for.
        if self.left.recv_timeout(LEAVE) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!(
                topic = &*self.topic,
                "a consumer is slow to leave its group"
            );
        }
    }
}

fn commit(client: &Group, topic: &str, frontiers: &[(u32, Committed)]) -> Result<(), KafkaError> {
    let offsets = frontiers
        .iter()
        .map(|(id, to)| (*id, list::offset(to.next_offset)));
    let list = list::at(topic, offsets)?;
    for (partition, frontier) in frontiers {
        let mut element = list.find_partition(topic, list::number(*partition));
        let element = element.as_mut().expect("it was just added");
        element.set_metadata(metadata(frontier.effective_time));
    }
    client.commit(&list, CommitMode::Sync)
}
