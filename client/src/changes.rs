//! Changes of namespaces that say who makes them and what they are made on, and the history.

use crate::{
    call::{Calling, Kind},
    control::{Namespaces, exchange, path_of},
    failure::Error,
};
use http::{HeaderValue, Method, Request, Response, header, request::Builder};
use quipu_schemas::namespace::Author;
use serde_json::Value;

/// Who makes a change, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// For the history.
    pub author: Option<Author>,
    /// The version that must be in force; 0 where the namespace must not exist.
    pub if_version: Option<u64>,
}

/// What is in force of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// Its document.
    pub document: Value,
    /// Its version, as far as the server tells.
    pub version: Option<u64>,
    /// When that took effect, in RFC 3339, as far as the server tells.
    pub effective_from: Option<String>,
}

impl Change {
    pub(crate) fn headers(&self, request: Builder) -> Builder {
        let author = self.author.as_ref().map(|author| {
            HeaderValue::from_bytes(author.as_str().as_bytes()).expect("no control characters")
        });
        let request = match author {
            Some(author) => request.header("quipu-author", author),
            None => request,
        };
        match self.if_version {
            Some(version) => request.header(header::IF_MATCH, format!("\"{version}\"")),
            None => request,
        }
    }
}

impl Namespaces<'_> {
    /// What is in force of a namespace; `None` where it does not exist.
    ///
    /// # Errors
    /// When nothing answers in time.
    pub async fn in_force(&self, name: &str) -> Result<Option<InForce>, Error> {
        let request = || Request::builder().method(Method::GET).uri(path_of(name));
        let answer = self.exchange(Kind::Reads, &request, "").await;
        match answer {
            Ok(answer) => Ok(Some(read(answer))),
            Err(error) if error.failure.code_and_reason().1 == "UNKNOWN_NAMESPACE" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates or replaces a namespace by its document, in JSON; what is in force then.
    ///
    /// # Errors
    /// When the change is refused, or nothing answers in time.
    pub async fn apply_as(
        &self,
        name: &str,
        document: &str,
        change: &Change,
    ) -> Result<InForce, Error> {
        let request = || {
            let request = Request::builder().method(Method::PUT).uri(path_of(name));
            change.headers(request)
        };
        let answer = self.exchange(Kind::Changes, &request, document).await;
        answer.map(read)
    }

    /// Deletes a namespace with all its counters.
    ///
    /// # Errors
    /// When the change is refused, or nothing answers in time.
    pub async fn delete_as(&self, name: &str, change: &Change) -> Result<(), Error> {
        let request = || {
            let request = Request::builder().method(Method::DELETE).uri(path_of(name));
            change.headers(request)
        };
        let answer = self.exchange(Kind::Changes, &request, "").await;
        answer.map(|_| ())
    }

    /// Versions of a namespace over all its lives, newest first, from where an answer before said
    /// that the next page begins.
    ///
    /// # Errors
    /// When the name never existed, or nothing answers in time.
    pub async fn history(&self, name: &str, page_token: &str) -> Result<Value, Error> {
        let path = format!("{}/history?page_token={page_token}", path_of(name));
        let request = || Request::builder().method(Method::GET).uri(&path);
        let answer = self.exchange(Kind::Reads, &request, "").await;
        answer.map(Response::into_body)
    }

    async fn exchange(
        &self,
        kind: Kind<'_>,
        request: &(impl Fn() -> Builder + Sync),
        body: &str,
    ) -> Result<Response<Value>, Error> {
        let client = self.client;
        let mut calling = Calling::new(client, kind, client.shared.options.timeout);
        let asked = |channel, _| {
            let request = request().body(body.to_owned());
            exchange(channel, request.expect("paths and headers are right"))
        };
        let answer = calling.call(&asked).await;
        answer.map_err(|failure| calling.error(failure))
    }
}

pub(crate) fn read(answer: Response<Value>) -> InForce {
    let text = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.trim_matches('"'));
    InForce {
        version: text("etag").and_then(|version| version.parse().ok()),
        effective_from: text("quipu-effective-from").map(str::to_owned),
        document: answer.into_body(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_who_makes_it_and_on_which_version() {
        let change = Change {
            author: Some(Author::new("zoë@laptop").unwrap()),
            if_version: Some(3),
        };
        let request = change.headers(Request::builder()).body(()).unwrap();
        assert_eq!(request.headers()["if-match"], "\"3\"");
        assert_eq!(
            request.headers()["quipu-author"].as_bytes(),
            "zoë@laptop".as_bytes()
        );
        let silent = Change::default()
            .headers(Request::builder())
            .body(())
            .unwrap();
        assert!(silent.headers().is_empty());
    }

    #[test]
    fn what_is_in_force_is_read_with_its_version() {
        let answer = Response::builder()
            .header("etag", "\"17\"")
            .body(Value::Null)
            .unwrap();
        let in_force = read(answer);
        assert_eq!(
            (in_force.version, in_force.effective_from),
            (Some(17), None)
        );
    }
}
