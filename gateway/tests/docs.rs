//! Keeps `docs/` true: what clients may rely on is listed there, and nothing else is.

use axum::http::StatusCode;
use quipu_gateway::failure::reason;
use quipu_schemas::code::code_name;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};
use tonic::Code;

const API: &str = include_str!("../../docs/api.md");
const ERRORS: &str = include_str!("../../docs/errors.md");
const FAILURE: &str = include_str!("../src/failure.rs");
const HTTP_ERROR: &str = include_str!("../src/http/error.rs");

/// Words in backticks and capitals that are neither codes nor reasons.
const STATUSES: [&str; 2] = ["ACCEPTED", "ALREADY_APPLIED"];

/// The text of every Rust source file below a crate's `src`, but for its tests.
fn sources(krate: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate);
    let mut texts = Vec::new();
    let mut directories = vec![root.join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                texts.push(fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!texts.is_empty(), "{krate} has no sources");
    texts
}

/// The names and texts of the string constants in a source.
fn constants(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.split("const ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once(": &str =")?;
        let text = rest.trim_start().strip_prefix('"')?.split_once('"')?.0;
        name.chars()
            .all(|c| c.is_ascii_uppercase() || c == '_')
            .then_some((name, text))
    })
}

fn reasons() -> BTreeSet<&'static str> {
    let (_, module) = FAILURE.split_once("pub mod reason {").unwrap();
    let (module, _) = module.split_once("\n}").unwrap();
    let declared = module.matches("pub const ").count();
    let reasons: BTreeSet<_> = constants(module)
        .map(|(name, text)| {
            assert_eq!(name, text, "a reason is named as it is sent");
            text
        })
        .collect();
    assert_eq!(reasons.len(), declared, "every reason is read");
    assert!(reasons.contains(reason::LATE));
    reasons
}

/// The cells of a table's row.
fn cells(row: &str) -> Vec<&str> {
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().trim_matches('`')).collect()
}

/// The code as clients see it, of a `Code` as the source writes it.
fn code_of(variant: &str) -> Option<&'static str> {
    let code = (0..=16)
        .map(Code::from)
        .find(|code| format!("{code:?}") == variant)?;
    Some(code_name(code))
}

/// The code and reason of each failure that the gateway makes.
fn failures() -> BTreeSet<(&'static str, String)> {
    let mut pairs = BTreeSet::new();
    for source in sources("gateway") {
        for (at, _) in source.match_indices("reason::") {
            let name: String = source[at + "reason::".len()..]
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || *c == '_')
                .collect();
            let rest = source[at + "reason::".len() + name.len()..].trim_start();
            if name.is_empty() || rest.starts_with("=>") {
                continue;
            }
            let before = source[..at].trim_end();
            let code = if before.ends_with("invalid(") {
                code_name(Code::InvalidArgument)
            } else if before.ends_with("unavailable(") {
                code_name(Code::Unavailable)
            } else {
                let variant = before.trim_end_matches(',').rsplit("Code::").next();
                variant
                    .and_then(code_of)
                    .unwrap_or_else(|| panic!("{name} has no code before it"))
            };
            pairs.insert((code, name));
        }
    }
    pairs
}

/// The HTTP statuses that the source gives to reasons and codes, by their names.
fn statuses() -> BTreeMap<String, u16> {
    let (_, function) = HTTP_ERROR.split_once("fn status(").unwrap();
    let mut statuses = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for word in function.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        if let Some(reason) = word.strip_prefix("reason::") {
            names.push(reason.to_owned());
        } else if let Some(code) = word.strip_prefix("Code::") {
            names.push(code_of(code).unwrap().to_owned());
        } else if let Some(name) = word.strip_prefix("StatusCode::") {
            let status = (100..600)
                .filter_map(|number| StatusCode::from_u16(number).ok())
                .find(|status| {
                    let text = status.canonical_reason().unwrap_or_default();
                    text.to_uppercase().replace([' ', '-'], "_") == name
                })
                .unwrap();
            for name in names.drain(..) {
                statuses.insert(name, status.as_u16());
            }
        }
    }
    statuses
}

#[test]
fn the_table_of_errors_has_every_code_status_and_reason_and_no_other() {
    let statuses = statuses();
    let expected: BTreeSet<_> = failures()
        .into_iter()
        .map(|(code, reason)| {
            let status = statuses.get(&reason).unwrap_or_else(|| &statuses[code]);
            (code.to_owned(), status.to_string(), reason)
        })
        .collect();
    let made: BTreeSet<_> = expected.iter().map(|row| row.2.as_str()).collect();
    assert_eq!(
        made,
        reasons(),
        "every reason is used, and every used one declared"
    );
    let rows: Vec<_> = ERRORS
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(cells)
        .collect();
    let documented: BTreeSet<_> = rows
        .iter()
        .map(|row| (row[0].to_owned(), row[1].to_owned(), row[2].to_owned()))
        .collect();
    assert_eq!(documented, expected);
    assert_eq!(rows.len(), documented.len(), "each error has one row");
    for row in rows {
        assert_eq!(row.len(), 5, "{row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

#[test]
fn the_docs_name_no_code_or_reason_that_does_not_exist() {
    let mut known = reasons();
    known.extend((0..=16).map(|code| code_name(Code::from(code))));
    known.extend(STATUSES);
    for word in ERRORS.split('`').skip(1).step_by(2) {
        let constant = word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        assert!(!constant || known.contains(word), "{word} in errors.md");
    }
}

#[test]
fn every_call_that_the_index_lists_is_documented() {
    let index: serde_json::Value =
        serde_json::from_str(include_str!("../src/http/index.json")).unwrap();
    for call in index["calls"].as_array().unwrap() {
        let call = call.as_str().unwrap();
        assert!(API.contains(&format!("`{call}`")), "{call}");
    }
}
