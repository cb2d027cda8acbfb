//! What an import has done: numbers, and rows that cannot be counted.

use super::{block::Rejected, progress::Progress};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// The numbers of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows read.
    pub(crate) rows: u64,
    /// Adds accepted.
    pub(crate) accepted: u64,
    /// Adds that an earlier attempt had applied.
    pub(crate) already_applied: u64,
    /// Adds that an earlier run had finished, and that were not sent.
    pub(crate) earlier: u64,
    /// Rows rejected.
    pub(crate) rejected: u64,
}

impl Tally {
    /// Adds that are counted.
    pub(crate) fn adds(&self) -> u64 {
        self.accepted + self.already_applied + self.earlier
    }

    /// Adds a second that this run has settled.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(crate) fn rate(&self, took: Duration) -> f64 {
        (self.accepted + self.already_applied) as f64 / took.as_secs_f64().max(0.001)
    }

    /// For people.
    pub(crate) fn to_text(self, took: Duration) -> String {
        let Self {
            rows,
            accepted,
            already_applied,
            earlier,
            rejected,
        } = self;
        let (adds, rate, seconds) = (self.adds(), self.rate(took), took.as_secs_f64());
        format!(
            "{rows} rows, {adds} adds: {accepted} accepted, {already_applied} already applied, \
             {earlier} by an earlier run; {rejected} rows rejected; {seconds:.1} s, {rate:.0} adds/s"
        )
    }

    /// For machines.
    pub(crate) fn to_json(self, took: Duration) -> Value {
        json!({
            "status": "FINISHED",
            "rows": self.rows,
            "adds": self.adds(),
            "accepted": self.accepted,
            "already_applied": self.already_applied,
            "finished_earlier": self.earlier,
            "rejected_rows": self.rejected,
            "seconds": took.as_secs_f64(),
            "adds_per_second": self.rate(took),
        })
    }
}

/// Where rejected rows go: the first to standard error, all to a file.
#[derive(Debug)]
pub(crate) struct Rejections {
    /// Draws below what is printed.
    pub(crate) progress: Progress,
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
    shown: u32,
}

impl Rejections {
    const SHOWN_MOST: u32 = 10;

    /// Forgets the file of an earlier run: this run meets its rows again.
    pub(crate) fn new(path: Option<PathBuf>, progress: Progress) -> io::Result<Self> {
        if let Some(path) = &path {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(Self {
            progress,
            path,
            file: None,
            shown: 0,
        })
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: &Rejected) -> io::Result<()> {
        let Rejected {
            line,
            reason,
            original,
        } = row;
        self.shown = self.shown.saturating_add(1);
        if self.shown <= Self::SHOWN_MOST {
            self.progress
                .print(&format!("line {line} is rejected: {reason}"));
        } else if self.shown == Self::SHOWN_MOST + 1 {
            self.progress.print("more rows are rejected");
        }
        let Some(path) = &self.path else {
            return Ok(());
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(path)?)),
        };
        writeln!(file, "{line}\t{reason}\t{original}")
    }

    /// Writes out what is buffered. Returns the file, when there is one.
    pub(crate) fn flush(&mut self) -> io::Result<Option<&Path>> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        file.flush()?;
        Ok(self.path.as_deref())
    }
}
