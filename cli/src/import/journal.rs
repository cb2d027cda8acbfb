//! The journal of an import: lines of a CRC and a JSON note, durable before what they announce.
//!
//! A line that is cut off or damaged by a crash can only be among the last, which were not yet
//! durable and so announced nothing that was sent: the journal ends before it. A damaged line
//! before one that was written later, after it had been durable, is an error.

use super::plan::{Note, Plan};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What an import is of. To resume, all of it must be the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The version of this format.
    pub(crate) quipu_import_journal: u32,
    /// The size of the file, in bytes.
    pub(crate) file_size: u64,
    /// XXH3-128 of the file.
    pub(crate) file_hash: String,
    /// The format of its rows.
    pub(crate) format: String,
    /// The namespace.
    pub(crate) namespace: String,
    /// The counter templates, in order.
    pub(crate) counters: Vec<String>,
    /// The delta column.
    pub(crate) delta: Option<String>,
}

/// A line after the header.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    /// How many bytes of the journal were durable when the line was written.
    durable: u64,
    note: Note,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Reading or writing failed.
    #[error("the journal {}: {error}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// Another process has it.
    #[error("the journal {} is in use: another import of this file is running", .0.display())]
    InUse(PathBuf),
    /// It is of something else.
    #[error(
        "the journal {} belongs to another import: {what}. Run the same command on the same file to \
         go on with that one, or give another --journal. Rows that were sent under this journal \
         would be counted again.",
        path.display()
    )]
    Different {
        /// The journal.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// It cannot be relied on.
    #[error("{} is no import journal, or is damaged, at byte {at}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where.
        at: u64,
    },
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<File>,
    path: PathBuf,
    written: u64,
    durable: u64,
}

impl Journal {
    /// Opens or creates the journal of an import, and replays what it has into a plan.
    pub(crate) fn open(path: &Path, header: &Header) -> Result<(Self, Plan), JournalError> {
        let failed = |error| JournalError::Io {
            path: path.to_owned(),
            error,
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => JournalError::InUse(path.to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let first = encode(header);
        // Empty, or cut off while it was created, and then nothing was sent yet.
        let cut_off = first.starts_with(&bytes) && bytes.len() < first.len();
        let replayed = if cut_off {
            None
        } else {
            replay(&bytes, path, header)?
        };
        let (valid, plan) = if let Some(replayed) = replayed {
            replayed
        } else {
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(&first))
                .map_err(failed)?;
            (first.len() as u64, Plan::default())
        };
        file.set_len(valid).map_err(failed)?;
        file.seek(SeekFrom::Start(valid)).map_err(failed)?;
        file.sync_all()
            .and_then(|()| sync_directory(path))
            .map_err(failed)?;
        Ok((
            Self {
                file: Arc::new(file),
                path: path.to_owned(),
                written: valid,
                durable: valid,
            },
            plan,
        ))
    }

    /// Appends notes. They are durable only after [`Self::sync`].
    pub(crate) fn append(
        &mut self,
        notes: impl IntoIterator<Item = Note>,
    ) -> Result<(), JournalError> {
        let mut lines = Vec::new();
        for note in notes {
            lines.extend(encode(&Line {
                durable: self.durable,
                note,
            }));
        }
        (&*self.file)
            .write_all(&lines)
            .map_err(|error| self.failed(error))?;
        self.written += lines.len() as u64;
        Ok(())
    }

    /// Returns once everything appended is durable.
    pub(crate) async fn sync(&mut self) -> Result<(), JournalError> {
        let (file, written) = (Arc::clone(&self.file), self.written);
        tokio::task::spawn_blocking(move || file.sync_data())
            .await
            .map_err(io::Error::other)
            .and_then(|synced| synced)
            .map_err(|error| self.failed(error))?;
        self.durable = written;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError::Io {
            path: self.path.clone(),
            error,
        }
    }
}

/// Replays all lines that hold, and returns where they end. `None` when they are of another import
/// that never sent anything, such as one that a mistake in its command stopped.
fn replay(bytes: &[u8], path: &Path, header: &Header) -> Result<Option<(u64, Plan)>, JournalError> {
    let damaged = |at: u64| JournalError::Damaged {
        path: path.to_owned(),
        at,
    };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let found: Header = decode(first).ok_or_else(|| damaged(0))?;
    let difference = difference(&found, header);
    // The notes of another version cannot be read, so they may say that something was sent.
    let mut sent = found.quipu_import_journal != header.quipu_import_journal;
    let mut plan = Plan::default();
    let mut at = first.len() as u64;
    let mut valid_to = None;
    for bytes in lines {
        match (decode::<Line>(bytes), valid_to) {
            (Some(line), None) => {
                sent |= matches!(line.note, Note::Send { .. });
                plan.replay(line.note);
            }
            (Some(line), Some(end)) if line.durable > end => return Err(damaged(end)),
            (None, None) => valid_to = Some(at),
            (_, Some(_)) => {}
        }
        at += bytes.len() as u64;
    }
    match difference {
        Some(what) if sent => Err(JournalError::Different {
            path: path.to_owned(),
            what,
        }),
        Some(_) => Ok(None),
        None => Ok(Some((valid_to.unwrap_or(at), plan))),
    }
}

/// A line: the CRC-32 of the JSON in hexadecimal, a space, the JSON.
fn encode(content: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_string(content).expect("notes have only text keys");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

fn decode<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, json) = text.split_once(' ')?;
    let holds = u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes());
    serde_json::from_str(json).ok().filter(|_| holds)
}

