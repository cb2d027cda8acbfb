//! A Counter service in the test's process. It stores each identity once, as a real one does, and
//! a script may let it fail: before it applies anything, after it, or item by item. Every namespace
//! keeps events.

use axum::{Json, Router, routing::get};
use quipu_schemas::{
    namespace::NamespaceDocument,
    v1::{self, counter_server},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tokio::{net::TcpListener, runtime::Runtime};
use tonic::{Code, Request, Response, Status, service::Routes};
use tonic_types::{ErrorDetails, StatusExt};

/// What the script lets happen to one item, or to a whole call.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// As a server without faults would do.
    Honest,
    /// Fails, and nothing is applied.
    Fail(Status),
    /// Is applied, and fails.
    ApplyAndFail(Status),
    /// Is applied, and never answered.
    ApplyAndHang,
}

/// Decides on a call by its number, from 0 on.
pub(crate) type CallScript = Box<dyn FnMut(usize) -> Fate + Send>;
/// Decides on an item by the number of items before it, over all calls.
pub(crate) type ItemScript = Box<dyn FnMut(usize) -> Fate + Send>;

type Identity = (String, String, String, i64, i32);

#[derive(Default)]
pub(crate) struct State {
    stored: HashMap<Identity, i64>,
    /// Each token that was sent, in order, with its time.
    pub(crate) tokens: Vec<(String, i64, i32)>,
    calls: usize,
    items: usize,
    call_script: Option<CallScript>,
    item_script: Option<ItemScript>,
    /// What each read waits for, in seconds.
    pub(crate) min_freshness: Vec<Option<i64>>,
    /// Events older than this are late.
    pub(crate) accept_limit: Option<Duration>,
    /// The only namespace there is; without one, every namespace exists.
    pub(crate) known_namespace: Option<String>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<State>>);

/// A running server.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<State>>,
    _runtime: Runtime,
}

impl Server {
    pub(crate) fn start(call: Option<CallScript>, item: Option<ItemScript>) -> Self {
        let state = State {
            call_script: call,
            item_script: item,
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let runtime = Runtime::new().unwrap();
        let fake = Fake(Arc::clone(&state));
        let service = counter_server::CounterServer::new(fake);
        let document = || async { Json(NamespaceDocument::with_defaults("default")) };
        let router = Routes::new(service)
            .into_axum_router()
            .route("/v1/namespaces/{name}", get(document));
        let url = runtime.block_on(serve(router));
        Self {
            url,
            state,
            _runtime: runtime,
        }
    }

    /// The counts by counter, and over how many events.
    pub(crate) fn counts(&self) -> (BTreeMap<String, i64>, usize) {
        let state = self.state.lock().unwrap();
        let mut counts = BTreeMap::new();
        for ((counter, ..), delta) in &state.stored {
            *counts.entry(counter.clone()).or_default() += delta;
        }
        (counts, state.stored.len())
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }
}

/// Serves a router, and returns its URL.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

pub(crate) fn failure(code: Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "quipu", HashMap::new());
    Status::with_error_details(code, format!("scripted {reason}"), details)
}

pub(crate) fn unavailable() -> Status {
    let mut details = ErrorDetails::with_error_info("STORAGE_UNAVAILABLE", "quipu", HashMap::new());
    details.set_retry_info(Some(Duration::from_millis(20)));
    Status::with_error_details(Code::Unavailable, "scripted", details)
}

impl State {
    pub(crate) fn set_call_script(&mut self, script: Option<CallScript>) {
        self.call_script = script;
    }

    fn store(&mut self, item: &v1::BatchAddItem) -> Result<v1::MutationStatus, Status> {
        let token = item.idempotency_token.clone().unwrap_or_default();
        let time = token.generation_time.unwrap_or_default();
        self.tokens
            .push((token.token.clone(), time.seconds, time.nanos));
        let identity = (
            item.counter_name.clone(),
            token.token,
            item.item_key.clone(),
            time.seconds,
            time.nanos,
        );
        if self.stored.contains_key(&identity) {
            return Ok(v1::MutationStatus::AlreadyApplied);
        }
        let age = SystemTime::now().duration_since(SystemTime::try_from(time).unwrap());
        if self
            .accept_limit
            .is_some_and(|limit| age.unwrap_or_default() > limit)
        {
            return Err(failure(Code::FailedPrecondition, "LATE"));
        }
        self.stored.insert(identity, item.delta);
        Ok(v1::MutationStatus::Accepted)
    }

    /// The count of a counter, and the time through which it is complete. An empty name is none.
    fn count(&self, namespace: &str, name: &str) -> Result<(i64, SystemTime), Status> {
        let known = self.known_namespace.as_ref();
        if known.is_some_and(|known| *known != namespace) {
            return Err(failure(Code::NotFound, "UNKNOWN_NAMESPACE"));
        }
        if name.is_empty() {
            return Err(failure(Code::InvalidArgument, "INVALID_FIELD"));
        }
        let of_counter = self.stored.iter();
        let of_counter = of_counter.filter(|((counter, ..), _)| counter == name);
        let count = of_counter.map(|(_, delta)| delta).sum();
        Ok((count, SystemTime::UNIX_EPOCH))
    }

    fn fate_of_call(&mut self) -> Fate {
        self.calls += 1;
        let number = self.calls - 1;
        self.call_script
            .as_mut()
            .map_or(Fate::Honest, |script| script(number))
    }

