//! Reads of many counters, reads that wait, and adds that answer a count.

use crate::scripted::{Fate, Scripted, failure, unavailable};
use quipu_client::{Client, Micros};
use quipu_schemas::namespace::Mode;
use std::time::Duration;
use tonic::Code;

async fn counting(counts: impl IntoIterator<Item = (&'static str, i64)>) -> Scripted {
    let server = Scripted::start(Mode::EventuallyConsistent).await;
    let counts = counts.into_iter();
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    server.state().counts.extend(counts);
    server
}

#[tokio::test]
async fn many_counts_come_in_the_order_of_their_names_and_a_bad_one_fails_alone() {
    let server = counting([("a", 1), ("b", 2)]).await;
    server.state().calls.push_back(Fate::Fail(unavailable()));
    let counts = server.client().batch_get("web", &["b", "", "a"]).await;
    let counts = counts.unwrap();
    assert_eq!(counts[0].as_ref().unwrap().count, 2);
    let failure = counts[1].as_ref().unwrap_err();
    assert_eq!(failure.code_and_reason().1, "INVALID_FIELD");
    assert_eq!(counts[2].as_ref().unwrap().count, 1);
    assert_eq!(server.state().timeouts.len(), 2, "tried again as a whole");
}

#[tokio::test]
async fn more_counters_than_a_call_takes_are_read_with_several() {
    let server = counting([("a", 1)]).await;
    let names = vec!["a"; 1_001];
    let counts = server.client().batch_get("web", &names).await.unwrap();
    assert_eq!(counts.len(), 1_001);
    assert_eq!(server.state().sizes, [1_000, 1]);
    let refused = failure(Code::NotFound, "UNKNOWN_NAMESPACE");
    server.state().calls.push_back(Fate::Fail(refused));
    let error = server.client().batch_get("web", &names).await.unwrap_err();
    assert!(!error.may_be_applied);
}

#[tokio::test]
async fn counters_are_listed_page_by_page_and_from_where_a_list_was_left() {
    let server = counting([("a", 1), ("b", 1), ("c", 1)]).await;
    let client = server.client();
    let mut counters = client.counters("web").page_size(2);
    server.state().calls.push_back(Fate::Fail(unavailable()));
    assert_eq!(counters.next_page().await.unwrap().unwrap(), ["a", "b"]);
    let left = counters.page_token().expect("more follow").to_owned();
    assert_eq!(counters.next_page().await.unwrap().unwrap(), ["c"]);
    assert_eq!(counters.page_token(), None);
    assert_eq!(counters.next_page().await.unwrap(), None);
    let mut counters = client.counters("web").from_page(left);
    assert_eq!(counters.next_page().await.unwrap().unwrap(), ["c"]);
}

#[tokio::test]
async fn a_page_that_failed_is_asked_for_again() {
    let server = counting([("a", 1)]).await;
    let refused = failure(Code::FailedPrecondition, "KEEPS_NO_EVENTS");
    server.state().calls.push_back(Fate::Fail(refused));
    let mut counters = server.client().counters("web");
    counters.next_page().await.unwrap_err();
    assert_eq!(counters.next_page().await.unwrap().unwrap(), ["a"]);
}

#[tokio::test]
async fn a_read_that_waits_tells_the_server_for_how_long_it_may() {
    let server = counting([]).await;
    let options = server.options().timeout(Duration::from_secs(25));
    let client = Client::new(options).unwrap();
    let through = Micros::new(7_000_000);
    client.get_fresh("web", "a", through).await.unwrap();
    client.get("web", "a").await.unwrap();
    let state = server.state();
    assert_eq!(state.min_freshness, [Some(7), None]);
    let seconds = |at: usize| {
        let text = state.timeouts[at].as_deref().unwrap();
        let (digits, unit) = text.split_at(text.len() - 1);
        assert_eq!(unit, "u", "{text}");
        digits.parse::<u64>().unwrap() / 1_000_000
    };
    assert!((20..=25).contains(&seconds(0)), "all there is");
    assert!(seconds(1) <= 10, "another attempt may do better");
}

#[tokio::test]
async fn an_add_with_its_count_says_whether_it_is_in_it() {
    for (mode, includes_add) in [(Mode::Accurate, true), (Mode::EventuallyConsistent, false)] {
        let server = Scripted::start(mode).await;
        let added = server.client().add("web", "a", 5).and_get().await.unwrap();
        assert_eq!((added.count.count, added.includes_add), (5, includes_add));
    }
}
