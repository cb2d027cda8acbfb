//! The same over gRPC.

use super::{NOBODYS, OURS, THEIRS, keys};
use crate::{
    Access, Limits, Transport,
    auth::Permission::{self, Read, Write},
    serve,
    testing::{START, World},
};
use prost::Message;
use quipu_schemas::{
    timestamp::to_proto,
    v1::{self, counter_client::CounterClient},
};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::{
    Code, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_types::StatusExt;

/// Sends a key with each call.
#[derive(Clone)]
struct WithKey(Option<String>);

impl Interceptor for WithKey {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(key) = &self.0 {
            let value = MetadataValue::try_from(format!("Bearer {key}")).unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

type Client = CounterClient<InterceptedService<Channel, WithKey>>;

/// A call's answer, and what the call needs.
macro_rules! call {
    ($client:ident.$method:ident, $request:ident { $($field:ident),* }, $needs:expr) => {{
        let request = v1::$request { $($field,)* ..v1::$request::default() };
        ($client.$method(request).await.map(drop), $needs)
    }};
}

fn token() -> v1::IdempotencyToken {
    v1::IdempotencyToken {
        token: "t".to_owned(),
        generation_time: Some(to_proto(START)),
    }
}

/// A message of a stream.
fn message(namespace: &str) -> v1::StreamAddRequest {
    v1::StreamAddRequest {
        namespace: namespace.to_owned(),
        ..v1::StreamAddRequest::default()
    }
}

/// What the answer to a message says of it as a whole.
fn whole(answer: v1::StreamAddResponse) -> Result<(), Status> {
    answer.error.map_or(Ok(()), |error| {
        let details = error.encode_to_vec().into();
        Err(Status::with_details(
            Code::from(error.code),
            error.message,
            details,
        ))
    })
}

async fn stream_one(mut client: Client, namespace: String) -> Result<(), Status> {
    let messages = futures::stream::iter([message(&namespace)]);
    let answers = client.stream_add_count(messages).await?;
    let answer = answers.into_inner().message().await?;
    whole(answer.expect("each message is answered"))
}

/// Makes a call by its name, and says what it needs.
async fn grpc(
    channel: &Channel,
    name: &str,
    namespace: &str,
    key: Option<&str>,
) -> (Result<(), Status>, &'static [Permission]) {
    let key = WithKey(key.map(str::to_owned));
    let mut client = CounterClient::with_interceptor(channel.clone(), key);
    let (namespace, counter_name) = (namespace.to_owned(), "a".to_owned());
    let idempotency_token = Some(token());
    match name {
        "AddCount" => call!(
            client.add_count,
            AddCountRequest {
                namespace,
                counter_name,
                idempotency_token
            },
            &[Write]
        ),
        "AddAndGetCount" => call!(
            client.add_and_get_count,
            AddAndGetCountRequest {
                namespace,
                counter_name,
                idempotency_token
            },
            &[Write, Read]
        ),
        "GetCount" => call!(
            client.get_count,
            GetCountRequest {
                namespace,
                counter_name
            },
            &[Read]
        ),
        "ClearCount" => call!(
            client.clear_count,
            ClearCountRequest {
                namespace,
                counter_name,
                idempotency_token
            },
            &[Write]
        ),
        "BatchAddCount" => call!(
            client.batch_add_count,
            BatchAddCountRequest { namespace },
            &[Write]
        ),
        "StreamAddCount" => (stream_one(client, namespace).await, &[Write]),
        "BatchGetCount" => call!(
            client.batch_get_count,
            BatchGetCountRequest { namespace },
            &[Read]
        ),
        "ListCounters" => call!(
            client.list_counters,
            ListCountersRequest { namespace },
            &[Read]
        ),
        "LookupEvent" => call!(
            client.lookup_event,
            LookupEventRequest {
                namespace,
                counter_name,
                idempotency_token
            },
            &[Read]
        ),
        other => panic!("{other} is new: decide here what it needs"),
    }
}

/// The calls of the service, as its descriptor names them.
fn grpc_calls() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(quipu_schemas::DESCRIPTORS).unwrap();
    let services = set.file.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| &service.method);
    let names: Vec<_> = methods.map(|method| method.name().to_owned()).collect();
    assert!(names.len() >= 6, "{names:?}");
    names
}

async fn connect(world: &World, access: Access) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = world.router_for(access);
    let limits = Limits::default();
    tokio::spawn(serve(
        listener,
        Transport::Plain,
        router,
        limits,
        std::future::pending(),
    ));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect_timeout(Duration::from_secs(5));
    channel.connect().await.unwrap()
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().unwrap().reason
}

#[tokio::test]
async fn every_call_over_grpc_needs_its_permissions_in_its_own_namespaces() {
    let world = World::new();
    let keys = keys(&world);
    let channel = connect(&world, keys.access.clone()).await;
    for name in grpc_calls() {
        for namespace in [OURS, THEIRS, NOBODYS] {
            for (key, expected) in [
                (None, "API_KEY_MISSING"),
                (Some("quipu_none_0"), "API_KEY_INVALID"),
                (Some(keys.ended.reveal()), "API_KEY_EXPIRED"),
            ] {
                let (answer, _) = grpc(&channel, &name, namespace, key).await;
                let status = answer.unwrap_err();
                assert_eq!(status.code(), Code::Unauthenticated, "{name}");
                assert_eq!(reason(&status), expected, "{name}");
            }
            for (allow, secret) in &keys.secrets {
                let (answer, needs) = grpc(&channel, &name, namespace, Some(secret.reveal())).await;
                let may = namespace == OURS && needs.iter().all(|need| allow.contains(need));
                let denied = answer.is_err_and(|status| {
                    status.code() == Code::PermissionDenied && reason(&status) == "NOT_ALLOWED"
                });
                assert_eq!(denied, !may, "{name} in {namespace} with {allow:?}");
            }
        }
    }
    assert!(world.appended_events().is_empty());
}

#[tokio::test]
async fn each_message_of_a_stream_is_decided_by_its_namespace_and_the_keys_of_its_moment() {
    let world = World::new();
    let keys = keys(&world);
    let channel = connect(&world, keys.access.clone()).await;
    let key = WithKey(Some(keys.ends_soon.reveal().to_owned()));
    let mut client = CounterClient::with_interceptor(channel, key);
    let (send, messages) = futures::channel::mpsc::unbounded();
    let mut answers = client
        .stream_add_count(messages)
        .await
        .unwrap()
        .into_inner();
    let mut ask = async |namespace| {
        send.unbounded_send(message(namespace)).unwrap();
        let answer = answers.message().await.unwrap().unwrap();
        reason(&whole(answer).unwrap_err())
    };
    assert_eq!(ask(OURS).await, "UNKNOWN_NAMESPACE");
    for denied in [THEIRS, NOBODYS, ""] {
        assert_eq!(ask(denied).await, "NOT_ALLOWED", "{denied:?}");
    }
    assert_eq!(ask(OURS).await, "UNKNOWN_NAMESPACE", "the stream goes on");
    world.hands.advance(Duration::from_hours(1));
    assert_eq!(ask(OURS).await, "API_KEY_EXPIRED");
    assert!(world.appended_events().is_empty());
}
