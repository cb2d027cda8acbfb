//! `quipu namespace`: the control plane's calls, over HTTP.

mod apply;
mod calls;
mod diff;
mod history;

use super::{
    connect::client,
    documents,
    exit::{Exit, Failed},
    print,
};
use crate::args::ServerArgs;
use crate::args_namespace::{FileArgs, NamespaceCommand};
use quipu_client::Error;
use serde_json::{Value, json};

/// Runs one of the subcommands.
pub(crate) async fn run(command: NamespaceCommand) -> Result<Exit, Failed> {
    let server = command.server().clone();
    let client = client(&server)?;
    let namespaces = client.namespaces();
    let failed = |error: Error| Failed::of_call(&error, &server.server);
    match command {
        NamespaceCommand::Apply {
            files,
            dry_run: true,
            ..
        } => differing(&files, &server).await.map(|_| Exit::Done),
        NamespaceCommand::Apply { files, change, .. } => {
            let declared = documents::read_all(&files.files)?;
            apply::all(&client, &server, &declared, &change.into()).await
        }
        NamespaceCommand::Diff { files, .. } => match differing(&files, &server).await {
            Ok(0) => Ok(Exit::Done),
            Ok(_) => Ok(Exit::DIFFERS),
            // 1 says that something differs.
            Err(failed) if failed.exit == Exit::Internal => Err(failed.ending(Exit::Usage)),
            Err(failed) => Err(failed),
        },
        NamespaceCommand::List { .. } => {
            let answer = namespaces.list().await.map_err(failed)?;
            print_as(&server, &answer, &names(&answer))
        }
        NamespaceCommand::Show { name, .. } => {
            let answer = namespaces.show(&name).await.map_err(failed)?;
            print_as(&server, &answer, &format!("{answer:#}"))
        }
        NamespaceCommand::History { name, .. } => history::show(&client, &server, &name).await,
        NamespaceCommand::Delete { name, change, .. } => {
            let deleted = namespaces.delete_as(&name, &change.into()).await;
            deleted.map_err(failed)?;
            let text = format!("deleted namespace {name}");
            print_as(&server, &json!({"deleted": name}), &text)
        }
    }
}

/// Shows how documents differ from what is in force; of how many anything does.
async fn differing(files: &FileArgs, server: &ServerArgs) -> Result<usize, Failed> {
    let declared = documents::read_all(&files.files)?;
    diff::show(&client(server)?, server, &declared).await
}

fn print_as(server: &ServerArgs, answer: &Value, text: &str) -> Result<Exit, Failed> {
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
    let name = |item: &Value| item["namespace"].as_str().unwrap_or("?").to_owned();
    list.iter().map(name).collect::<Vec<_>>().join("\n")
}
