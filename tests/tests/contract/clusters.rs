//! Declared clusters, and where namespaces live, where several processes share the control plane.

use crate::{
    cassandra::Keyspace,
    control::{control, plan, set_up, settings},
};
use quipu_adapters::{
    cassandra::{
        Cassandra, CassandraClusters, CassandraControlPlane, Claims, ControlSettings,
        FirstNamespace, SetupPlan,
    },
    config::Config,
    ports::{ChangeRequest, ClusterError, Clusters, ControlError, ControlPlane},
};
use quipu_core::name::Namespace;
use quipu_schemas::{
    cluster::ClusterDocument,
    namespace::{Author, NamespaceDocument},
};

fn document(name: &str, keyspace: &str, more: &str) -> ClusterDocument {
    let json = format!(
        r#"{{"cluster": "{name}", "kafka": {{"topic_prefix": "{name}-"}},
            "cassandra": {{"keyspace": "{keyspace}"}}{more}}}"#
    );
    ClusterDocument::from_json(json.as_bytes()).expect("a document")
}

async fn clusters(cassandra: &Cassandra) -> CassandraClusters {
    let opened = cassandra.clusters(Config::default()).await;
    opened.expect("the declarations open")
}

fn at(if_version: u64) -> ChangeRequest {
    ChangeRequest {
        author: Author::new("ana").expect("valid"),
        if_version: Some(if_version),
    }
}

#[tokio::test]
async fn a_declaration_is_kept_and_changed_for_its_version_and_others_must_not_share_with_it() {
    let (cassandra, keep) = set_up().await;
    let (here, there) = (
        clusters(&cassandra).await,
        clusters(&keep.connect().await).await,
    );
    assert_eq!(here.list().await.expect("told"), []);
    let billing = document("billing", "quipu_billing", "");
    let made = here
        .declare(billing.clone(), at(0))
        .await
        .expect("declared");
    assert_eq!((made.version, made.author.as_str()), (1, "ana"));
    assert_eq!(
        there.list().await.expect("told"),
        std::slice::from_ref(&made)
    );
    let again = there.declare(billing.clone(), at(0)).await;
    assert_eq!(again.expect("it is in force already"), made);

    let longer = document("billing", "quipu_billing", r#", "redis": {"database": 2}"#);
    let (a, b) = tokio::join!(
        here.declare(longer.clone(), at(1)),
        there.declare(
            document("billing", "quipu_billing", r#", "redis": {"tls": false}"#),
            at(1)
        ),
    );
    assert_eq!(u8::from(a.is_ok()) + u8::from(b.is_ok()), 1, "{a:?} {b:?}");
    let lost = if a.is_ok() { b } else { a };
    assert!(
        matches!(
            lost,
            Err(ClusterError::VersionMoved {
                expected: 1,
                in_force: 2,
                ..
            })
        ),
        "{lost:?}"
    );
    for refused in [
        document("billing", "elsewhere", ""),
        document("other", "quipu_billing", ""),
        document("other", "quipu", ""),
    ] {
        let told = there.declare(refused, ChangeRequest::default()).await;
        let Err(ClusterError::Refused(told)) = told else {
            panic!("{told:?}");
        };
        assert!(
            told.starts_with("cassandra.keyspace: ") || told.starts_with("redis."),
            "{told}"
        );
    }
}

#[tokio::test]
async fn of_two_that_declare_one_keyspace_at_once_one_wins() {
    let (cassandra, keep) = set_up().await;
    let (here, there) = (
        clusters(&cassandra).await,
        clusters(&keep.connect().await).await,
    );
    let (a, b) = tokio::join!(
        here.declare(document("a", "shared", ""), ChangeRequest::default()),
        there.declare(document("b", "shared", ""), ChangeRequest::default()),
    );
    assert_eq!(u8::from(a.is_ok()) + u8::from(b.is_ok()), 1, "{a:?} {b:?}");
    assert_eq!(here.list().await.expect("told").len(), 1);
}

/// A declared cluster with a keyspace of its own, whose names are claimed in the default one's.
async fn other(homes: &CassandraClusters) -> (CassandraControlPlane, Keyspace) {
    let keyspace = Keyspace::make();
    let cassandra = keyspace.connect().await;
    let plan = SetupPlan {
        first_namespace: FirstNamespace::Leave,
        ..plan()
    };
    cassandra.setup(&plan).await.expect("set up");
    let settings = ControlSettings {
        cluster: "billing".to_owned(),
        claims: Claims::In(homes.homes().clone()),
        ..settings()
    };
    let opened = cassandra.control(settings).await;
    (opened.expect("the control plane opens"), keyspace)
}

fn in_cluster(name: &str, cluster: &str) -> NamespaceDocument {
    let json = format!(
        r#"{{"namespace": "{name}", "persistence": [{{"id": "CACHE",
            "physical_storage": {{"type": "REDIS", "cluster": "{cluster}"}}}}]}}"#
    );
    NamespaceDocument::from_json(json.as_bytes()).expect("a document")
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T, ControlError>, says: &str) {
    let Err(ControlError::Refused(told)) = answer else {
        panic!("{answer:?}");
    };
    assert!(told.contains(says), "{told}");
}

