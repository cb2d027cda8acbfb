//! The history of a namespace, changes for a version, and changes that are refused, where several
//! processes share the control plane.

use crate::control::{control, document, plan, set_up, settings};
use quipu_adapters::{
    cassandra::{CassandraDataset, ControlSettings},
    clock::Clock,
    embedded::Dataset,
    ports::{ChangeRequest, ControlError, ControlPlane},
};
use quipu_core::name::Namespace;
use quipu_schemas::namespace::{Author, NamespaceDocument};
use std::time::Duration;

#[tokio::test]
async fn the_history_tells_who_made_each_version_and_when_also_of_lives_that_have_ended() {
    let (cassandra, keep) = set_up().await;
    let control = control(&cassandra).await;
    let name = Namespace::new("a").expect("valid");
    let missing = control.history(&name, None).await;
    assert!(
        matches!(missing, Err(ControlError::NotFound(_))),
        "{missing:?}"
    );
    let by = |author: &str, if_version| ChangeRequest {
        author: Author::new(author).expect("valid"),
        if_version,
    };
    let began = Clock::system().now();
    let first = control.apply(document(9), by("ana", Some(0))).await;
    assert_eq!(first.expect("made").version, 1);
    let second = control.apply(document(3), by("ben", Some(1))).await;
    let second = second.expect("changed");
    control
        .delete(&name, by("eve", Some(2)))
        .await
        .expect("deleted");
    control
        .apply(document(9), by("ana", None))
        .await
        .expect("made again");
    let versions = control.history(&name, None).await.expect("told");
    let told: Vec<_> = versions
        .iter()
        .map(|it| {
            (
                it.version,
                it.author.as_str(),
                it.deleted,
                it.document.accept_limit.as_secs(),
            )
        })
        .collect();
    let expected = [
        (4, "ana", false, 9),
        (3, "eve", true, 3),
        (2, "ben", false, 3),
        (1, "ana", false, 9),
    ];
    assert_eq!(told, expected);
    assert!(versions[0].id > versions[1].id);
    assert_eq!(versions[1].id, versions[3].id);
    assert_eq!(versions[2].effective_from, second.effective_from);
    for version in &versions {
        let changed_at = version.changed_at.expect("known");
        assert!(began <= changed_at && changed_at <= Clock::system().now());
    }
    let older = control.history(&name, Some(3)).await.expect("told");
    assert_eq!(older, versions[2..]);
    keep.run("DELETE author, changed_at FROM {ks}.policies WHERE book = 0 AND namespace = 'a' AND version = 1")
        .await;
    let versions = control
        .history(&name, Some(2))
        .await
        .expect("an old version loads");
    assert_eq!(
        (versions[0].author.as_str(), versions[0].changed_at),
        ("unknown", None)
    );
}

#[tokio::test]
async fn a_change_for_a_version_that_is_not_in_force_is_refused_and_of_a_race_one_wins() {
    let (cassandra, keep) = set_up().await;
    let (here, there) = (
        control(&cassandra).await,
        control(&keep.connect().await).await,
    );
    let at = |if_version| ChangeRequest {
        if_version: Some(if_version),
        ..ChangeRequest::default()
    };
    here.apply(document(9), at(0)).await.expect("made");
    let (a, b) = tokio::join!(
        here.apply(document(8), at(1)),
        there.apply(document(7), at(1))
    );
    assert_eq!(u8::from(a.is_ok()) + u8::from(b.is_ok()), 1, "{a:?} {b:?}");
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    let won = won.expect("one won");
    assert_eq!(won.version, 2);
    assert!(
        matches!(
            lost,
            Err(ControlError::VersionMoved {
                expected: 1,
                in_force: 2,
                ..
            })
        ),
        "{lost:?}"
    );
    let again = here.apply(won.document.clone(), at(1)).await;
    assert_eq!(again.expect("it is in force already"), won);
    let name = Namespace::new("a").expect("valid");
    let refused = here.delete(&name, at(1)).await;
    assert!(
        matches!(refused, Err(ControlError::VersionMoved { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn setup_adds_the_columns_that_a_keyspace_of_an_older_version_lacks() {
    let (cassandra, keep) = set_up().await;
    keep.run("ALTER TABLE {ks}.policies DROP author").await;
    keep.run("ALTER TABLE {ks}.policies DROP changed_at").await;
    let old = keep.connect().await;
    let refused = old
        .control(settings())
        .await
        .expect_err("a role must not start");
    assert!(
        refused.to_string().contains("quipu admin setup"),
        "{refused}"
    );
    cassandra.setup(&plan()).await.expect("set up again");
    let control = control(&keep.connect().await).await;
    let name = Namespace::new("default").expect("valid");
    let versions = control
        .history(&name, None)
        .await
        .expect("an old version loads");
    assert_eq!(versions[0].author.as_str(), "unknown");
    control
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("made");
}

#[tokio::test]
async fn changes_that_would_break_a_promise_are_refused_with_the_reason() {
    let (cassandra, _keep) = set_up().await;
    let control = control(&cassandra).await;
    control
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("made");
    let events =
        r#"{"id": "EVENT_STORE", "physical_storage": {"type": "CASSANDRA", "dataset": "b"}}"#;
    for (fields, field, why) in [
        (
            r#""accept_limit": "1s""#.to_owned(),
            "accept_limit: ",
            "append_guard",
        ),
        (
            r#""type": "BEST_EFFORT""#.to_owned(),
            "type: ",
            "only by being made again",
        ),
        (
            format!(r#""persistence": [{events}]"#),
            "persistence",
            "dataset",
        ),
    ] {
        let json = format!(r#"{{"namespace": "a", {fields}}}"#);
        let asked = NamespaceDocument::from_json(json.as_bytes()).expect("a document");
        let refused = control.apply(asked, ChangeRequest::default()).await;
        let Err(ControlError::Refused(told)) = refused else {
            panic!("{refused:?}");
        };
        assert!(told.starts_with(field) && told.contains(why), "{told}");
    }
    let short = CassandraDataset {
        name: "b".to_owned(),
        shape: Dataset {
            retention: Duration::from_mins(1),
            ..Dataset::default()
        },
    };
    let settings = ControlSettings {
        dataset: short,
        ..settings()
    };
    let control = cassandra.control(settings).await.expect("it opens");
    let elsewhere = format!(r#"{{"namespace": "a", "persistence": [{events}]}}"#);
    let elsewhere = NamespaceDocument::from_json(elsewhere.as_bytes()).expect("a document");
    for (asked, why) in [
        (
            document(61),
            "accept_limit: events are accepted for 61s but kept for 60s only",
        ),
        (elsewhere, "persistence: its events are in another dataset"),
    ] {
        let refused = control.apply(asked, ChangeRequest::default()).await;
        let Err(ControlError::Refused(told)) = refused else {
            panic!("{refused:?}");
        };
        assert!(told.starts_with(why), "{told}");
    }
}
