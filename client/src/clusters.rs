//! The calls that declare clusters.

use crate::{
    call::{Calling, Kind},
    changes::{Change, InForce, read},
    client::Client,
    control::exchange,
    failure::Error,
};
use http::{Method, Request, Response, request::Builder};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The calls that declare clusters, for keys with admin for all namespaces. All may be repeated, so
/// all are tried until they are settled. Answers are JSON as `docs/clusters.md` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Clusters<'a> {
    pub(crate) client: &'a Client,
}

impl Clusters<'_> {
    /// Declares or changes a cluster by its document, in JSON; what is in force then.
    ///
    /// # Errors
    /// When the declaration is refused, or nothing answers in time.
    pub async fn apply_as(
        &self,
        name: &str,
        document: &str,
        change: &Change,
    ) -> Result<InForce, Error> {
        let request = || change.headers(Request::builder().method(Method::PUT).uri(path_of(name)));
        let answer = self.exchange(Kind::Changes, &request, document).await;
        answer.map(read)
    }

    /// What is declared of a cluster; `None` where it is not.
    ///
    /// # Errors
    /// When nothing answers in time.
    pub async fn in_force(&self, name: &str) -> Result<Option<InForce>, Error> {
        match self.show(name).await {
            Ok(shown) => Ok(Some(shown)),
            Err(error) if error.failure.code_and_reason().1 == "UNKNOWN_CLUSTER" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is declared of a cluster.
    ///
    /// # Errors
    /// When it is not declared, or nothing answers in time.
    pub async fn show(&self, name: &str) -> Result<InForce, Error> {
        let request = || Request::builder().method(Method::GET).uri(path_of(name));
        self.exchange(Kind::Reads, &request, "").await.map(read)
    }

    /// Every declared cluster.
    ///
    /// # Errors
    /// When nothing answers in time.
    pub async fn list(&self) -> Result<Value, Error> {
        let request = || Request::builder().method(Method::GET).uri("/v1/clusters");
        let answer = self.exchange(Kind::Reads, &request, "").await;
        answer.map(Response::into_body)
    }

    async fn exchange(
        &self,
        kind: Kind<'_>,
        request: &(impl Fn() -> Builder + Sync),
        body: &str,
    ) -> Result<Response<Value>, Error> {
        let mut calling = Calling::new(self.client, kind, self.client.shared.options.timeout);
        let asked = |channel, _| {
            let request = request().body(body.to_owned());
            exchange(channel, request.expect("paths and headers are right"))
        };
        let answer = calling.call(&asked).await;
        answer.map_err(|failure| calling.error(failure))
    }
}

fn path_of(name: &str) -> String {
    format!(
        "/v1/clusters/{}",
        utf8_percent_encode(name, NON_ALPHANUMERIC)
    )
}
