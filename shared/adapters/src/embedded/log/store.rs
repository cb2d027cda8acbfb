//! The log's directory: created once, and checked each time it is opened.

use super::{
    format::{TOPICS, topic_name},
    meta::{
        self, FRONTIERS, FrontierKey, PARAMETERS, Parameters, SegmentStart, decode_frontier,
        segment_key, segment_number, segment_prefix,
    },
    tail::Tail,
    topic::{Segment, TopicLog, damaged, newest_batch, segment_name, trimming_group},
};
use crate::{
    embedded::{LogSettings, OpenError},
    ports::{Committed, LogError, Topic},
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use quipu_core::time::Micros;
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const KEPT_MEMTABLE: u64 = 4 << 20;
const JOURNALS: u64 = 192 << 20;

/// Everything of the log that is shared by the writer, producers and consumers.
pub(in crate::embedded) struct Store {
    pub(super) db: Database,
    pub(super) meta: Keyspace,
    /// The control plane's changes, which take effect in the log's time.
    pub(in crate::embedded) control: Keyspace,
    topics: [TopicLog; 3],
    frontiers: Mutex<BTreeMap<FrontierKey, Committed>>,
    /// The initial effective time of every partition.
    pub(in crate::embedded) initial: Micros,
    /// No time that anything durable here holds is later, except for the control plane's.
    pub(super) newest_time: Micros,
}

/// What a new directory starts with.
pub(in crate::embedded) struct Beginning<'a> {
    pub(in crate::embedded) settings: &'a LogSettings,
    /// The initial effective time.
    pub(in crate::embedded) now: Micros,
    /// The control plane's first entry.
    pub(in crate::embedded) change: (Vec<u8>, Vec<u8>),
}

/// The options of a topic's segments. They are flushed by the writer, and only if consumers lag:
/// most segments are dropped before they ever leave memory and the journal.
pub(super) fn segment_options(topic: Topic) -> KeyspaceCreateOptions {
    let memtable = if trimming_group(topic).is_some() {
        1 << 30
    } else {
        KEPT_MEMTABLE
    };
    KeyspaceCreateOptions::default().max_memtable_size(memtable)
}

impl Store {
    /// Opens the log's directory, or creates it.
    pub(in crate::embedded) fn open(dir: &Path, begin: Beginning) -> Result<Self, OpenError> {
        let db = Database::builder(dir)
            .cache_size(4 << 20)
            .worker_threads(1)
            .max_journaling_size(JOURNALS)
            .journal_compression(fjall::CompressionType::None)
            .open()
            .map_err(|error| OpenError::engine(dir, error))?;
        let kept = || KeyspaceCreateOptions::default().max_memtable_size(KEPT_MEMTABLE);
        let meta = db.keyspace("meta", kept)?;
        let control = db.keyspace("control", kept)?;
        let settings = begin.settings;
        let parameters = match meta.get(PARAMETERS)? {
            Some(stored) => serde_json::from_slice(&stored)
                .map_err(|error| OpenError::Damaged(format!("the log's parameters: {error}")))?,
            None => create(&db, &meta, &control, begin)?,
        };
        let mut store = Self {
            frontiers: Mutex::new(load_frontiers(&meta)?),
            topics: load_topics(&db, &meta, parameters, settings)?,
            initial: Micros::new(parameters.initial_micros),
            newest_time: Micros::MIN,
            db,
            meta,
            control,
        };
        store.check_frontiers()?;
        store.newest_time = store.find_newest_time()?;
        store.flush_sealed()?;
        Ok(store)
    }

    /// A topic.
    pub(super) fn topic(&self, topic: Topic) -> &TopicLog {
        &self.topics[usize::from(super::format::topic_number(topic))]
    }

