//! From a request to the call that it is, and from the answer to a response.

use super::{
    body::{self, Object},
    change, clusters,
    error::render,
    history::{self, HistoryAnswer},
    json::{
        AddAndGetAnswer, AddBody, BatchAnswer, BatchBody, ClearBody, ItemAnswer, ItemBody,
        LookupAnswer, LookupBody, MutationAnswer, NamespacesAnswer, RawBatchBody,
    },
    path::{self, Call, Counter, NoCall},
};
use crate::{
    Gateway, Probes, Served,
    auth::{self, Caller},
    call,
    deadline::Deadline,
    failure::{Failure, reason},
    metrics::Method,
};
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, Response, header},
};
use quipu_adapters::ports::{
    Cache, ControlPlane, EventStore, NamespaceRecord, Producer, RollupStore,
};
use quipu_schemas::{
    cluster,
    namespace::{NamespaceDocument, SCHEMA},
    timestamp::to_rfc3339,
};
use serde::Serialize;
use tonic::Code;

/// When the newest change of a namespace took effect.
const EFFECTIVE_FROM: HeaderName = HeaderName::from_static("quipu-effective-from");

const INDEX: &str = include_str!("index.json");

const OPEN_API: &str = include_str!("openapi.json");

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Served<L, E, R, C, P> {
    /// Answers any request that is not gRPC.
    pub(crate) async fn http(&self, probes: &Probes, request: Request<Body>) -> Response<Body> {
        let uri = request.uri().clone();
        let call = match path::parse(request.method(), uri.path()) {
            Ok(call) => call,
            Err(no_call) => {
                body::discard(request.into_body()).await;
                return refuse(&no_call);
            }
        };
        if let Err(failure) = auth::allow(&Caller::of(request.extensions()), &call) {
            body::discard(request.into_body()).await;
            return render(&failure);
        }
        let method = match &call {
            Call::Index => return with_type("application/json", INDEX),
            Call::OpenApi => return with_type("application/json", OPEN_API),
            Call::NamespaceSchema => return with_type("application/schema+json", SCHEMA),
            Call::ClusterSchema => {
                return with_type("application/schema+json", cluster::SCHEMA);
            }
            Call::Live => return with_type("text/plain", "live\n"),
            Call::Metrics => return with_type("text/plain; version=0.0.4", (probes.metrics)()),
            Call::Ready => {
                return match self.home.ready().and_then(|()| (probes.ready)()) {
                    Ok(()) => with_type("text/plain", "ready\n"),
                    Err(why) => render(&Failure::unavailable(reason::NOT_READY, why)),
                };
            }
            Call::ListClusters => Method::ListClusters,
            Call::ApplyCluster(_) => Method::ApplyCluster,
            Call::ShowCluster(_) => Method::ShowCluster,
            Call::ListNamespaces => Method::ListNamespaces,
            Call::ApplyNamespace(_) => Method::ApplyNamespace,
            Call::ShowNamespace(_) => Method::ShowNamespace,
            Call::NamespaceHistory(_) => Method::NamespaceHistory,
            Call::DeleteNamespace(_) => Method::DeleteNamespace,
            Call::Get(_) => Method::Get,
            Call::Add(_) => Method::Add,
            Call::AddAndGet(_) => Method::AddAndGet,
            Call::Clear(_) => Method::Clear,
            Call::BatchAdd(_) => Method::BatchAdd,
            Call::BatchGet(_) => Method::BatchGet,
            Call::ListCounters(_) => Method::ListCounters,
            Call::Lookup(_) => Method::Lookup,
        };
        let measured = self.home.meters.begin(&self.home.clock, method);
        let answer = self.http_call(call, request).await;
        measured.finish(
            answer
                .as_ref()
                .map_or_else(|failure| failure.code, |_| Code::Ok),
        );
        answer.unwrap_or_else(|failure| render(&failure))
    }

    async fn http_call(
        &self,
        call: Call<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        if let Some(namespace) = call.counters_of() {
            return match self.of(namespace).await {
                Ok(gateway) => gateway.counter_call(call, request).await,
                Err(failure) => {
                    body::discard(request.into_body()).await;
                    Err(failure)
                }
            };
        }
        match call {
            Call::ListClusters => self.http_list_clusters().await,
            Call::ShowCluster(name) => Ok(clusters::document(&self.show_cluster(&name).await?)),
            Call::ApplyCluster(name) => self.http_apply_cluster(&name, request).await,
            Call::ApplyNamespace(name) => {
                let caller = Caller::of(request.extensions());
                let asked = change::request(&caller, request.headers());
                let body = body::read(request).await?;
                let given = body::object::<NamespaceDocument>(&body)?;
                Ok(document(&self.apply_namespace(&name, given, asked?).await?))
            }
            Call::ShowNamespace(name) => {
                let gateway = self.of(&name).await?;
                Ok(document(&gateway.show_namespace(&name).await?))
            }
            Call::NamespaceHistory(name) => {
                let before = history::page(request.uri().query())?;
                let gateway = self.of(&name).await?;
                let versions = gateway.namespace_history(&name, before).await?;
                Ok(json(&HistoryAnswer::from(versions)))
            }
            Call::DeleteNamespace(name) => {
                let caller = Caller::of(request.extensions());
                let asked = change::request(&caller, request.headers())?;
                let gateway = self.of(&name).await?;
                gateway.delete_namespace(&name, asked).await?;
                Ok(with_type("application/json", "{}"))
            }
            Call::ListNamespaces => {
                let caller = Caller::of(request.extensions());
                let all = self.list_namespaces().await?;
                let documents = all.records.into_iter().map(|record| record.document);
                let namespaces = documents
                    .filter(|document| caller.covers(&document.namespace))
                    .collect();
                Ok(json(&NamespacesAnswer {
                    namespaces,
                    incomplete: all.is_incomplete,
                }))
            }
            Call::Index
            | Call::Live
            | Call::Ready
            | Call::Metrics
            | Call::OpenApi
            | Call::NamespaceSchema
            | Call::ClusterSchema => unreachable!("answered before any call is measured"),
            Call::Get(_)
            | Call::Add(_)
            | Call::AddAndGet(_)
            | Call::Clear(_)
            | Call::BatchAdd(_)
            | Call::BatchGet(_)
            | Call::ListCounters(_)
            | Call::Lookup(_) => unreachable!("answered by the namespace's cluster"),
        }
    }
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    async fn counter_call(
        &self,
        call: Call<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        match call {
            Call::Get(counter) => self.http_get(&counter, request).await,
            Call::Add(counter) => self.http_add(&counter, request).await,
            Call::AddAndGet(counter) => self.http_add_and_get(&counter, request).await,
            Call::Clear(counter) => self.http_clear(&counter, request).await,
            Call::BatchAdd(namespace) => self.http_batch_add(&namespace, request).await,
            Call::BatchGet(namespace) => self.http_batch_get(&namespace, request).await,
            Call::ListCounters(namespace) => self.http_list_counters(&namespace, request).await,
            Call::Lookup(namespace) => self.http_lookup(&namespace, request).await,
            _ => unreachable!("it is not of counters"),
        }
    }

    async fn http_add(
        &self,
        counter: &Counter<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let body = body::read(request).await?;
        let body = body::object::<AddBody<'_>>(&body)?;
        let applied = self
            .mutate(&counter.namespace, body.request(&counter.name))
            .await?;
        Ok(json(&MutationAnswer::from(&applied)))
    }

    async fn http_add_and_get(
        &self,
        counter: &Counter<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let deadline = Deadline::of(request.extensions());
        let body = body::read(request).await?;
        let body = body::object::<AddBody<'_>>(&body)?;
        let request = body.request(&counter.name);
        let added = self
            .add_and_get(&counter.namespace, request, deadline)
            .await?;
        Ok(json(&AddAndGetAnswer {
            applied: (&added.applied).into(),
            count: added.count.into(),
            includes_add: added.includes_add,
        }))
    }

    async fn http_clear(
        &self,
        counter: &Counter<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let body = body::read(request).await?;
        let body = body::object::<ClearBody<'_>>(&body)?;
        let applied = self
            .mutate(&counter.namespace, body.request(&counter.name))
            .await?;
        Ok(json(&MutationAnswer::from(&applied)))
    }

    async fn http_batch_add(
        &self,
        namespace: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let body = body::read(request).await?;
        let items = batch_items(&body)?;
        let requests = items.iter().map(|item| match item {
            Ok(item) => Ok(item.request()),
            Err(failure) => Err(failure.clone()),
        });
        let results = self.batch_add(namespace, requests.collect()).await?;
        Ok(json(&BatchAnswer {
            results: results.iter().map(ItemAnswer::from).collect(),
        }))
    }

    async fn http_lookup(
        &self,
        namespace: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let body = body::read(request).await?;
        let body = body::object::<LookupBody<'_>>(&body)?;
        let token = body.idempotency_token.0.request();
        let outcome = self
            .lookup(namespace, &body.counter_name, token, &body.item_key)
            .await?;
        Ok(json(&LookupAnswer::from(&outcome)))
    }
}

