//! A server in the test's process. It stores each identity once, as a real one does; a script says
//! what happens to its calls.

use axum::{Json, Router, routing::get};
use futures::StreamExt;
use quipu_client::{
    Client, ClientOptions,
    v1::{self, counter_server},
};
use quipu_schemas::namespace::{Mode, NamespaceDocument};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::net::TcpListener;
use tonic::{Code, Request, Response, Status, async_trait, metadata::MetadataMap, service::Routes};
use tonic_types::{ErrorDetails, StatusExt};

/// What happens to one item, or to a whole call.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// As a server without faults would do; what comes after the script, too.
    Honest,
    /// Fails, and nothing is applied.
    Fail(Status),
    /// Is applied, and fails.
    ApplyAndFail(Status),
    /// Is applied, and never answered.
    ApplyAndHang,
}

/// What a server knows.
#[derive(Default)]
pub(crate) struct State {
    /// What happens to the next calls.
    pub(crate) calls: VecDeque<Fate>,
    /// What happens to the next items.
    pub(crate) items: VecDeque<Fate>,
    /// Each item that came, in order: counter, token, item key.
    pub(crate) seen: Vec<(String, String, String)>,
    /// How many items each call brought.
    pub(crate) sizes: Vec<usize>,
    /// How often a namespace's document was asked for.
    pub(crate) documents: usize,
    /// The time that each call had.
    pub(crate) timeouts: Vec<Option<String>>,
    /// How many streams of adds were opened.
    pub(crate) streams: usize,
    /// What each read waits for.
    pub(crate) min_freshness: Vec<Option<i64>>,
    stored: HashSet<(String, String, String)>,
    /// What was counted.
    pub(crate) counts: HashMap<String, i64>,
    mode: Mode,
}

