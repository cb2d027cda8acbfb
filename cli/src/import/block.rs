//! Blocks of adds, as the reader hands them to the sender: compact, and kept until confirmed.

use quipu_core::{name::CounterName, time::Micros};
use quipu_schemas::{timestamp, v1};
use std::ops::Range;

/// The most adds in one call.
pub(crate) const ADDS_MOST: usize = 1_000;

// A call stays under 4 MiB whatever its rows are: an add is its name and at most 128 bytes around
// it (a token of 37, an item key of 3, a delta of 10, a time of 16, and their tags).
const _: () = assert!(ADDS_MOST * (CounterName::MAX_BYTES + 128) < 4 << 20);

/// A row that cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// Its line in the file.
    pub(crate) line: u64,
    /// Why.
    pub(crate) reason: String,
    /// The row as text.
    pub(crate) original: String,
}

/// A stretch of rows. Rows are numbered from 0 on, adds by `row × templates + template`.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The rows that it covers, rejected ones included.
    pub(crate) rows: Range<u64>,
    /// The rows to count.
    counted: Vec<Row>,
    names: String,
    /// Where each add's name ends in `names`.
    ends: Vec<u32>,
    /// Rows that were rejected.
    pub(crate) rejected: Vec<Rejected>,
}

#[derive(Debug)]
struct Row {
    number: u64,
    line: u64,
    delta: i64,
}

impl Block {
    /// An empty block that starts at a row.
    pub(crate) fn starting_at(row: u64) -> Self {
        Self {
            rows: row..row,
            ..Self::default()
        }
    }

    /// Adds a row. `render` appends the names of its adds and notes where each ends; when it
    /// fails, nothing of the row stays.
    pub(crate) fn push<E>(
        &mut self,
        number: u64,
        line: u64,
        delta: i64,
        render: impl FnOnce(&mut String, &mut Vec<u32>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (names, ends) = (self.names.len(), self.ends.len());
        let rendered = render(&mut self.names, &mut self.ends);
        if rendered.is_ok() {
            self.counted.push(Row {
                number,
                line,
                delta,
            });
        } else {
            self.names.truncate(names);
            self.ends.truncate(ends);
        }
        rendered
    }

    /// How many adds it holds.
    pub(crate) fn adds(&self) -> usize {
        self.ends.len()
    }

    /// The number of each of its adds, in order.
    pub(crate) fn numbers(&self, templates: u64) -> impl Iterator<Item = u64> {
        self.counted
            .iter()
            .flat_map(move |row| row.number * templates..(row.number + 1) * templates)
    }

    /// The adds of its rejected rows, which are never sent.
    pub(crate) fn holes(&self, templates: u64) -> Vec<Range<u64>> {
        let mut next = self.rows.start;
        let mut holes = Vec::new();
        for row in self
            .counted
            .iter()
            .map(|row| row.number)
            .chain([self.rows.end])
        {
            if next < row {
                holes.push(next * templates..row * templates);
            }
            next = row + 1;
        }
        holes
    }

    /// The line and the counter of an add, by its place in the block.
    pub(crate) fn describe(&self, place: usize) -> (u64, &str) {
        (self.row_of(place).line, self.name(place))
    }

    /// An add as a call carries it.
    pub(crate) fn item(&self, place: usize, time: Micros, token_prefix: &str) -> v1::BatchAddItem {
        let row = self.row_of(place);
        let template = place % self.templates();
        v1::BatchAddItem {
            counter_name: self.name(place).to_owned(),
            delta: row.delta,
            idempotency_token: Some(v1::IdempotencyToken {
                token: format!("{token_prefix}-{}", row.number + 1),
                generation_time: Some(timestamp::to_proto(time)),
            }),
            item_key: if template == 0 {
                String::new()
            } else {
                template.to_string()
            },
        }
    }

    fn templates(&self) -> usize {
        self.ends.len() / self.counted.len()
    }

    fn row_of(&self, place: usize) -> &Row {
        &self.counted[place / self.templates()]
    }

    fn name(&self, place: usize) -> &str {
        let start = if place == 0 {
            0
        } else {
            self.ends[place - 1] as usize
        };
        &self.names[start..self.ends[place] as usize]
    }
}