    /// The committed frontiers.
    pub(super) fn frontiers(&self) -> MutexGuard<'_, BTreeMap<FrontierKey, Committed>> {
        self.frontiers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A group's frontier in each partition of a topic: the committed one, or the beginning.
    pub(super) fn committed(&self, topic: Topic, group: &Arc<str>) -> Vec<Committed> {
        let beginning = Committed {
            next_offset: 0,
            effective_time: self.initial,
        };
        let frontiers = self.frontiers();
        let partitions = (0..).take(self.topic(topic).tails.len());
        let keys = partitions.map(|partition| FrontierKey::new(topic, partition, group));
        keys.map(|key| frontiers.get(&key).copied().unwrap_or(beginning))
            .collect()
    }

    fn check_frontiers(&self) -> Result<(), OpenError> {
        for (key, frontier) in self.frontiers().iter() {
            let topic = self.topics.get(usize::from(key.topic));
            let end = topic
                .and_then(|topic| topic.tails.get(key.partition as usize))
                .map(Tail::end);
            if end.is_none_or(|end| frontier.next_offset > end) {
                return Err(OpenError::Damaged(format!(
                    "group {} committed offset {} of topic {} partition {}, whose end is {end:?}: \
                     acknowledged records are missing; restore the directory from a backup",
                    key.group, frontier.next_offset, key.topic, key.partition
                )));
            }
        }
        for topic in &self.topics {
            let Some(group) = trimming_group(topic.topic) else {
                continue;
            };
            let first = &topic.segments()[0].starts;
            let committed = self.committed(topic.topic, &group.into());
            if committed
                .iter()
                .zip(first)
                .any(|(frontier, first)| frontier.next_offset < *first)
            {
                return Err(OpenError::Damaged(format!(
                    "the topic {} begins at {first:?}, but group {group} has only committed \
                     {committed:?}: a segment is missing; restore the directory from a backup",
                    topic_name(topic.topic)
                )));
            }
        }
        Ok(())
    }

    fn find_newest_time(&self) -> Result<Micros, OpenError> {
        let frontiers = self.frontiers();
        let mut newest = frontiers
            .values()
            .map(|frontier| frontier.effective_time)
            .max();
        newest = newest.max(Some(self.initial));
        for topic in &self.topics {
            let segment = topic.newest();
            let start = self.meta.get(segment_key(topic.topic, segment.number))?;
            newest = newest.max(start.and_then(|start| Some(SegmentStart::decode(&start)?.clock)));
            for partition in (0..).take(topic.tails.len()) {
                let batch = newest_batch(&segment.keyspace, partition)?;
                newest = newest.max(batch.map(|batch| batch.append_time));
            }
        }
        Ok(newest.unwrap_or(self.initial))
    }
}

/// Settles the parameters, in one atomic step with everything that must be there from the start.
fn create(
    db: &Database,
    meta: &Keyspace,
    control: &Keyspace,
    begin: Beginning,
) -> Result<Parameters, OpenError> {
    let settings = begin.settings;
    let partitions = [settings.event_partitions, settings.signal_partitions, 1];
    if partitions.contains(&0) {
        return Err(OpenError::Settings(
            "a topic needs at least one partition".to_owned(),
        ));
    }
    let parameters = Parameters {
        partitions,
        initial_micros: begin.now.get(),
    };
    let mut batch = db.batch().durability(Some(PersistMode::SyncAll));
    for (topic, partitions) in TOPICS.into_iter().zip(partitions) {
        db.keyspace(&segment_name(topic, 1), || segment_options(topic))?;
        let start = SegmentStart {
            clock: begin.now,
            offsets: vec![0; partitions as usize],
        };
        batch.insert(meta, segment_key(topic, 1), start.encode());
    }
    let (key, value) = begin.change;
    batch.insert(control, key, value);
    let json = serde_json::to_vec(&parameters).expect("numbers are JSON");
    batch.insert(meta, PARAMETERS, json);
    batch.commit()?;
    Ok(parameters)
}

fn load_frontiers(meta: &Keyspace) -> Result<BTreeMap<FrontierKey, Committed>, OpenError> {
    let entries = meta.prefix(FRONTIERS).map(|entry| {
        let (key, value) = entry.into_inner()?;
        let read = FrontierKey::decode(&key).zip(decode_frontier(&value));
        read.ok_or_else(|| OpenError::Damaged(format!("the committed frontier {key:?}")))
    });
    entries.collect()
}

