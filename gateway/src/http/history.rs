//! The history of a namespace as JSON, and where its pages begin.

use super::json::Time;
use crate::failure::{Failure, reason};
use quipu_adapters::ports::{HISTORY_PAGE, NamespaceVersion};
use quipu_schemas::namespace::NamespaceDocument;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct HistoryAnswer {
    versions: Vec<VersionAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Debug, Serialize)]
struct VersionAnswer {
    version: u64,
    namespace_id: u32,
    effective_from: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<Time>,
    author: String,
    /// The API key that the server verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    deleted: bool,
    document: NamespaceDocument,
}

impl From<Vec<NamespaceVersion>> for HistoryAnswer {
    fn from(versions: Vec<NamespaceVersion>) -> Self {
        let is_full = versions.len() == HISTORY_PAGE;
        let oldest = versions
            .last()
            .filter(|oldest| is_full && oldest.version > 1);
        Self {
            next_page_token: oldest.map(|oldest| oldest.version.to_string()),
            versions: versions.into_iter().map(VersionAnswer::from).collect(),
        }
    }
}

impl From<NamespaceVersion> for VersionAnswer {
    fn from(version: NamespaceVersion) -> Self {
        Self {
            version: version.version,
            namespace_id: version.id.0,
            effective_from: Time(version.effective_from),
            changed_at: version.changed_at.map(Time),
            author: version.author.name().to_owned(),
            key: version.author.key().map(str::to_owned),
            deleted: version.deleted,
            document: version.document,
        }
    }
}

/// The version below which a page begins, from the query.
pub(super) fn page(query: Option<&str>) -> Result<Option<u64>, Failure> {
    let mut parameters = query.unwrap_or_default().split('&');
    let token = parameters.find_map(|parameter| parameter.strip_prefix("page_token="));
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    token.parse().map(Some).map_err(|_| {
        let message = "page_token: it is none that an answer had as next_page_token; leave it out \
                       to begin with the newest version";
        Failure::invalid(reason::INVALID_FIELD, message).at("page_token")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_where_the_token_says() {
        assert_eq!(page(None), Ok(None));
        assert_eq!(page(Some("")), Ok(None));
        assert_eq!(page(Some("x=1&page_token=7")), Ok(Some(7)));
        let failure = page(Some("page_token=seven")).unwrap_err();
        assert_eq!(failure.field.as_deref(), Some("page_token"));
    }
}