/// A running server.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Scripted {
    /// A server whose namespaces are all of one kind.
    pub(crate) async fn start(mode: Mode) -> Self {
        let state = Arc::new(Mutex::new(State {
            mode,
            ..State::default()
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, state };
        let asked = server.clone();
        let document = move || async move {
            let mut state = asked.state();
            state.documents += 1;
            Json(NamespaceDocument {
                mode: state.mode,
                ..NamespaceDocument::with_defaults("web")
            })
        };
        let router: Router = Routes::new(counter_server::CounterServer::new(server.clone()))
            .into_axum_router()
            .route("/v1/namespaces/{name}", get(document));
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        server
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A client that gives up soon.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    pub(crate) fn options(&self) -> ClientOptions {
        ClientOptions::new(&self.url).timeout(Duration::from_secs(10))
    }

    async fn call<T>(
        &self,
        metadata: &MetadataMap,
        apply: impl FnOnce(&mut State) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let answer = {
            let mut state = self.state();
            let timeout = metadata.get("grpc-timeout");
            let timeout = timeout.map(|value| value.to_str().unwrap().to_owned());
            state.timeouts.push(timeout);
            match state.calls.pop_front().unwrap_or(Fate::Honest) {
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

impl State {
    /// Whether a repetition counts twice, as answers say it.
    fn idempotent(&self) -> Option<bool> {
        (self.mode == Mode::BestEffort).then_some(false)
    }

    /// A message of a stream: its answer, or how the stream ends; nothing, when it hangs.
    fn take(
        &mut self,
        message: &v1::StreamAddRequest,
    ) -> Option<Result<v1::StreamAddResponse, Status>> {
        self.sizes.push(message.items.len());
        let sequence = message.sequence;
        let fate = self.calls.pop_front().unwrap_or(Fate::Honest);
        let answer = v1::StreamAddResponse {
            sequence,
            ..Default::default()
        };
        if let Fate::Fail(status) = fate {
            let error = result_of(Err(status), None).error;
            return Some(Ok(v1::StreamAddResponse { error, ..answer }));
        }
        let idempotent = self.idempotent();
        let result = |item| result_of(self.apply(item), idempotent);
        let results = message.items.iter().map(result).collect();
        match fate {
            Fate::ApplyAndHang => None,
            Fate::ApplyAndFail(status) => Some(Err(status)),
            Fate::Honest | Fate::Fail(_) => Some(Ok(v1::StreamAddResponse { results, ..answer })),
        }
    }

    fn apply(&mut self, item: &v1::BatchAddItem) -> Result<v1::MutationStatus, Status> {
        let token = item.idempotency_token.clone().expect("a token").token;
        let identity = (item.counter_name.clone(), token, item.item_key.clone());
        self.seen.push(identity.clone());
        let store = || {
            if self.mode != Mode::BestEffort && !self.stored.insert(identity) {
                return v1::MutationStatus::AlreadyApplied;
            }
            let count = self.counts.entry(item.counter_name.clone());
            *count.or_default() += item.delta;
            v1::MutationStatus::Accepted
        };
        match self.items.pop_front().unwrap_or(Fate::Honest) {
            Fate::Honest => Ok(store()),
            Fate::Fail(status) => Err(status),
            Fate::ApplyAndFail(status) => {
                store();
                Err(status)
            }
            Fate::ApplyAndHang => unreachable!("an item cannot hang"),
        }
    }
}

/// A failure with a reason, to be tried again soon.
pub(crate) fn failure(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, "quipu", HashMap::new());
    details.set_retry_info(Some(Duration::from_millis(5)));
    Status::with_error_details(code, "scripted", details)
}

pub(crate) fn unavailable() -> Status {
    failure(Code::Unavailable, "STORAGE_UNAVAILABLE")
}

pub(crate) fn late() -> Status {
    failure(Code::FailedPrecondition, "LATE")
}

fn result_of(
    applied: Result<v1::MutationStatus, Status>,
    idempotent: Option<bool>,
) -> v1::BatchAddResult {
    let mut result = v1::BatchAddResult {
        idempotent,
        ..v1::BatchAddResult::default()
    };
    match applied {
        Ok(status) => result.set_status(status),
        Err(status) => result.error = Some(prost::Message::decode(status.details()).unwrap()),
    }
    result
}

#[async_trait]
impl counter_server::Counter for Scripted {
    async fn add_count(
        &self,
        request: Request<v1::AddCountRequest>,
    ) -> Result<Response<v1::AddCountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let item = v1::BatchAddItem {
            counter_name: request.counter_name,
            delta: request.delta,
            idempotency_token: request.idempotency_token,
            item_key: request.item_key,
        };
        self.call(&metadata, |state| {
            Ok(v1::AddCountResponse {
                status: state.apply(&item)?.into(),
                idempotent: state.idempotent(),
                ..Default::default()
            })
        })
        .await
    }

    async fn batch_add_count(
        &self,
        request: Request<v1::BatchAddCountRequest>,
    ) -> Result<Response<v1::BatchAddCountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.call(&metadata, |state| {
            state.sizes.push(request.items.len());
            let idempotent = state.idempotent();
            let result = |item| result_of(state.apply(item), idempotent);
            let results = request.items.iter().map(result).collect();
            Ok(v1::BatchAddCountResponse { results })
        })
        .await
    }

    type StreamAddCountStream = tonic::codegen::BoxStream<v1::StreamAddResponse>;

    async fn stream_add_count(
        &self,
        request: Request<tonic::Streaming<v1::StreamAddRequest>>,
    ) -> Result<Response<Self::StreamAddCountStream>, Status> {
        self.state().streams += 1;
        let server = self.clone();
        let answer = move |message: Result<v1::StreamAddRequest, Status>| {
            let answer = message.map(|message| server.state().take(&message));
            std::future::ready(answer.unwrap_or_else(|broken| Some(Err(broken))))
        };
        let messages = request.into_inner();
        Ok(Response::new(Box::pin(messages.filter_map(answer))))
    }

    async fn get_count(
        &self,
        request: Request<v1::GetCountRequest>,
    ) -> Result<Response<v1::GetCountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.call(&metadata, |state| {
            let min = request.min_freshness;
            state.min_freshness.push(min.map(|time| time.seconds));
            let count = state.counts.get(&request.counter_name).copied();
            Ok(v1::GetCountResponse {
                count: count.unwrap_or_default(),
                ..Default::default()
            })
        })
        .await
    }

    async fn clear_count(
        &self,
        _: Request<v1::ClearCountRequest>,
    ) -> Result<Response<v1::ClearCountResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn add_and_get_count(
        &self,
        request: Request<v1::AddAndGetCountRequest>,
    ) -> Result<Response<v1::AddAndGetCountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let item = v1::BatchAddItem {
            counter_name: request.counter_name,
            delta: request.delta,
            idempotency_token: request.idempotency_token,
            item_key: request.item_key,
        };
        self.call(&metadata, |state| {
            Ok(v1::AddAndGetCountResponse {
                status: state.apply(&item)?.into(),
                count: state.counts[&item.counter_name],
                // As servers did that did not know it yet.
                includes_add: (state.mode == Mode::Accurate).then_some(true),
                ..Default::default()
            })
        })
        .await
    }

    async fn lookup_event(
        &self,
        _: Request<v1::LookupEventRequest>,
    ) -> Result<Response<v1::LookupEventResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn batch_get_count(
        &self,
        request: Request<v1::BatchGetCountRequest>,
    ) -> Result<Response<v1::BatchGetCountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.call(&metadata, |state| {
            state.sizes.push(request.counter_names.len());
            let result = |name: &String| match state.counts.get(name) {
                Some(count) => v1::BatchGetResult {
                    count: *count,
                    ..Default::default()
                },
                None => v1::BatchGetResult {
                    error: result_of(Err(failure(Code::InvalidArgument, "INVALID_FIELD")), None)
                        .error,
                    ..Default::default()
                },
            };
            let results = request.counter_names.iter().map(result).collect();
            Ok(v1::BatchGetCountResponse { results })
        })
        .await
    }

    /// A page token is the place in the order of names where the page begins.
    async fn list_counters(
        &self,
        request: Request<v1::ListCountersRequest>,
    ) -> Result<Response<v1::ListCountersResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.call(&metadata, |state| {
            let mut names: Vec<_> = state.counts.keys().cloned().collect();
            names.sort();
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
}
