//! What a control plane must do. The embedded one is tested with its node; here the one that
//! several processes share.

use crate::cassandra::Keyspace;
use quipu_adapters::{
    cassandra::{
        Cassandra, CassandraControlPlane, CassandraDataset, CassandraError, Claims,
        ControlSettings, FirstNamespace, KeyspaceSetup, Lease, SetupPlan,
    },
    clock::Clock,
    finding::{Finding, Severity},
    ports::{ChangeRequest, ControlError, ControlPlane},
};
use quipu_core::{name::Namespace, policy::Incarnation};
use quipu_schemas::{cluster::DEFAULT_CLUSTER, namespace::NamespaceDocument};
use std::time::Duration;

pub(crate) const TOPIC: &str = "quipu-events";

pub(crate) fn plan() -> SetupPlan {
    SetupPlan {
        keyspace: KeyspaceSetup::Create,
        events_topic: TOPIC.to_owned(),
        event_partitions: 3,
        signal_partitions: 4,
        dataset: CassandraDataset::default(),
        first_namespace: FirstNamespace::Make,
    }
}

pub(crate) async fn control(cassandra: &Cassandra) -> CassandraControlPlane {
    let opened = cassandra.control(settings()).await;
    opened.expect("the control plane opens")
}

pub(crate) fn settings() -> ControlSettings {
    ControlSettings {
        cluster: DEFAULT_CLUSTER.to_owned(),
        claims: Claims::Here,
        events_topic: TOPIC.to_owned(),
        dataset: CassandraDataset::default(),
        cache_ttl: None,
        append_guard: Duration::from_secs(1),
    }
}

pub(crate) async fn set_up() -> (Cassandra, Keyspace) {
    let keyspace = Keyspace::make();
    let cassandra = keyspace.connect().await;
    cassandra.setup(&plan()).await.expect("set up");
    (cassandra, keyspace)
}

pub(crate) fn document(limit: u64) -> NamespaceDocument {
    NamespaceDocument {
        accept_limit: Duration::from_secs(limit),
        ..NamespaceDocument::with_defaults("a")
    }
}

