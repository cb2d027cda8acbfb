//! Counter templates: text with columns in braces.

use super::source::Values;
use quipu_core::name::{CounterName, NameError};
use std::str::FromStr;

/// A counter's name with columns to fill in, such as `flights/{carrier}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Column(String),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err("a `}` without its `{`; write `}}` for a brace in the name".to_owned());
            }
            let (column, after) = after
                .split_once('}')
                .ok_or("a `{` without its `}`; write `{{` for a brace in the name")?;
            if column.is_empty() {
                return Err("`{}` names no column".to_owned());
            }
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Column(column.to_owned()));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        if parts.is_empty() {
            return Err("a counter's name cannot be empty".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            parts,
        })
    }
}

/// What each row becomes: the columns that are read, and how names are made of them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The distinct columns, in the order in which a source delivers their values.
    pub(crate) columns: Vec<String>,
    templates: Vec<Vec<Slot>>,
    delta: Option<usize>,
}

#[derive(Clone, Debug)]
enum Slot {
    Text(String),
    Value(usize),
}

/// Why a row cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    /// No usable counter name.
    #[error("template {template}: {error}")]
    Name {
        /// Which template, from 1 on.
        template: usize,
        /// What is wrong.
        error: NameError,
    },
    /// A name with a hole would lump together whatever lacks the value.
    #[error("template {template}: the column {column:?} is empty")]
    Empty {
        /// Which template, from 1 on.
        template: usize,
        /// The column without a value.
        column: String,
    },
    /// No usable delta.
    #[error("the delta {0:?} is not an integer of 64 bits")]
    Delta(String),
}

impl Layout {
    /// The layout for templates and a delta column.
    pub(crate) fn new(templates: &[Template], delta: Option<&str>) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let mut index_of = |column: &str| {
            columns
                .iter()
                .position(|known| known == column)
                .unwrap_or_else(|| {
                    columns.push(column.to_owned());
                    columns.len() - 1
                })
        };
        let slots = |template: &Template, index_of: &mut dyn FnMut(&str) -> usize| {
            let slot = |part: &Part| match part {
                Part::Text(text) => Slot::Text(text.clone()),
                Part::Column(column) => Slot::Value(index_of(column)),
            };
            template.parts.iter().map(slot).collect()
        };
        let templates = templates
            .iter()
            .map(|one| slots(one, &mut index_of))
            .collect();
        let delta = delta.map(&mut index_of);
        Self {
            columns,
            templates,
            delta,
        }
    }

    /// How many adds a row becomes.
    pub(crate) fn adds_per_row(&self) -> usize {
        self.templates.len()
    }

    /// How much a row adds.
    pub(crate) fn delta(&self, values: &Values) -> Result<i64, RowError> {
        let Some(column) = self.delta else {
            return Ok(1);
        };
        let text = values.get(column);
        text.parse()
            .map_err(|_| RowError::Delta(text.chars().take(40).collect()))
    }

    /// Appends the name of one template to `names`. After an error a part of it may be there.
    pub(crate) fn render(
        &self,
        index: usize,
        values: &Values,
        names: &mut String,
    ) -> Result<(), RowError> {
        let start = names.len();
        for slot in &self.templates[index] {
            let part = match slot {
                Slot::Text(text) => text,
                Slot::Value(column) => values.get(*column),
            };
            if let (Slot::Value(column), "") = (slot, part) {
                return Err(RowError::Empty {
                    template: index + 1,
                    column: self.columns[*column].clone(),
                });
            }
            names.push_str(part);
        }
        let name = &names[start..];
        let plain =
            !name.is_empty() && name.len() <= CounterName::MAX_BYTES && !name.contains('\0');
        if plain {
            return Ok(());
        }
        match CounterName::new(name) {
            Ok(_) => Ok(()),
            Err(error) => Err(RowError::Name {
                template: index + 1,
                error,
            }),
        }
    }
}

impl Template {
    /// As it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str, columns: &[(&str, &str)]) -> Result<String, RowError> {
        let layout = Layout::new(&[template.parse().unwrap()], None);
        let mut values = Values::new(layout.columns.len());
        for (index, column) in layout.columns.iter().enumerate() {
            let (_, value) = columns.iter().find(|(name, _)| name == column).unwrap();
            values.set(index, value);
        }
        let mut names = String::new();
        layout.render(0, &values, &mut names).map(|()| names)
    }

    #[test]
    fn columns_are_filled_in_and_doubled_braces_stand_for_themselves() {
        let columns = [("a", "x"), ("b", "ü")];
        assert_eq!(rendered("p/{a}/{b}-{a}", &columns).unwrap(), "p/x/ü-x");
        assert_eq!(rendered("{{{a}}}", &columns).unwrap(), "{x}");
        assert_eq!(rendered("all", &columns).unwrap(), "all");
    }

    #[test]
    fn a_template_with_a_lonely_brace_or_no_name_is_refused() {
        for wrong in ["{a", "a}", "{}", "", "{a}}"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_empty_value_makes_no_counter() {
        let error = rendered("v/{a}", &[("a", "")]).unwrap_err().to_string();
        assert_eq!(error, "template 1: the column \"a\" is empty");
    }

    #[test]
    fn a_name_that_is_empty_or_too_long_or_holds_nul_is_refused() {
        assert!(rendered("{a}", &[("a", "")]).is_err());
        assert!(rendered("{a}", &[("a", "\0")]).is_err());
        assert!(rendered("{a}", &[("a", &"x".repeat(1024))]).is_ok());
        assert!(rendered("{a}", &[("a", &"x".repeat(1025))]).is_err());
    }
}
