//! Documents from files: read and checked all, before anything is done with the first.

use super::exit::{Exit, Failed};
use quipu_schemas::{
    cluster::ClusterDocument,
    namespace::{DocumentError, NamespaceDocument},
};
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// A kind of document.
pub(super) trait Document: Sized {
    /// What it declares.
    const KIND: &'static str;

    fn from_json(json: &[u8]) -> Result<Self, DocumentError>;

    fn name(&self) -> &str;
}

impl Document for NamespaceDocument {
    const KIND: &'static str = "namespace";

    fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(json)
    }

    fn name(&self) -> &str {
        &self.namespace
    }
}

impl Document for ClusterDocument {
    const KIND: &'static str = "cluster";

    fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(json)
    }

    fn name(&self) -> &str {
        &self.cluster
    }
}

/// Reads every document of the files, in their order.
pub(super) fn read_all<D: Document>(files: &[PathBuf]) -> Result<Vec<D>, Failed> {
    let mut declared = Vec::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let text = read(file)?;
        let in_file: Vec<D> = parse(&text).map_err(|problem| refused(file, &problem))?;
        for (document, number) in in_file.into_iter().zip(1..) {
            let place = format!("{}, document {number}", file.display());
            let (kind, name) = (D::KIND, document.name().to_owned());
            if let Some(first) = places.insert(name.clone(), place) {
                let problem = format!(
                    "document {number}: {kind} {name} is declared before, in {first}; leave one"
                );
                return Err(refused(file, &problem));
            }
            declared.push(document);
        }
    }
    Ok(declared)
}

fn refused(file: &Path, problem: &str) -> Failed {
    Failed::new(Exit::Refused, format!("{}: {problem}", file.display()))
}

/// One document, an array of them, or any number of both one after another.
fn parse<D: Document>(text: &str) -> Result<Vec<D>, String> {
    let mut raw: Vec<&RawValue> = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| format!("it is not JSON: {error}"))?;
        if value.get().starts_with('[') {
            let items: Vec<&RawValue> =
                serde_json::from_str(value.get()).map_err(|error| error.to_string())?;
            raw.extend(items);
        } else {
            raw.push(value);
        }
    }
    if raw.is_empty() {
        return Err("it holds no document".to_owned());
    }
    let one = |(raw, number): (&RawValue, usize)| {
        D::from_json(raw.get().as_bytes()).map_err(|error| format!("document {number}: {error}"))
    };
    raw.into_iter().zip(1..).map(one).collect()
}

fn read(path: &Path) -> Result<String, Failed> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    read.map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        Failed::new(Exit::Internal, message)
    })?;
    if text.len() as u64 > MAX_BYTES {
        return Err(refused(path, "it is over 16 MiB; split it"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let documents: Vec<NamespaceDocument> = parse(text)?;
        Ok(documents.into_iter().map(|it| it.namespace).collect())
    }

    #[test]
    fn documents_come_alone_in_arrays_or_one_after_another() {
        let one = r#"{"namespace": "a"}"#;
        assert_eq!(names(one).unwrap(), ["a"]);
        let lines = "{\"namespace\": \"b\"}\n\n{\"namespace\": \"a\"}\n";
        assert_eq!(names(lines).unwrap(), ["b", "a"]);
        let array = r#" [{"namespace": "c"}, {"namespace": "d"}] {"namespace": "e"} "#;
        assert_eq!(names(array).unwrap(), ["c", "d", "e"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_the_number_of_the_document() {
        for (text, told) in [
            ("", "it holds no document"),
            ("[]", "it holds no document"),
            ("{", "it is not JSON"),
            ("7", "document 1: "),
            (
                r#"[{"namespace": "a"}, {"namespace": "B"}]"#,
                "document 2: namespace: ",
            ),
            (
                "{\"namespace\": \"a\"}\n{\"namespace\": \"b\", \"acept_limit\": \"1s\"}",
                "document 2: ",
            ),
        ] {
            let problem = names(text).unwrap_err();
            assert!(problem.starts_with(told), "{problem}");
        }
    }
}