#[tokio::test]
async fn setup_may_be_run_again_and_refuses_what_contradicts_it() {
    let (cassandra, _keep) = set_up().await;
    cassandra.setup(&plan()).await.expect("set up again");
    let control = control(&cassandra).await;
    let listed = control.list().await.expect("listed");
    let names: Vec<_> = listed
        .iter()
        .map(|record| record.document.namespace.as_str())
        .collect();
    assert_eq!(names, ["default"]);
    let signals = SetupPlan {
        signal_partitions: 5,
        ..plan()
    };
    let events = SetupPlan {
        event_partitions: 4,
        ..plan()
    };
    for other in [signals, events] {
        let refused = cassandra.setup(&other).await;
        assert!(
            matches!(refused, Err(CassandraError::Refused(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_change_by_one_process_is_in_effect_for_all_when_the_call_returns() {
    let (cassandra, keep) = set_up().await;
    let (here, there) = (
        control(&cassandra).await,
        control(&keep.connect().await).await,
    );
    let mut policies = there.policies();
    let granted = policies.borrow().valid_through();
    let record = here
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("made");
    assert_eq!(record.version, 1);
    assert!(
        record.effective_from > granted,
        "it comes after all that was granted"
    );
    assert!(record.effective_from <= Clock::system().now());
    // Whoever may evaluate at the change knows of it.
    let reaches = |book: &std::sync::Arc<quipu_core::policy::PolicyBook>| {
        book.valid_through() >= record.effective_from
    };
    let book = policies
        .wait_for(reaches)
        .await
        .expect("it goes on")
        .clone();
    let life = book.history("a").expect("known").at(record.effective_from);
    assert_eq!(
        life.map(Incarnation::created_at),
        Some(record.effective_from)
    );
    let again = there
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("nothing to change");
    assert_eq!(again, record);
    let changed = there
        .apply(document(3), ChangeRequest::default())
        .await
        .expect("changed");
    assert_eq!(changed.version, 2);
    assert_eq!(
        here.show(&Namespace::new("a").expect("valid"))
            .await
            .expect("shown"),
        changed
    );
}

#[tokio::test]
async fn racing_changes_all_happen_one_after_the_other() {
    let (cassandra, keep) = set_up().await;
    let (here, there) = (
        control(&cassandra).await,
        control(&keep.connect().await).await,
    );
    let (a, b, c) = tokio::join!(
        here.apply(document(9), ChangeRequest::default()),
        there.apply(document(8), ChangeRequest::default()),
        there.apply(
            NamespaceDocument::with_defaults("b"),
            ChangeRequest::default()
        ),
    );
    let (a, b, c) = (a.expect("made"), b.expect("made"), c.expect("made"));
    assert_ne!(a.effective_from, c.effective_from);
    assert_ne!(b.effective_from, c.effective_from);
    let shown = here.show(&Namespace::new("a").expect("valid")).await;
    assert_eq!(shown.expect("shown").version, 2);
}

#[tokio::test]
async fn a_namespace_made_again_is_another_one() {
    let (cassandra, _keep) = set_up().await;
    let control = control(&cassandra).await;
    let name = Namespace::new("a").expect("valid");
    control
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("made");
    control
        .delete(&name, ChangeRequest::default())
        .await
        .expect("deleted");
    let missing = control.delete(&name, ChangeRequest::default()).await;
    assert!(
        matches!(missing, Err(ControlError::NotFound(_))),
        "{missing:?}"
    );
    let missing = control.show(&name).await;
    assert!(
        matches!(missing, Err(ControlError::NotFound(_))),
        "{missing:?}"
    );
    let record = control
        .apply(document(9), ChangeRequest::default())
        .await
        .expect("made again");
    assert_eq!(record.version, 3, "no two versions of a name are alike");
    let book = control.policies().borrow().clone();
    let lives = book.history("a").expect("known").lives();
    let numbers: Vec<_> = lives.iter().map(|life| life.id().0).collect();
    assert_eq!(numbers.len(), 2);
    assert!(numbers[0] < numbers[1]);
}

#[tokio::test]
async fn new_partitions_begin_after_all_that_was_granted_and_stay_when_setup_is_run_again() {
    let (cassandra, _keep) = set_up().await;
    let control = control(&cassandra).await;
    let first = control.topics().borrow().partitions(TOPIC);
    assert_eq!(first.len(), 3);
    let granted = control.topics().borrow().valid_through();
    let all = control.add_partitions(TOPIC, 5).await.expect("registered");
    assert_eq!(all[..3], first);
    assert!(all[3..].iter().all(|new| new.effective_from > granted));
    assert_eq!(control.topics().borrow().partitions(TOPIC), all);
    // What is configured is what a new topic gets.
    cassandra.setup(&plan()).await.expect("set up again");
    assert_eq!(control.topics().borrow().partitions(TOPIC), all);
    for (topic, count) in [(TOPIC, 4), ("other", 9)] {
        let refused = control.add_partitions(topic, count).await;
        assert!(
            matches!(refused, Err(ControlError::Refused(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_lease_has_one_owner_until_it_is_given_back_or_ends() {
    let (cassandra, _keep) = set_up().await;
    let lease = || Lease::new(&cassandra, "sweep", Duration::from_secs(2));
    let (a, b) = (lease().await.expect("made"), lease().await.expect("made"));
    assert!(a.hold().await.expect("asked"));
    assert!(a.hold().await.expect("renewed"));
    assert!(!b.hold().await.expect("asked"));
    b.release().await.expect("it was not held");
    assert!(!b.hold().await.expect("asked"));
    a.release().await.expect("given back");
    assert!(b.hold().await.expect("asked"));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(a.hold().await.expect("the other's lease has ended"));
}

#[tokio::test]
async fn before_setup_nothing_is_settled_and_a_check_says_what_to_run() {
    let keyspace = Keyspace::make();
    let cassandra = keyspace.connect().await;
    let told = async || {
        assert_eq!(cassandra.settled().await.expect("asked"), None);
        let mut found = cassandra.check().await.expect("checked");
        found.retain(|finding| finding.severity == Severity::Unfit);
        assert_eq!(found.len(), 1, "{found:?}");
        found.pop().expect("one").to_string()
    };
    // Its tables are there, and what setup does last is not.
    let found = told().await;
    assert!(found.contains("was begun and did not end"), "{found}");
    assert!(found.ends_with("run `quipu admin setup` again"), "{found}");
    keyspace.run("DROP KEYSPACE {ks}").await;
    let found = told().await;
    assert!(found.contains("there is no keyspace"), "{found}");
    keyspace
        .run("CREATE KEYSPACE {ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .await;
    let found = told().await;
    assert!(found.contains("is there but has no tables"), "{found}");
}

#[tokio::test]
async fn a_check_names_what_is_missing_and_finds_no_problem_after_setup() {
    let (cassandra, keep) = set_up().await;
    let problems = |findings: Vec<Finding>| {
        let problems = findings
            .into_iter()
            .filter(|finding| finding.severity > Severity::Advice);
        problems
            .map(|finding| finding.to_string())
            .collect::<Vec<_>>()
    };
    let found = cassandra.check().await.expect("checked");
    assert_eq!(problems(found), Vec::<String>::new());
    keep.run("DROP TABLE {ks}.leases").await;
    keep.run("ALTER KEYSPACE {ks} WITH durable_writes = false")
        .await;
    let found = problems(cassandra.check().await.expect("checked"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("durable_writes = true"), "{found:?}");
    assert!(found[1].contains("leases is missing"), "{found:?}");
    let refused = keep.connect().await.rollups().await;
    let refused = refused.expect_err("a role must not start");
    assert!(refused.to_string().contains("durable_writes"), "{refused}");
}