fn load_topics(
    db: &Database,
    meta: &Keyspace,
    parameters: Parameters,
    settings: &LogSettings,
) -> Result<[TopicLog; 3], OpenError> {
    let tail_bytes = settings.tail_bytes / parameters.partitions.iter().sum::<u32>() as usize;
    let load = |topic, partitions| -> Result<TopicLog, OpenError> {
        let segments = load_segments(db, meta, topic, partitions)?;
        let newest = segments.back().expect("loading checks that there is one");
        let ends = segment_ends(newest)?;
        let tails = ends
            .into_iter()
            .map(|end| Tail::new(end, tail_bytes))
            .collect();
        Ok(TopicLog::new(topic, segments, tails))
    };
    let [events, signals, dead_letters] = parameters.partitions;
    Ok([
        load(Topic::Events, events)?,
        load(Topic::Signals, signals)?,
        load(Topic::DeadLetters, dead_letters)?,
    ])
}

/// The offset after each partition's last record in a segment.
fn segment_ends(segment: &Segment) -> Result<Vec<u64>, LogError> {
    let partitions = (0..).zip(&segment.starts);
    let ends = partitions.map(|(partition, start)| {
        let newest = newest_batch(&segment.keyspace, partition)?;
        Ok(newest.map_or(*start, |batch| batch.end()))
    });
    ends.collect()
}

/// Opens a topic's segments, and finishes what a crash left half done: a segment that was dropped
/// but is still listed, or created but not yet.
fn load_segments(
    db: &Database,
    meta: &Keyspace,
    topic: Topic,
    partitions: u32,
) -> Result<VecDeque<Segment>, OpenError> {
    let name = topic_name(topic);
    let damage = |what: &str| OpenError::Damaged(format!("the segments of topic {name}: {what}"));
    let mut segments: VecDeque<Segment> = VecDeque::new();
    for entry in meta.prefix(segment_prefix(topic)) {
        let (key, value) = entry.into_inner()?;
        let start = segment_number(&key).zip(SegmentStart::decode(&value));
        let (number, start) = start.ok_or_else(|| damage("an entry cannot be read"))?;
        if start.offsets.len() != partitions as usize {
            return Err(damage("an entry has another number of partitions"));
        }
        if !db.keyspace_exists(&segment_name(topic, number)) {
            if !segments.is_empty() {
                return Err(damage(&format!("number {number} is missing")));
            }
            meta.remove(key)?;
            continue;
        }
        let keyspace = db.keyspace(&segment_name(topic, number), || segment_options(topic))?;
        if let Some(previous) = segments.back()
            && (previous.number + 1 != number || segment_ends(previous)? != start.offsets)
        {
            return Err(damage(&format!(
                "records are missing before number {number}"
            )));
        }
        segments.push_back(Segment {
            number,
            starts: start.offsets,
            keyspace,
        });
    }
    let newest = segments
        .back()
        .ok_or_else(|| damage("there is none"))?
        .number;
    let next = segment_name(topic, newest + 1);
    if db.keyspace_exists(&next) {
        let unused = db.keyspace(&next, || segment_options(topic))?;
        if !unused.is_empty()? {
            return Err(damage(&format!(
                "number {} is not listed but used",
                newest + 1
            )));
        }
        db.delete_keyspace(unused)?;
    }
    Ok(segments)
}

impl Store {
    /// Writes sealed segments that consumers have not finished out of memory.
    fn flush_sealed(&self) -> Result<(), LogError> {
        for topic in &self.topics {
            let segments = topic.segments();
            for segment in segments.iter().take(segments.len() - 1) {
                segment.keyspace.rotate_memtable().map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// Stages a frontier in a batch.
    pub(super) fn stage_frontier(
        &self,
        batch: &mut fjall::OwnedWriteBatch,
        key: &FrontierKey,
        frontier: Committed,
    ) {
        batch.insert(&self.meta, key.encode(), meta::encode_frontier(frontier));
    }
}
