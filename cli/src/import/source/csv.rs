//! CSV with a header.

use super::{Input, ROW_MOST, Read, SourceError, Values};
use csv::{ByteRecord, Position, Reader, ReaderBuilder, WriterBuilder};
use std::{
    io,
    str::from_utf8,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Rows of CSV.
#[derive(Debug)]
pub(crate) struct CsvRows {
    reader: Reader<Limited>,
    record: ByteRecord,
    width: usize,
    /// For each column of the layout, its field in the file and its name.
    columns: Vec<(usize, String)>,
    since_row: Arc<AtomicUsize>,
}

impl CsvRows {
    pub(super) fn new(input: Input, columns: &[String]) -> Result<Self, SourceError> {
        let since_row = Arc::new(AtomicUsize::new(0));
        let limited = Limited {
            input,
            since_row: Arc::clone(&since_row),
        };
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .buffer_capacity(64 << 10)
            .from_reader(limited);
        let header = reader
            .byte_headers()
            .map_err(|error| read_error(error, 1))?
            .clone();
        if header.is_empty() {
            return Err(SourceError::Header(
                "the file is empty, and CSV begins with a header: is it the right file?".to_owned(),
            ));
        }
        let names: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
        let find = |column: &String| {
            let mut places = (0..names.len()).filter(|place| names[*place] == column.as_str());
            match (places.next(), places.next()) {
                (Some(place), None) => Ok((place, column.clone())),
                (Some(_), Some(_)) => Err(SourceError::Header(format!(
                    "the header has the column {column:?} more than once"
                ))),
                (None, _) => Err(SourceError::Header(format!(
                    "the header has no column {column:?}; its columns are: {}",
                    names.join(", ")
                ))),
            }
        };
        let columns = columns.iter().map(find).collect::<Result<_, _>>()?;
        let (width, record) = (header.len(), ByteRecord::new());
        Ok(Self {
            reader,
            record,
            width,
            columns,
            since_row,
        })
    }

    pub(super) fn read(&mut self, values: &mut Values) -> Result<Read, SourceError> {
        self.since_row.store(0, Ordering::Relaxed);
        let line = self.reader.position().line();
        if !self
            .reader
            .read_byte_record(&mut self.record)
            .map_err(|error| read_error(error, line))?
        {
            return Ok(Read::End);
        }
        if self.record.len() != self.width {
            let (has, wants) = (self.record.len(), self.width);
            return Ok(Read::Bad(format!(
                "fields in the row: {has}; in the header: {wants}"
            )));
        }
        for (column, (field, name)) in self.columns.iter().enumerate() {
            match from_utf8(&self.record[*field]) {
                Ok(value) => values.set(column, value),
                Err(_) => return Ok(Read::Bad(format!("the column {name:?} is not UTF-8"))),
            }
        }
        Ok(Read::Row)
    }

    pub(super) fn line(&self) -> u64 {
        self.record.position().map_or(1, Position::line)
    }

    pub(super) fn original(&self) -> String {
        let mut writer = WriterBuilder::new().flexible(true).from_writer(Vec::new());
        let written = writer.write_byte_record(&self.record);
        let bytes = written
            .ok()
            .and_then(|()| writer.into_inner().ok())
            .unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }
}

fn read_error(error: csv::Error, line: u64) -> SourceError {
    SourceError::Io {
        line,
        error: error.into(),
    }
}

/// Refuses to read on and on inside of one row, which would be kept in memory whole.
#[derive(Debug)]
struct Limited {
    input: Input,
    since_row: Arc<AtomicUsize>,
}

impl io::Read for Limited {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.since_row.load(Ordering::Relaxed) > ROW_MOST {
            return Err(io::Error::other(
                "the next row has more than 1 MiB: is a quote never closed?",
            ));
        }
        let read = self.input.read(to)?;
        self.since_row.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }
}
