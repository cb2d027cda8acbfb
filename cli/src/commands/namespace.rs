//! `quipu namespace`: the control plane's calls, over HTTP.

use super::{
    exit::{Exit, Failed},
    print,
};
use crate::{
    args::{NamespaceCommand, ServerArgs},
    client::http,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quipu_adapters::clock::Clock;
use quipu_schemas::namespace::NamespaceDocument;
use serde_json::{Value, json};
use std::{fs, io, path::Path};
use ureq::http::{Method, Request};

/// Runs one of the subcommands.
pub(crate) fn run(command: NamespaceCommand) -> Result<Exit, Failed> {
    match command {
        NamespaceCommand::Apply { file, server } => {
            let text = read(&file)?;
            let document = NamespaceDocument::from_json(text.as_bytes()).map_err(|error| {
                Failed::new(Exit::Refused, format!("{}: {error}", file.display()))
            })?;
            let answer = call(&server, Method::PUT, &path_of(&document.namespace), text)?;
            show(
                &server,
                &answer,
                &format!("applied namespace {}", document.namespace),
            )
        }
        NamespaceCommand::List { server } => {
            let answer = call(&server, Method::GET, "/v1/namespaces", String::new())?;
            show(&server, &answer, &names(&answer))
        }
        NamespaceCommand::Show { name, server } => {
            let answer = call(&server, Method::GET, &path_of(&name), String::new())?;
            show(&server, &answer, &format!("{answer:#}"))
        }
        NamespaceCommand::Delete { name, server } => {
            call(&server, Method::DELETE, &path_of(&name), String::new())?;
            show(
                &server,
                &json!({"deleted": name}),
                &format!("deleted namespace {name}"),
            )
        }
    }
}

fn path_of(name: &str) -> String {
    format!(
        "/v1/namespaces/{}",
        utf8_percent_encode(name, NON_ALPHANUMERIC)
    )
}

fn call(server: &ServerArgs, method: Method, path: &str, body: String) -> Result<Value, Failed> {
    let url = format!("{}{path}", server.server.trim_end_matches('/'));
    let request = Request::builder()
        .method(method)
        .uri(&url)
        .header("content-type", "application/json")
        .body(body)
        .map_err(|error| Failed::new(Exit::Usage, format!("{url}: {error}")))?;
    http::call(&Clock::system(), server.timeout, &request)
        .map_err(|failed| Failed::of_call(&failed, &server.server))
}

fn show(server: &ServerArgs, answer: &Value, text: &str) -> Result<Exit, Failed> {
    if server.json {
        print(answer)?;
    } else {
        print(&text)?;
    }
    Ok(Exit::Done)
}

/// The names in a list of namespaces, one a line.
fn names(answer: &Value) -> String {
    let list = answer["namespaces"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let name = |item: &Value| {
        let name = item
            .get("namespace")
            .or_else(|| item["document"].get("namespace"));
        name.and_then(Value::as_str).unwrap_or("?").to_owned()
    };
    list.iter().map(name).collect::<Vec<_>>().join("\n")
}

fn read(path: &Path) -> Result<String, Failed> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| {
        Failed::new(
            Exit::Internal,
            format!("cannot read {}: {error}", path.display()),
        )
    })
}
