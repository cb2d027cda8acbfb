//! `quipu namespace diff`: documents against what is in force.

use super::calls;
use crate::{
    args::ServerArgs,
    commands::{exit::Failed, print},
};
use quipu_client::Client;
use quipu_schemas::namespace::{NamespaceDocument, differences};
use serde_json::json;

/// Shows how the documents differ from what is in force; of how many anything does.
pub(super) async fn show(
    client: &Client,
    server: &ServerArgs,
    declared: &[NamespaceDocument],
) -> Result<usize, Failed> {
    let mut differing = 0;
    for document in declared {
        let name = &document.namespace;
        let in_force = calls::in_force(client, server, name).await?;
        let in_force = in_force.map(|known| calls::document(&known.document, server));
        let in_force = in_force.transpose()?;
        let differences = differences(in_force.as_ref(), Some(document));
        differing += usize::from(!differences.is_empty());
        if server.json {
            let exists = in_force.is_some();
            print(&json!({"namespace": name, "exists": exists, "changes": differences}))?;
            continue;
        }
        if differences.is_empty() {
            continue;
        }
        let heading = if in_force.is_some() {
            ""
        } else {
            " (it does not exist)"
        };
        print(&format!("{name}{heading}"))?;
        for difference in differences {
            print(&format!("  {difference}"))?;
        }
    }
    Ok(differing)
}
