//! A JSON object a line.

use super::{Input, ROW_MOST, Read, SourceError, Values};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    fmt,
    io::{self, BufRead},
};

/// Rows of NDJSON. Blank lines are no rows.
#[derive(Debug)]
pub(crate) struct NdjsonRows {
    input: Input,
    columns: Vec<String>,
    line: u64,
    text: Vec<u8>,
}

impl NdjsonRows {
    pub(super) fn new(input: Input, columns: &[String]) -> Self {
        Self {
            input,
            columns: columns.to_vec(),
            line: 0,
            text: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, values: &mut Values) -> Result<Read, SourceError> {
        loop {
            let length = self.next_line().map_err(|error| SourceError::Io {
                line: self.line,
                error,
            })?;
            if length == 0 {
                return Ok(Read::End);
            }
            self.line += 1;
            if length > ROW_MOST {
                return Ok(Read::Bad(format!(
                    "the line has {length} bytes; 1 MiB is the most"
                )));
            }
            if self.line == 1 && self.text.starts_with(b"\xef\xbb\xbf") {
                self.text.drain(..3);
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(self.parse(values));
            }
        }
    }

    /// Reads a line and returns its length, of which no more than the limit is kept.
    fn next_line(&mut self) -> io::Result<usize> {
        self.text.clear();
        let mut length = 0;
        loop {
            let available = self.input.fill_buf()?;
            let (line, ended) = match available.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&available[..=at], true),
                None => (available, available.is_empty()),
            };
            let room = (ROW_MOST - self.text.len()).min(line.len());
            self.text.extend_from_slice(&line[..room]);
            let read = line.len();
            length += read;
            self.input.consume(read);
            if ended {
                return Ok(length);
            }
        }
    }

    fn parse(&self, values: &mut Values) -> Read {
        let text = match std::str::from_utf8(&self.text) {
            Ok(text) => text,
            Err(error) => return Read::Bad(format!("the line is not UTF-8: {error}")),
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = Fields {
            columns: &self.columns,
            values,
        };
        let parsed = json
            .deserialize_map(fields)
            .and_then(|bad| json.end().map(|()| bad));
        match parsed {
            Err(error) => Read::Bad(format!("the line is no JSON object: {error}")),
            Ok(Some(bad)) => Read::Bad(bad),
            Ok(None) => match values.missing() {
                Some(column) => {
                    Read::Bad(format!("the field {:?} is missing", self.columns[column]))
                }
                None => Read::Row,
            },
        }
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn original(&self) -> String {
        String::from_utf8_lossy(&self.text).trim_end().to_owned()
    }
}

/// Picks the needed fields out of an object, and skips the others unparsed.
struct Fields<'a> {
    columns: &'a [String],
    values: &'a mut Values,
}

impl<'de> Visitor<'de> for Fields<'_> {
    /// Why the row is bad, when it is.
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut bad = None;
        while let Some(Key(key)) = map.next_key()? {
            let Some(column) = self.columns.iter().position(|column| *column == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw = map.next_value::<&RawValue>()?.get();
            match raw.as_bytes()[0] {
                b'"' => match serde_json::from_str::<Key<'_>>(raw) {
                    Ok(Key(text)) => self.values.set(column, &text),
                    Err(error) => bad = Some(format!("the field {key:?}: {error}")),
                },
                b'{' | b'[' | b'n' => {
                    bad = Some(format!("the field {key:?} is no string, number or boolean"));
                }
                _ => self.values.set(column, raw),
            }
        }
        Ok(bad)
    }
}

/// A string that is borrowed when it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
