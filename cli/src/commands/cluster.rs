//! `quipu cluster`: the calls that declare clusters.

use super::{
    connect::client,
    documents,
    exit::{Exit, Failed},
    print,
};
use crate::{args::ServerArgs, args_clusters::ClusterCommand};
use quipu_client::{Change, Client, Error};
use quipu_schemas::cluster::ClusterDocument;
use serde_json::{Value, json};

/// Runs one of the subcommands.
pub(crate) async fn run(command: ClusterCommand) -> Result<Exit, Failed> {
    let server = command.server().clone();
    let client = client(&server)?;
    let failed = |error: Error| Failed::of_call(&error, &server.server);
    match command {
        ClusterCommand::Apply { files, change, .. } => {
            let declared: Vec<ClusterDocument> = documents::read_all(&files.files)?;
            let change = Change::from(change);
            if change.if_version.is_some() && declared.len() != 1 {
                let message = "--if-version is for one document; apply the others by themselves";
                return Err(Failed::new(Exit::Usage, message));
            }
            for document in &declared {
                apply(&client, &server, document, &change).await?;
            }
            Ok(Exit::Done)
        }
        ClusterCommand::List { .. } => {
            let answer = client.clusters().list().await.map_err(failed)?;
            let list = answer["clusters"].as_array();
            let list = list.map_or(&[][..], Vec::as_slice);
            let names = list.iter().filter_map(|item| item["cluster"].as_str());
            print_as(&server, &answer, &names.collect::<Vec<_>>().join("\n"))?;
            Ok(Exit::Done)
        }
        ClusterCommand::Show { name, .. } => {
            let shown = client.clusters().show(&name).await.map_err(failed)?;
            let document = shown.document;
            print_as(&server, &document, &format!("{document:#}"))?;
            Ok(Exit::Done)
        }
    }
}

async fn apply(
    client: &Client,
    server: &ServerArgs,
    document: &ClusterDocument,
    change: &Change,
) -> Result<(), Failed> {
    let (name, clusters) = (&document.cluster, client.clusters());
    let failed = |error: Error| Failed::of_call(&error, &server.server);
    let before = clusters.in_force(name).await.map_err(failed)?;
    let body = serde_json::to_string(document).expect("a document is JSON");
    let after = clusters.apply_as(name, &body, change).await;
    let after = after.map_err(failed)?;
    let outcome = match &before {
        None => "declared",
        Some(before) if before.version == after.version => "unchanged",
        Some(_) => "changed",
    };
    let version = after.version.map_or("?".to_owned(), |it| it.to_string());
    let told = json!({"cluster": name, "outcome": outcome, "version": after.version});
    print_as(
        server,
        &told,
        &format!("{name} {outcome} (version {version})"),
    )
}

fn print_as(server: &ServerArgs, answer: &Value, text: &str) -> Result<(), Failed> {
    if server.json {
        print(answer)
    } else {
        print(&text)
    }
}
