//! The gateway on a real node, under a machine's clock that stepped back.

use quipu_adapters::{
    clock::Clock,
    embedded::{Embedded, EmbeddedBestEffort, EmbeddedSettings},
    ports::{ChangeRequest, ControlPlane},
};
use quipu_core::{event::Mutation, name::Namespace, time::Micros};
use quipu_gateway::{Gateway, MutationRequest, Ports, Settings, Status, TokenRequest};
use quipu_schemas::namespace::NamespaceDocument;
use std::{sync::Arc, time::Duration};

const START: Micros = Micros::new(1_700_000_000_000_000);

#[tokio::test]
async fn a_namespace_made_again_answers_for_itself_although_the_clock_stepped_back() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (clock, hands) = Clock::manual(START);
    let node = Embedded::open(directory.path(), EmbeddedSettings::default(), clock.clone())
        .expect("it opens");
    hands.step_to(START - Duration::from_hours(1));
    let control = node.control();
    let name = Namespace::new("default").expect("a valid name");
    control
        .delete(&name, ChangeRequest::default())
        .await
        .expect("deleted");
    let mut again = NamespaceDocument::with_defaults("default");
    again.accept_limit = Duration::from_hours(24);
    control
        .apply(again, ChangeRequest::default())
        .await
        .expect("made again");
    let ports = Ports {
        log: node.producer(),
        events: node.events(),
        rollups: node.rollups(),
        cache: node.cache(),
        best_effort: Arc::new(EmbeddedBestEffort::new(1 << 20, clock.clone())),
        control,
    };
    let (gateway, _signals) = Gateway::new(ports, node.watermarks(), clock, Settings::default());
    // Too old for the first life, but not for the second.
    let token = TokenRequest {
        token: "t",
        generation_time: START - Duration::from_secs(10),
    };
    let request = MutationRequest {
        counter_name: "c",
        mutation: Mutation::Add(1),
        token: Some(token),
        item_key: "",
    };
    // A refusal as late would be definitive, and yet a retry would be accepted.
    let applied = gateway.mutate("default", request).await;
    assert_eq!(applied.map(|applied| applied.status), Ok(Status::Accepted));
    let count = gateway.get("default", "c").await.expect("read");
    let origin = START - Duration::from_hours(24);
    assert!(
        count
            .complete_through
            .is_some_and(|through| through.since(origin) < Duration::from_secs(1)),
        "a read of the first life: {count:?}"
    );
}