/// The items of a batch. Only when one is bad are they read one by one, so that it fails alone.
fn batch_items(body: &[u8]) -> Result<Vec<Result<ItemBody<'_>, Failure>>, Failure> {
    if let Ok(Object(batch)) = serde_json::from_slice::<Object<BatchBody<'_>>>(body) {
        return Ok(batch
            .items
            .into_iter()
            .map(|Object(item)| Ok(item))
            .collect());
    }
    let batch = body::object::<RawBatchBody<'_>>(body)?;
    call::check_batch_size("items", batch.items.len())?;
    Ok(batch
        .items
        .into_iter()
        .map(|item| body::object(item.get().as_bytes()))
        .collect())
}

fn refuse(no_call: &NoCall) -> Response<Body> {
    match no_call {
        NoCall::NotFound(message) => {
            render(&Failure::new(Code::NotFound, reason::NO_SUCH_CALL, message))
        }
        NoCall::Undecodable { field, problem } => {
            let message = format!("{field} in the path: {problem}");
            render(&Failure::invalid(reason::INVALID_FIELD, message).at(*field))
        }
        NoCall::MethodNotAllowed(allow) => {
            let message = format!("this path takes {allow} only");
            let failure = Failure::new(Code::Unimplemented, reason::METHOD_NOT_ALLOWED, message);
            let mut response = render(&failure);
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static(allow));
            response
        }
    }
}

pub(super) fn json<T: Serialize>(answer: &T) -> Response<Body> {
    let bytes = serde_json::to_vec(answer).expect("text and numbers serialize");
    with_type("application/json", bytes)
}

/// A namespace's document itself, so that what was read can be put back; what else is known of it
/// stands in headers.
fn document(record: &NamespaceRecord) -> Response<Body> {
    let mut response = versioned(&record.document, record.version);
    let effective = HeaderValue::try_from(to_rfc3339(record.effective_from));
    let effective = effective.expect("a time is a header's value");
    response.headers_mut().insert(EFFECTIVE_FROM, effective);
    response
}

/// A document with its version.
pub(super) fn versioned<T: Serialize>(document: &T, version: u64) -> Response<Body> {
    let mut response = json(document);
    let version = HeaderValue::try_from(format!("\"{version}\""));
    let version = version.expect("digits and quotes are allowed");
    response.headers_mut().insert(header::ETAG, version);
    response
}

fn with_type(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}
