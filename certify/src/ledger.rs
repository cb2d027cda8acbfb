//! The ledger: every attempt is on disk before it is sent, and what was heard of it follows. One
//! sync serves all attempts that wait at that moment.

use crate::entry::{Attempt, Entry, Heard};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
    thread::{self, JoinHandle},
};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the writer.
const WAITING: usize = 1_024;

/// A ledger that is being written.
#[derive(Debug)]
pub struct Ledger {
    requests: mpsc::Sender<Request>,
    writer: JoinHandle<io::Result<()>>,
}

/// A hand on a ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LedgerPen(mpsc::Sender<Request>);

/// The ledger could not be written; whatever waits must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot be written any more: look at the disk that it is on")]
pub struct LedgerClosed;

#[derive(Debug)]
enum Request {
    Attempts(Vec<(u64, Attempt)>, oneshot::Sender<()>),
    Heard(Vec<(u64, Heard)>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Attempt(u64, Attempt),
    Heard(u64, Heard),
}

impl Ledger {
    /// Begins a new one at a path.
    ///
    /// # Errors
    /// When the file is there already, or cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let (requests, waiting) = mpsc::channel(WAITING);
        let writer = thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write(file, waiting))?;
        Ok(Self { requests, writer })
    }

    /// A hand that writes into it.
    pub fn pen(&self) -> LedgerPen {
        LedgerPen(self.requests.clone())
    }

    /// Ends it, once every hand is gone and all is on disk.
    ///
    /// # Errors
    /// When something could not be written.
    ///
    /// # Panics
    /// When the writer did.
    pub fn close(self) -> io::Result<()> {
        drop(self.requests);
        self.writer.join().expect("the writer does not panic")
    }
}

impl LedgerPen {
    /// Notes attempts, each under its number, and returns once they are on disk: only then may
    /// they be sent.
    ///
    /// # Errors
    /// When they are not.
    pub async fn attempts(&self, entries: &[(u64, &Entry)]) -> Result<(), LedgerClosed> {
        let attempts = entries
            .iter()
            .map(|(id, entry)| (*id, Attempt::from(*entry)));
        let (synced, on_disk) = oneshot::channel();
        let request = Request::Attempts(attempts.collect(), synced);
        self.0.send(request).await.map_err(|_| LedgerClosed)?;
        on_disk.await.map_err(|_| LedgerClosed)
    }

    /// Notes what was heard of attempts. It is on disk with the next attempts, or at the end: what a
    /// crash loses here was only heard, and nothing follows from not knowing it.
    ///
    /// # Errors
    /// When the ledger cannot be written any more.
    pub async fn heard(&self, heard: Vec<(u64, Heard)>) -> Result<(), LedgerClosed> {
        let request = Request::Heard(heard);
        self.0.send(request).await.map_err(|_| LedgerClosed)
    }
}

fn write(file: File, mut waiting: mpsc::Receiver<Request>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    while let Some(first) = waiting.blocking_recv() {
        let mut synced = Vec::new();
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Attempts(attempts, on_disk) => {
                    for (id, attempt) in attempts {
                        line(&mut file, &Line::Attempt(id, attempt))?;
                    }
                    synced.push(on_disk);
                }
                Request::Heard(heard) => {
                    for (id, heard) in heard {
                        line(&mut file, &Line::Heard(id, heard))?;
                    }
                }
            }
            next = waiting.try_recv().ok();
        }
        if !synced.is_empty() {
            file.flush()?;
            file.get_ref().sync_data()?;
        }
        for on_disk in synced {
            // Who does not wait any more does not send either.
            let _ = on_disk.send(());
        }
    }
    file.flush()?;
    file.get_ref().sync_all()
}

fn line(file: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}

/// Reads a ledger back, in the order of the numbers. A last line that a crash tore is left out.
///
/// # Errors
/// When the file cannot be read, or holds something else.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut entries: Vec<Entry> = Vec::new();
    let mut text = String::new();
    while reader.read_line(&mut text)? > 0 && text.ends_with('\n') {
        match serde_json::from_str(&text)? {
            Line::Attempt(id, attempt) => {
                expect_number(entries.len(), id)?;
                entries.push(attempt.try_into().map_err(io::Error::other)?);
            }
            Line::Heard(id, heard) => {
                let entry = usize::try_from(id).ok().and_then(|id| entries.get_mut(id));
                let entry = entry.ok_or_else(|| damaged(format!("{id} was never attempted")))?;
                entry.heard.push(heard);
            }
        }
        text.clear();
    }
    Ok(entries)
}

fn expect_number(expected: usize, id: u64) -> io::Result<()> {
    if u64::try_from(expected) == Ok(id) {
        return Ok(());
    }
    Err(damaged(format!(
        "attempt {id} stands where {expected} should"
    )))
}

fn damaged(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{add, clear};

    #[tokio::test]
    async fn what_was_attempted_and_heard_is_read_back_in_order() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ledger");
        let (first, second) = (add("a", 1, "t1", -7), clear("b\tc", 2, "t2"));
        let ledger = Ledger::create(&path).unwrap();
        let pen = ledger.pen();
        pen.attempts(&[(0, &first), (1, &second)]).await.unwrap();
        let heard = [(1, Heard::Published(3, 9)), (0, Heard::Unknown)];
        pen.heard(heard.to_vec()).await.unwrap();
        pen.heard(vec![(0, Heard::Accepted)]).await.unwrap();
        drop(pen);
        ledger.close().unwrap();
        let heard_of_first = vec![Heard::Unknown, Heard::Accepted];
        let expected = [
            Entry {
                heard: heard_of_first,
                ..first
            },
            Entry {
                heard: vec![Heard::Published(3, 9)],
                ..second
            },
        ];
        assert_eq!(read(&path).unwrap(), expected);
    }

    #[tokio::test]
    async fn an_attempt_is_on_disk_before_it_may_be_sent() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ledger");
        let ledger = Ledger::create(&path).unwrap();
        let entry = add("a", 1, "t", 1);
        ledger.pen().attempts(&[(0, &entry)]).await.unwrap();
        assert_eq!(read(&path).unwrap(), [entry]);
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_a_damaged_one_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ledger");
        let line = |id: u64| {
            let line = Line::Attempt(id, Attempt::from(&add("a", 1, "t", 1)));
            serde_json::to_string(&line).unwrap() + "\n"
        };
        std::fs::write(&path, line(0) + &line(1)[..20]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        for bad in [line(0) + &line(2), line(0) + "{}\n"] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
