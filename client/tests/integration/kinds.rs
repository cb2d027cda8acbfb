//! Namespaces that count by best effort: nothing that may count is sent twice.

use crate::scripted::{Fate, Scripted, unavailable};
use quipu_client::{BatchItem, Client, Failure};
use quipu_schemas::namespace::Mode;
use std::time::Duration;

#[tokio::test]
async fn an_add_is_sent_once_and_its_outcome_is_unknown() {
    let server = Scripted::start(Mode::BestEffort).await;
    for documents in [1, 1] {
        server
            .state()
            .calls
            .push_back(Fate::ApplyAndFail(unavailable()));
        let error = server_error(&server.client()).await;
        assert!(matches!(error, Failure::OutcomeUnknown(_)), "{error:?}");
        assert!(error.to_string().contains("by best effort"), "{error}");
        assert_eq!(std::mem::take(&mut server.state().documents), documents);
    }
    assert_eq!(server.state().counts["views"], 2);
}

async fn server_error(client: &Client) -> Failure {
    client.add("web", "views", 1).await.unwrap_err().failure
}

#[tokio::test]
async fn a_kind_is_asked_for_once_and_remembered() {
    let server = Scripted::start(Mode::BestEffort).await;
    let client = server.client();
    for _ in 0..3 {
        server
            .state()
            .calls
            .push_back(Fate::ApplyAndFail(unavailable()));
        server_error(&client).await;
    }
    assert_eq!(server.state().documents, 1);
}

#[tokio::test]
async fn an_answer_that_tells_the_kind_saves_the_question() {
    let server = Scripted::start(Mode::BestEffort).await;
    let client = server.client();
    client.add("web", "views", 1).await.unwrap();
    server
        .state()
        .calls
        .push_back(Fate::ApplyAndFail(unavailable()));
    server_error(&client).await;
    assert_eq!(server.state().documents, 0);
    assert_eq!(server.state().counts["views"], 2);
}

#[tokio::test]
async fn items_of_a_batch_are_sent_once() {
    let server = Scripted::start(Mode::BestEffort).await;
    server
        .state()
        .items
        .extend([Fate::Honest, Fate::ApplyAndFail(unavailable())]);
    let items = vec![BatchItem::new("a", 1), BatchItem::new("b", 1)];
    let results = server.client().batch_add("web", items).await;
    assert!(results[0].is_ok());
    let error = results[1].as_ref().unwrap_err();
    assert!(
        matches!(error.failure, Failure::OutcomeUnknown(_)),
        "{error:?}"
    );
    assert!(error.may_be_applied);
    assert_eq!(server.state().sizes, [2]);
}

#[tokio::test]
async fn no_add_is_hedged_where_it_would_count_twice() {
    let server = Scripted::start(Mode::BestEffort).await;
    server.state().calls.push_back(Fate::ApplyAndHang);
    let options = server.options().hedge_after(Duration::from_millis(10));
    let add = Client::new(options).unwrap().add("web", "views", 1);
    let error = add.timeout(Duration::from_millis(400)).await.unwrap_err();
    assert!(
        matches!(error.failure, Failure::OutcomeUnknown(_)),
        "{error:?}"
    );
    assert_eq!(server.state().counts["views"], 1);
}
