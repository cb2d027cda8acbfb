//! Rows of a file, whatever its format.

mod csv;
mod input;
mod ndjson;

pub(crate) use input::{Input, Opened};

use crate::args_import::Format;
use std::{io, ops::Range};

/// A row longer than this is no row: in CSV, probably a quote that was never closed.
const ROW_MOST: usize = 1 << 20;

/// The values of the columns that a layout needs, of one row. Reused for all rows.
#[derive(Debug)]
pub(crate) struct Values {
    text: String,
    spans: Vec<Option<Range<usize>>>,
}

impl Values {
    /// Room for `columns` values.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            text: String::new(),
            spans: vec![None; columns],
        }
    }

    /// Forgets the last row.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.spans.fill(None);
    }

    /// Sets one value.
    pub(crate) fn set(&mut self, column: usize, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.spans[column] = Some(start..self.text.len());
    }

    /// One value.
    ///
    /// # Panics
    /// When the value is missing: a source delivers all of them, or says that the row is bad.
    pub(crate) fn get(&self, column: usize) -> &str {
        let span = self.spans[column]
            .clone()
            .expect("the source has set every value");
        &self.text[span]
    }

    /// The first column without a value.
    fn missing(&self) -> Option<usize> {
        self.spans.iter().position(Option::is_none)
    }
}

/// What a source found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A row; its values are set.
    Row,
    /// A row that cannot be counted, and why.
    Bad(String),
    /// The end of the file.
    End,
}

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// The file could not be read, or is damaged.
    #[error("cannot read the file after line {line}: {error}")]
    Io {
        /// The last line that was read.
        line: u64,
        /// What happened.
        error: io::Error,
    },
    /// The header does not have what the command line asks for.
    #[error("{0}")]
    Header(String),
}

/// The rows of one file.
#[derive(Debug)]
pub(crate) enum Source {
    Csv(Box<csv::CsvRows>),
    Ndjson(ndjson::NdjsonRows),
}

impl Source {
    /// Begins to read rows with these columns.
    pub(crate) fn new(
        input: Input,
        format: Format,
        columns: &[String],
    ) -> Result<Self, SourceError> {
        Ok(match format {
            Format::Csv => Self::Csv(Box::new(csv::CsvRows::new(input, columns)?)),
            Format::Ndjson => Self::Ndjson(ndjson::NdjsonRows::new(input, columns)),
        })
    }

    /// Reads the next row into `values`.
    pub(crate) fn read(&mut self, values: &mut Values) -> Result<Read, SourceError> {
        values.clear();
        match self {
            Self::Csv(rows) => rows.read(values),
            Self::Ndjson(rows) => rows.read(values),
        }
    }

    /// The line on which the last row began, from 1 on.
    pub(crate) fn line(&self) -> u64 {
        match self {
            Self::Csv(rows) => rows.line(),
            Self::Ndjson(rows) => rows.line(),
        }
    }

    /// The last row as text, on one line.
    pub(crate) fn original(&self) -> String {
        match self {
            Self::Csv(rows) => rows.original(),
            Self::Ndjson(rows) => rows.original(),
        }
        .replace('\r', "\\r")
        .replace('\n', "\\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows as (line, values or reason).
    fn rows(
        text: &[u8],
        format: Format,
        columns: &[&str],
    ) -> Vec<(u64, Result<Vec<String>, String>)> {
        let columns: Vec<_> = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut source = Source::new(Input::of_bytes(text), format, &columns).unwrap();
        let mut values = Values::new(columns.len());
        let mut rows = Vec::new();
        loop {
            let row = match source.read(&mut values).unwrap() {
                Read::End => return rows,
                Read::Bad(reason) => Err(reason),
                Read::Row => Ok((0..columns.len())
                    .map(|column| values.get(column).to_owned())
                    .collect()),
            };
            rows.push((source.line(), row));
        }
    }

    #[test]
    fn csv_rows_come_with_their_lines_and_bad_ones_with_a_reason() {
        let text = b"\xef\xbb\xbfa,b\nx,1\n\"y\nz\",2\nshort\nv,\xff\n\xff,w\n";
        let rows = rows(text, Format::Csv, &["b"]);
        let lines: Vec<_> = rows
            .iter()
            .map(|(line, row)| (*line, row.is_ok()))
            .collect();
        assert_eq!(
            lines,
            [(2, true), (3, true), (5, false), (6, false), (7, true)]
        );
        assert_eq!(rows[1].1.as_ref().unwrap(), &["2"]);
        assert!(
            rows[2]
                .1
                .as_ref()
                .unwrap_err()
                .contains("in the row: 1; in the header: 2")
        );
        assert!(rows[3].1.as_ref().unwrap_err().contains("not UTF-8"));
    }

    #[test]
    fn ndjson_fields_are_strings_numbers_as_written_or_booleans() {
        let text = br#"{"s":"a\"\u00fc","n":1e3,"b":true,"skip":{"n":[1]}}

{"s":"x","n":-5,"b":null}
{"s":"x","n":-5}
[1]
{"s":"x","n":12.0,"b":false} more
{"s":"x","n":12.0,"b":false}"#;
        let rows = rows(text, Format::Ndjson, &["s", "n", "b"]);
        let good = |values: [&str; 3]| Ok(values.map(str::to_owned).to_vec());
        assert_eq!(rows[0], (1, good(["a\"ü", "1e3", "true"])));
        let bad: Vec<_> = rows[1..5]
            .iter()
            .map(|(line, row)| (*line, row.is_err()))
            .collect();
        assert_eq!(bad, [(3, true), (4, true), (5, true), (6, true)]);
        assert_eq!(rows[5], (7, good(["x", "12.0", "false"])));
    }

    #[test]
    fn a_line_of_json_that_is_too_long_is_rejected_alone() {
        let mut text = format!("{{\"a\":\"{}\"}}\n", "x".repeat(ROW_MOST));
        text += "{\"a\":\"y\"}\n";
        let rows = rows(text.as_bytes(), Format::Ndjson, &["a"]);
        assert!(rows[0].1.is_err());
        assert_eq!(rows[1], (2, Ok(vec!["y".to_owned()])));
    }

    #[test]
    fn a_quote_that_is_never_closed_stops_the_file_instead_of_filling_memory() {
        let text = format!("a\nx\n\"{}", "y\n".repeat(2 * ROW_MOST));
        let mut source = Source::new(
            Input::of_bytes(text.as_bytes()),
            Format::Csv,
            &["a".to_owned()],
        )
        .unwrap();
        let mut values = Values::new(1);
        assert_eq!(source.read(&mut values).unwrap(), Read::Row);
        let error = source.read(&mut values).unwrap_err().to_string();
        assert!(error.contains("never closed"), "{error}");
    }

    #[test]
    fn a_csv_file_without_even_a_header_is_refused() {
        let error = Source::new(Input::of_bytes(b""), Format::Csv, &[]).unwrap_err();
        assert!(error.to_string().contains("the file is empty"), "{error}");
    }

    #[test]
    fn a_column_that_the_header_lacks_or_has_twice_is_refused_by_name() {
        for (header, said) in [("a,b\n", "no column \"c\""), ("c,c\n", "more than once")] {
            let input = Input::of_bytes(header.as_bytes());
            let error = Source::new(input, Format::Csv, &["c".to_owned()]).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