fn difference(found: &Header, wanted: &Header) -> Option<String> {
    let differs = |what: &str, found: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
        Some(format!("it has {what} {found:?}, and now it is {wanted:?}"))
    };
    if found.quipu_import_journal != wanted.quipu_import_journal {
        differs(
            "version",
            &found.quipu_import_journal,
            &wanted.quipu_import_journal,
        )
    } else if (found.file_size, &found.file_hash) != (wanted.file_size, &wanted.file_hash) {
        Some("the file has other content than when the import began".to_owned())
    } else if found.format != wanted.format {
        differs("the format", &found.format, &wanted.format)
    } else if found.namespace != wanted.namespace {
        differs("the namespace", &found.namespace, &wanted.namespace)
    } else if found.counters != wanted.counters {
        differs("the counters", &found.counters, &wanted.counters)
    } else if found.delta != wanted.delta {
        differs("the delta column", &found.delta, &wanted.delta)
    } else {
        None
    }
}

/// Makes the journal's name durable, not only its content.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            quipu_import_journal: 1,
            file_size: 3,
            file_hash: "abc".to_owned(),
            format: "csv".to_owned(),
            namespace: "web".to_owned(),
            counters: vec!["views/{page}".to_owned()],
            delta: None,
        }
    }

    fn send(first: u64, end: u64) -> Note {
        Note::Send {
            adds: vec![(first, end)],
            attempt: 1,
            generation_time: 5,
        }
    }

    /// A journal with three notes, the first two made durable one by one.
    async fn written(path: &Path) -> Vec<u8> {
        let (mut journal, _) = Journal::open(path, &header()).unwrap();
        for note in [send(0, 10), send(10, 20)] {
            journal.append([note]).unwrap();
            journal.sync().await.unwrap();
        }
        journal.append([Note::Done { below: 7 }]).unwrap();
        std::fs::read(path).unwrap()
    }

    #[tokio::test]
    async fn a_journal_that_is_cut_off_anywhere_holds_the_notes_before_the_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let bytes = written(&path).await;
        let ends: Vec<_> = (0..bytes.len())
            .filter(|at| bytes[*at] == b'\n')
            .map(|at| at + 1)
            .collect();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let (mut journal, plan) = Journal::open(&path, &header()).unwrap();
            assert_eq!(plan.attempt(7).is_some(), cut >= ends[1], "cut at {cut}");
            assert_eq!(plan.attempt(10).is_some(), cut >= ends[2], "cut at {cut}");
            assert_eq!(
                plan.frontier(),
                if cut >= ends[3] { 7 } else { 0 },
                "cut at {cut}"
            );
            journal.append([send(20, 30)]).unwrap();
            drop(journal);
            let (_, plan) = Journal::open(&path, &header()).unwrap();
            assert!(
                plan.attempt(20).is_some(),
                "what is appended after the cut can be read"
            );
        }
    }

    #[tokio::test]
    async fn damage_to_what_was_durable_is_an_error_and_damage_to_the_rest_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let bytes = written(&path).await;
        // The last line was written when the three before it were durable, and bears witness to them.
        let last = bytes[..bytes.len() - 1]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let opened = Journal::open(&path, &header());
            if at < last {
                assert!(
                    matches!(opened, Err(JournalError::Damaged { .. })),
                    "byte {at}: {opened:?}"
                );
            } else {
                assert!(opened.is_ok(), "byte {at}: {opened:?}");
            }
        }
    }

    #[test]
    fn a_journal_of_another_import_or_in_use_is_refused_and_other_files_stay_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = Journal::open(&path, &header()).unwrap();
        journal.append([send(0, 10)]).unwrap();
        assert!(matches!(
            Journal::open(&path, &header()),
            Err(JournalError::InUse(_))
        ));
        drop(journal);
        let other = Header {
            namespace: "shop".to_owned(),
            ..header()
        };
        assert!(matches!(
            Journal::open(&path, &other),
            Err(JournalError::Different { .. })
        ));
        std::fs::write(&path, "my,precious\ndata,1\n").unwrap();
        assert!(matches!(
            Journal::open(&path, &header()),
            Err(JournalError::Damaged { at: 0, .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"my,precious\ndata,1\n");
    }

    #[test]
    fn a_journal_of_another_import_that_sent_nothing_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = Journal::open(&path, &header()).unwrap();
        journal.append([Note::Done { below: 7 }]).unwrap();
        drop(journal);
        let other = Header {
            namespace: "shop".to_owned(),
            ..header()
        };
        let (_, plan) = Journal::open(&path, &other).unwrap();
        assert_eq!(plan.frontier(), 0);
        assert_eq!(std::fs::read(&path).unwrap(), encode(&other));

        let newer = Header {
            quipu_import_journal: 2,
            ..header()
        };
        std::fs::write(&path, encode(&newer)).unwrap();
        assert!(matches!(
            Journal::open(&path, &header()),
            Err(JournalError::Different { .. })
        ));
    }
}
