//! Who makes a change, and what a server's document says.

use crate::{
    args::ServerArgs,
    args_namespace::ChangeArgs,
    commands::exit::{Exit, Failed},
};
use quipu_client::{Change, Client, InForce};
use quipu_schemas::namespace::{Author, NamespaceDocument};
use serde_json::Value;
use std::{env, fs};

impl From<ChangeArgs> for Change {
    fn from(args: ChangeArgs) -> Self {
        Self {
            author: args.author.or_else(user_at_host),
            if_version: args.if_version,
        }
    }
}

/// Who runs this, as far as the system tells.
fn user_at_host() -> Option<Author> {
    let user = env::var("USER").or_else(|_| env::var("LOGNAME")).ok()?;
    let host = env::var("HOSTNAME").or_else(|_| fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.map(|host| host.trim().to_owned());
    let author = host.map_or_else(|_| user.clone(), |host| format!("{user}@{host}"));
    Author::new(author).ok()
}

/// What is in force of a namespace; `None` when it does not exist.
pub(super) async fn in_force(
    client: &Client,
    server: &ServerArgs,
    name: &str,
) -> Result<Option<InForce>, Failed> {
    let answer = client.namespaces().in_force(name).await;
    answer.map_err(|error| Failed::of_call(&error, &server.server))
}

/// Reads a document that a server gave.
pub(super) fn document(given: &Value, server: &ServerArgs) -> Result<NamespaceDocument, Failed> {
    serde_json::from_value(given.clone()).map_err(|error| {
        let url = &server.server;
        let message =
            format!("{url}: its document is of another version than this program: {error}");
        Failed::new(Exit::Internal, message)
    })
}
