//! Keeps `openapi.json` true to the calls, the namespace's schema and the errors.

use super::path;
use axum::http::{Method, StatusCode};
use quipu_schemas::{cluster, namespace};
use serde_json::Value;
use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!("openapi.json");
const CALLS: &str = include_str!("path.rs");
const FAILURES: &str = include_str!("../failure.rs");
const ERRORS: &str = include_str!("../../../docs/errors.md");

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let texts = value.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap())
}

/// The path, method and description of each operation.
fn operations(document: &Value) -> impl Iterator<Item = (&str, Method, &Value)> {
    object(&document["paths"]).flat_map(|(path, methods)| {
        object(methods).map(|(method, operation)| {
            let method = Method::from_bytes(method.to_uppercase().as_bytes());
            (path.as_str(), method.unwrap(), operation)
        })
    })
}

/// The name of each call, and the method and path that stand above it.
fn declared_calls() -> BTreeSet<(String, String)> {
    let (_, declared) = CALLS.split_once("enum Call<'p> {\n").unwrap();
    let (declared, _) = declared.split_once("\n}").unwrap();
    let mut above = None;
    let mut calls = BTreeSet::new();
    for line in declared.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            above = above.or_else(|| comment.split('`').nth(1));
        } else {
            let name = line.split([',', '(']).next().unwrap();
            let above = above.take().expect("each call names its method and path");
            assert!(calls.insert((name.to_owned(), above.to_owned())), "{name}");
        }
    }
    calls
}

#[test]
fn the_document_has_every_call_with_its_method_and_path_and_no_other() {
    let document = document();
    let described: BTreeSet<_> = operations(&document)
        .map(|(template, method, operation)| {
            let concrete = template.replace("{ns}", "a").replace("{name}", "b");
            let call = format!("{:?}", path::parse(&method, &concrete).unwrap());
            let name = call.split('(').next().unwrap().to_owned();
            let id = operation["operationId"].as_str().unwrap();
            assert_eq!(id[..1].to_uppercase() + &id[1..], name, "{template}");
            (name, format!("{method} {template}"))
        })
        .collect();
    assert_eq!(described, declared_calls());
}

#[test]
fn the_document_has_the_schemas_of_documents_that_are_made_from_the_types() {
    let schemas = &document()["components"]["schemas"];
    for (name, schema) in [
        ("NamespaceDocument", namespace::SCHEMA),
        ("ClusterDocument", cluster::SCHEMA),
    ] {
        let moved = schema.replace("#/$defs/", "#/components/schemas/");
        let mut schema: Value = serde_json::from_str(&moved).unwrap();
        let parts = schema.as_object_mut().unwrap();
        parts.remove("$schema");
        let definitions = parts.remove("$defs").unwrap();
        let copy = "copy it from schemas/, with #/components/schemas/ for #/$defs/";
        assert_eq!(schemas[name], schema, "{name}: {copy}");
        for (name, definition) in object(&definitions) {
            assert_eq!(&schemas[name], definition, "{name}: {copy}");
        }
    }
}

/// The name under which the document has the answers of a status.
fn name_of(status: &str) -> String {
    let status: StatusCode = status.parse().unwrap();
    status.canonical_reason().unwrap().replace(' ', "")
}

#[test]
fn the_document_has_every_error_with_its_status_and_no_other() {
    let document = document();
    let described: BTreeSet<_> = object(&document["components"]["responses"])
        .flat_map(|(name, response)| {
            let schema = &response["content"]["application/json"]["schema"]["allOf"][1];
            let codes = schema["properties"]["error"]["anyOf"].as_array().unwrap();
            codes.iter().flat_map(move |of_code| {
                let of_code = &of_code["properties"];
                let code = of_code["code"]["const"].as_str().unwrap();
                let contains = &of_code["details"]["contains"];
                let reasons = texts(&contains["properties"]["reason"]["enum"]);
                reasons.map(move |reason| (name.clone(), code, reason))
            })
        })
        .collect();
    let rows = ERRORS.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<_> = rows
        .map(|row| {
            let cells: Vec<_> = row
                .split('|')
                .map(|cell| cell.trim_matches([' ', '`']))
                .collect();
            (name_of(cells[2]), cells[1], cells[3])
        })
        .collect();
    assert_eq!(described, documented, "as in docs/errors.md");
    for (path, method, operation) in operations(&document) {
        for (status, response) in object(&operation["responses"]).filter(|(s, _)| *s != "200") {
            let expected = format!("#/components/responses/{}", name_of(status));
            assert_eq!(response["$ref"], expected, "{method} {path}");
        }
    }
}

#[test]
fn the_document_lists_every_reason_of_a_failure() {
    let (_, declared) = FAILURES.split_once("pub mod reason {").unwrap();
    let (declared, _) = declared.split_once("\n}").unwrap();
    let declared: BTreeSet<_> = declared
        .split("pub const ")
        .skip(1)
        .map(|constant| constant.split(':').next().unwrap())
        .collect();
    assert!(declared.contains("LATE"));
    let document = document();
    let info = &document["components"]["schemas"]["ErrorInfo"];
    let listed: BTreeSet<_> = texts(&info["properties"]["reason"]["enum"]).collect();
    assert_eq!(listed, declared);
}
