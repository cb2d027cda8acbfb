//! `quipu namespace history`: every version, newest first.

use crate::{
    args::ServerArgs,
    commands::{
        exit::{Exit, Failed},
        print,
    },
};
use quipu_client::Client;
use quipu_schemas::namespace::{Author, Difference, NamespaceDocument, differences};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
struct Page {
    versions: Vec<Version>,
    next_page_token: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Version {
    #[serde(rename = "version")]
    number: u64,
    namespace_id: u32,
    effective_from: String,
    changed_at: Option<String>,
    author: Author,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    deleted: bool,
    document: NamespaceDocument,
}

impl Version {
    /// Who made it: the key that the server verified, then the name that the caller said.
    fn author(&self) -> String {
        match &self.key {
            Some(id) => format!("key:{id} {}", self.author),
            None => self.author.to_string(),
        }
    }
}

/// What a version did.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "fields")]
enum What {
    Created,
    Changed(Vec<Difference>),
    Deleted,
}

/// Shows all versions.
pub(super) async fn show(client: &Client, server: &ServerArgs, name: &str) -> Result<Exit, Failed> {
    let versions = fetch(client, server, name).await?;
    let older = versions.iter().skip(1).map(Some).chain([None]);
    let told = versions.iter().zip(older);
    let told = told.map(|(version, older)| (version, what(version, older)));
    if server.json {
        let versions: Vec<_> = told
            .map(|(version, what)| {
                let mut value = serde_json::to_value(version).expect("a version is JSON");
                value["change"] = json!(what);
                value
            })
            .collect();
        print(&json!({"namespace": name, "versions": versions}))?;
        return Ok(Exit::Done);
    }
    print(&table(told))?;
    Ok(Exit::Done)
}

async fn fetch(client: &Client, server: &ServerArgs, name: &str) -> Result<Vec<Version>, Failed> {
    let mut versions = Vec::new();
    let mut token = Some(String::new());
    while let Some(from) = token {
        let answer = client.namespaces().history(name, &from).await;
        let answer = answer.map_err(|error| Failed::of_call(&error, &server.server))?;
        let page: Page = serde_json::from_value(answer).map_err(|error| {
            let message = format!("{}: its history cannot be read: {error}", server.server);
            Failed::new(Exit::Internal, message)
        })?;
        versions.extend(page.versions);
        token = page.next_page_token;
    }
    Ok(versions)
}

fn what(version: &Version, older: Option<&Version>) -> What {
    let older = older.filter(|older| older.namespace_id == version.namespace_id);
    match older {
        _ if version.deleted => What::Deleted,
        None => What::Created,
        Some(older) => What::Changed(differences(Some(&older.document), Some(&version.document))),
    }
}

fn table<'a>(told: impl Iterator<Item = (&'a Version, What)>) -> String {
    let heading = [
        "VERSION",
        "ID",
        "EFFECTIVE",
        "CHANGED AT",
        "AUTHOR",
        "CHANGE",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for (version, what) in told {
        let mut changes = match what {
            What::Created => vec!["created".to_owned()],
            What::Deleted => vec!["deleted".to_owned()],
            What::Changed(fields) => fields.iter().map(ToString::to_string).collect(),
        }
        .into_iter();
        rows.push([
            version.number.to_string(),
            version.namespace_id.to_string(),
            version.effective_from.clone(),
            version
                .changed_at
                .clone()
                .unwrap_or_else(|| "unknown".to_owned()),
            version.author(),
            changes.next().unwrap_or_default(),
        ]);
        // Further fields stand below the first.
        rows.extend(changes.map(|change| {
            let mut row = [const { String::new() }; 6];
            row[5] = change;
            row
        }));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2, 3, 4].map(|column| width(column).unwrap_or(0));
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths.into_iter().chain([0]));
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64, id: u32, json: &str) -> Version {
        Version {
            number,
            namespace_id: id,
            effective_from: "2026-01-31T12:00:00Z".to_owned(),
            changed_at: None,
            author: Author::default(),
            key: None,
            deleted: false,
            document: NamespaceDocument::from_json(json.as_bytes()).unwrap(),
        }
    }

    #[test]
    fn a_version_is_compared_to_the_one_before_it_of_the_same_life() {
        let first = version(1, 7, r#"{"namespace": "a"}"#);
        let changed = version(
            2,
            7,
            r#"{"namespace": "a", "accept_limit": "9s", "max_future": "1s"}"#,
        );
        let again = version(4, 8, r#"{"namespace": "a"}"#);
        assert_eq!(what(&first, None), What::Created);
        assert_eq!(what(&again, Some(&changed)), What::Created);
        let What::Changed(fields) = what(&changed, Some(&first)) else {
            panic!("it was changed");
        };
        assert_eq!(fields.len(), 2);
        let deleted = Version {
            deleted: true,
            ..version(3, 7, r#"{"namespace": "a"}"#)
        };
        assert_eq!(what(&deleted, Some(&changed)), What::Deleted);
    }

    #[test]
    fn the_table_has_a_line_for_each_field_that_changed() {
        let first = version(1, 7, r#"{"namespace": "a"}"#);
        let changed = version(
            12,
            7,
            r#"{"namespace": "a", "accept_limit": "9s", "max_future": "1s"}"#,
        );
        let told = [
            (&changed, what(&changed, Some(&first))),
            (&first, What::Created),
        ];
        let text = table(told.into_iter());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[1].starts_with("12       7   2026-01-31T12:00:00Z  unknown"),
            "{text}"
        );
        assert!(
            lines[1].ends_with(r#"accept_limit: "5s" -> "9s""#),
            "{text}"
        );
        assert_eq!(
            lines[1].find("accept_limit"),
            lines[2].find("max_future"),
            "{text}"
        );
        assert!(lines[3].ends_with("created"), "{text}");
    }
}