#[tokio::test]
async fn a_name_lives_in_one_cluster_for_all_its_lives() {
    let (cassandra, keep) = set_up().await;
    let (home, homes) = (control(&cassandra).await, clusters(&cassandra).await);
    let (billing, _keep) = other(&homes).await;
    assert_eq!(
        billing.list().await.expect("told"),
        [],
        "it has no namespace default"
    );
    let here = |name: &str| NamespaceDocument::with_defaults(name);
    let by = ChangeRequest::default;
    let name = |name: &str| Namespace::new(name).expect("valid");

    // The default cluster's own first namespace is older than claims.
    assert_eq!(homes.home(&name("default")).await.expect("told"), None);
    let taken = billing.apply(in_cluster("default", "billing"), by()).await;
    assert_refused(taken, "belongs to the cluster default");

    billing
        .apply(in_cluster("b", "billing"), by())
        .await
        .expect("made");
    home.apply(here("a"), by()).await.expect("made");
    for (of, cluster) in [("a", "default"), ("b", "billing")] {
        let found = homes.home(&name(of)).await.expect("told");
        assert_eq!(found.as_deref(), Some(cluster));
    }
    assert_refused(
        home.apply(here("b"), by()).await,
        "belongs to the cluster billing",
    );
    let taken = billing.apply(in_cluster("a", "billing"), by()).await;
    assert_refused(taken, "belongs to the cluster default");
    let elsewhere = home.apply(in_cluster("c", "other"), by()).await;
    assert_refused(elsewhere, "there is no cluster");

    billing.delete(&name("b"), by()).await.expect("deleted");
    assert_refused(home.apply(here("b"), by()).await, "also when it is deleted");
    let again = billing.apply(in_cluster("b", "billing"), by()).await;
    assert_eq!(again.expect("made again").version, 3);

    // As if a gateway had ended between the claim and the creation.
    keep.run("INSERT INTO {ks}.homes (namespace, cluster) VALUES ('cut', 'billing') IF NOT EXISTS")
        .await;
    assert_refused(
        home.apply(here("cut"), by()).await,
        "belongs to the cluster billing",
    );
    let finished = billing.apply(in_cluster("cut", "billing"), by()).await;
    assert_eq!(finished.expect("made").version, 1);

    // What is refused anyway claims nothing.
    assert!(
        billing
            .apply(in_cluster("free", "billing"), at(7))
            .await
            .is_err()
    );
    let too_short = NamespaceDocument {
        accept_limit: std::time::Duration::from_millis(1),
        ..in_cluster("free", "billing")
    };
    assert!(billing.apply(too_short, by()).await.is_err());
    assert_eq!(homes.home(&name("free")).await.expect("told"), None);
}

#[tokio::test]
async fn of_two_clusters_that_make_one_name_at_once_one_wins() {
    let (cassandra, _keep) = set_up().await;
    let (home, homes) = (control(&cassandra).await, clusters(&cassandra).await);
    let (billing, _keep) = other(&homes).await;
    let (a, b) = tokio::join!(
        home.apply(
            NamespaceDocument::with_defaults("a"),
            ChangeRequest::default()
        ),
        billing.apply(in_cluster("a", "billing"), ChangeRequest::default()),
    );
    assert_eq!(u8::from(a.is_ok()) + u8::from(b.is_ok()), 1, "{a:?} {b:?}");
}

#[tokio::test]
async fn setup_adds_the_tables_that_a_keyspace_of_an_older_version_lacks() {
    let (cassandra, keep) = set_up().await;
    keep.run("DROP TABLE {ks}.clusters").await;
    keep.run("DROP TABLE {ks}.homes").await;
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
    let cassandra = keep.connect().await;
    let (control, clusters) = (control(&cassandra).await, clusters(&cassandra).await);
    assert_eq!(clusters.list().await.expect("told"), []);
    let made = control.apply(
        NamespaceDocument::with_defaults("a"),
        ChangeRequest::default(),
    );
    made.await.expect("made");
}