    fn judge(&mut self, item: &v1::BatchAddItem) -> Result<v1::MutationStatus, Status> {
        self.items += 1;
        let number = self.items - 1;
        match self
            .item_script
            .as_mut()
            .map_or(Fate::Honest, |script| script(number))
        {
            Fate::Honest => self.store(item),
            Fate::Fail(status) => Err(status),
            Fate::ApplyAndFail(status) => self.store(item).and(Err(status)),
            Fate::ApplyAndHang => unreachable!("an item cannot hang"),
        }
    }
}

fn result_of(judged: Result<v1::MutationStatus, Status>) -> v1::BatchAddResult {
    let mut result = v1::BatchAddResult::default();
    match judged {
        Ok(status) => result.set_status(status),
        Err(status) => {
            let details: tonic_types::Status = prost_details(&status);
            result.error = Some(quipu_schemas::google::rpc::Status {
                code: details.code,
                message: details.message,
                details: details.details,
            });
        }
    }
    result
}

fn prost_details(status: &Status) -> tonic_types::Status {
    prost::Message::decode(status.details()).unwrap()
}

impl Fake {
    async fn answer<T>(
        &self,
        apply: impl FnOnce(&mut State) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let answer = {
            let mut state = self.0.lock().unwrap();
            match state.fate_of_call() {
                Fate::Honest => Some(apply(&mut state)),
                Fate::Fail(status) => Some(Err(status)),
                Fate::ApplyAndFail(status) => Some(apply(&mut state).and(Err(status))),
                Fate::ApplyAndHang => {
                    let _ = apply(&mut state);
                    None
                }
            }
        };
        match answer {
            Some(answer) => answer.map(Response::new),
            None => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl counter_server::Counter for Fake {
    async fn add_count(
        &self,
        request: Request<v1::AddCountRequest>,
    ) -> Result<Response<v1::AddCountResponse>, Status> {
        let request = request.into_inner();
        let item = v1::BatchAddItem {
            counter_name: request.counter_name,
            delta: request.delta,
            idempotency_token: request.idempotency_token,
            item_key: request.item_key,
        };
        self.answer(|state| {
            let status = state.judge(&item)?.into();
            Ok(v1::AddCountResponse {
                status,
                ..Default::default()
            })
        })
        .await
    }

    type StreamAddCountStream = tonic::codegen::BoxStream<v1::StreamAddResponse>;

    async fn stream_add_count(
        &self,
        _: Request<tonic::Streaming<v1::StreamAddRequest>>,
    ) -> Result<Response<Self::StreamAddCountStream>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn get_count(
        &self,
        request: Request<v1::GetCountRequest>,
    ) -> Result<Response<v1::GetCountResponse>, Status> {
        let request = request.into_inner();
        self.answer(|state| {
            let min = request.min_freshness.as_ref();
            state.min_freshness.push(min.map(|time| time.seconds));
            let (count, through) = state.count(&request.namespace, &request.counter_name)?;
            Ok(v1::GetCountResponse {
                count,
                complete_through: Some(through.into()),
                ..Default::default()
            })
        })
        .await
    }

    async fn clear_count(
        &self,
        request: Request<v1::ClearCountRequest>,
    ) -> Result<Response<v1::ClearCountResponse>, Status> {
        let name = request.into_inner().counter_name;
        self.answer(|state| {
            state.stored.retain(|(counter, ..), _| *counter != name);
            let status = v1::MutationStatus::Accepted.into();
            Ok(v1::ClearCountResponse {
                status,
                ..Default::default()
            })
        })
        .await
    }

    async fn batch_add_count(
        &self,
        request: Request<v1::BatchAddCountRequest>,
    ) -> Result<Response<v1::BatchAddCountResponse>, Status> {
        let items = request.into_inner().items;
        assert!(items.len() <= 1_000);
        self.answer(|state| {
            let results = items
                .iter()
                .map(|item| result_of(state.judge(item)))
                .collect();
            Ok(v1::BatchAddCountResponse { results })
        })
        .await
    }

    async fn add_and_get_count(
        &self,
        _: Request<v1::AddAndGetCountRequest>,
    ) -> Result<Response<v1::AddAndGetCountResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn batch_get_count(
        &self,
        request: Request<v1::BatchGetCountRequest>,
    ) -> Result<Response<v1::BatchGetCountResponse>, Status> {
        let request = request.into_inner();
        self.answer(|state| {
            let names = request.counter_names.iter();
            let result = |name: &String| match state.count(&request.namespace, name) {
                Ok((count, through)) => v1::BatchGetResult {
                    count,
                    complete_through: Some(through.into()),
                    ..Default::default()
                },
                Err(status) => v1::BatchGetResult {
                    error: result_of(Err(status)).error,
                    ..Default::default()
                },
            };
            let results = names.map(result).collect();
            Ok(v1::BatchGetCountResponse { results })
        })
        .await
    }

    /// A page token is the place in the order of names where the page begins.
    async fn list_counters(
        &self,
        request: Request<v1::ListCountersRequest>,
    ) -> Result<Response<v1::ListCountersResponse>, Status> {
        let request = request.into_inner();
        self.answer(|state| {
            let names: BTreeSet<_> = state.stored.keys().map(|(name, ..)| name).collect();
            let names: Vec<_> = names.into_iter().cloned().collect();
            let from = request.page_token.parse().unwrap_or(0);
            let end = names
                .len()
                .min(from + usize::try_from(request.page_size).unwrap());
            let is_last = end == names.len();
            Ok(v1::ListCountersResponse {
                counter_names: names[from..end].to_vec(),
                next_page_token: if is_last {
                    String::new()
                } else {
                    end.to_string()
                },
            })
        })
        .await
    }

    async fn lookup_event(
        &self,
        _: Request<v1::LookupEventRequest>,
    ) -> Result<Response<v1::LookupEventResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }
}
