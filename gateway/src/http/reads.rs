//! The reads: their query parameters, bodies and answers.

use super::{body, dispatch::json, error::ErrorObject, json::CountAnswer, path::Counter};
use crate::{
    Gateway, call,
    call::Count,
    deadline::Deadline,
    failure::{Failure, reason},
};
use axum::{
    body::Body,
    http::{Request, Response},
};
use percent_encoding::percent_decode_str;
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::name::CounterName;
use quipu_schemas::timestamp::from_rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchGetBody<'a> {
    #[serde(borrow)]
    counter_names: Vec<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct BatchGetAnswer<'a> {
    results: Vec<ReadAnswer<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReadAnswer<'a> {
    Read(CountAnswer),
    Failed { error: ErrorObject<'a> },
}

impl<'a> From<&'a Result<Count, Failure>> for ReadAnswer<'a> {
    fn from(result: &'a Result<Count, Failure>) -> Self {
        match result {
            Ok(count) => Self::Read((*count).into()),
            Err(failure) => Self::Failed {
                error: ErrorObject::new(failure),
            },
        }
    }
}

#[derive(Debug, Serialize)]
struct ListAnswer<'a> {
    counter_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<&'a str>,
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    pub(super) async fn http_get(
        &self,
        counter: &Counter<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let [min] = parameters(&request, ["min_freshness"])?;
        let (namespace, name) = (&counter.namespace, &counter.name);
        let count = match min {
            None => self.get(namespace, name).await?,
            Some(min) => {
                let min = from_rfc3339(&min).map_err(|error| {
                    refused("min_freshness", &format!("{error}; encode a + as %2B"))
                })?;
                let deadline = Deadline::of(request.extensions());
                self.get_at_least(namespace, name, min, deadline).await?
            }
        };
        Ok(json(&CountAnswer::from(count)))
    }

    pub(super) async fn http_batch_get(
        &self,
        namespace: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let body = body::read(request).await?;
        let body = body::object::<BatchGetBody<'_>>(&body)?;
        call::check_batch_size("counter_names", body.counter_names.len())?;
        // One by one, so that one which is no text fails alone.
        let names = body.counter_names.iter();
        let names: Vec<_> = names
            .map(|name| body::parse::<Cow<'_, str>>(name.get().as_bytes()))
            .collect();
        let asked = names.iter().map(|name| match name {
            Ok(name) => Ok(&**name),
            Err(failure) => Err(failure.clone()),
        });
        let results = self.batch_get(namespace, asked.collect()).await?;
        Ok(json(&BatchGetAnswer {
            results: results.iter().map(ReadAnswer::from).collect(),
        }))
    }

    pub(super) async fn http_list_counters(
        &self,
        namespace: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let [size, token] = parameters(&request, ["page_size", "page_token"])?;
        let size = size.map_or(Ok(0), |size| {
            size.parse::<i32>()
                .map_err(|_| refused("page_size", "it is no integer from 1 to 1000"))
        })?;
        let token = token.unwrap_or_default();
        let page = self.list_counters(namespace, size, &token).await?;
        Ok(json(&ListAnswer {
            counter_names: page.names.iter().map(CounterName::as_str).collect(),
            next_page_token: page.next_page_token.as_deref(),
        }))
    }
}

fn refused(field: &str, problem: &str) -> Failure {
    Failure::invalid(reason::INVALID_FIELD, format!("{field}: {problem}")).at(field)
}

/// The parameters of a query, each given once or not at all. Others are ignored, as everywhere.
fn parameters<const N: usize, T>(
    request: &Request<T>,
    names: [&'static str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut found = [const { None }; N];
    for parameter in request.uri().query().unwrap_or_default().split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let Some(at) = names.iter().position(|known| *known == name) else {
            continue;
        };
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| refused(name, "it does not decode to UTF-8"))?;
        if found[at].replace(value.into_owned()).is_some() {
            return Err(refused(name, "it is given twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_given_once() {
        let of = |uri: &str| {
            let request = Request::get(uri).body(()).unwrap();
            parameters(&request, ["a", "b"])
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(of("/x"), Ok([None, None]));
        assert_eq!(of("/x?"), Ok([None, None]));
        assert_eq!(of("/x?b=1%2B2+3&c=4"), Ok([None, text("1+2+3")]));
        assert_eq!(of("/x?a&b="), Ok([text(""), text("")]));
        for (uri, field) in [("/x?a=1&a=1", "a"), ("/x?b=%ff", "b")] {
            assert_eq!(of(uri).unwrap_err().field.as_deref(), Some(field));
        }
    }
}
