//! `quipu namespace apply`: one document after the other.

use super::calls;
use crate::{
    args::ServerArgs,
    commands::{
        exit::{Exit, Failed},
        print,
    },
};
use quipu_client::{Change, Client};
use quipu_schemas::namespace::{NamespaceDocument, differences};
use serde_json::json;

/// Applies the documents in their order, and tells each.
pub(super) async fn all(
    client: &Client,
    server: &ServerArgs,
    declared: &[NamespaceDocument],
    change: &Change,
) -> Result<Exit, Failed> {
    if change.if_version.is_some() && declared.len() != 1 {
        let message = "--if-version is for one document; apply the others by themselves";
        return Err(Failed::new(Exit::Usage, message));
    }
    for document in declared {
        one(client, server, document, change).await?;
    }
    Ok(Exit::Done)
}

async fn one(
    client: &Client,
    server: &ServerArgs,
    document: &NamespaceDocument,
    change: &Change,
) -> Result<(), Failed> {
    let name = &document.namespace;
    let before = calls::in_force(client, server, name).await?;
    let body = serde_json::to_string(document).expect("a document is JSON");
    let applied = client.namespaces().apply_as(name, &body, change).await;
    let after = applied.map_err(|error| Failed::of_call(&error, &server.server))?;
    let outcome = match &before {
        None => "created",
        Some(before) if before.version == after.version => "unchanged",
        Some(_) => "changed",
    };
    if !server.json {
        let version = after.version.map_or("?".to_owned(), |it| it.to_string());
        let effective = after.effective_from.as_deref().unwrap_or("?");
        let line = format!("{name} {outcome} (version {version}, effective {effective})");
        return print(&line);
    }
    let before = before.map(|before| calls::document(&before.document, server));
    let after_document = calls::document(&after.document, server)?;
    print(&json!({
        "namespace": name,
        "outcome": outcome,
        "version": after.version,
        "effective_from": after.effective_from,
        "changes": differences(before.transpose()?.as_ref(), Some(&after_document)),
    }))
}
