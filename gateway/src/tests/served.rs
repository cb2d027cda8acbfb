//! Which cluster a call is for, and what becomes of calls for one that is away.

use crate::{
    Failure, Members, Served,
    call::MutationRequest,
    failure::reason,
    testing::{NS, TestServed, World},
};
use futures::future::{BoxFuture, FutureExt};
use quipu_adapters::{
    memory::{MemoryEventStore, MemoryRollupStore},
    ports::{ChangeRequest, ClusterError, ClusterRecord, Clusters, ControlPlane, StoreError},
};
use quipu_core::{event::Mutation, name::Namespace};
use quipu_schemas::{
    cluster::ClusterDocument,
    namespace::{Author, NamespaceDocument},
};
use std::sync::Arc;
use tonic::Code;

type TestMembers = Members<World, MemoryEventStore, MemoryRollupStore, World, World>;

/// Knows that `billing` is declared, and that `invoices` lives there.
#[derive(Debug)]
struct Declared;

fn billing() -> ClusterDocument {
    let json = br#"{"cluster": "billing", "kafka": {"topic_prefix": "b-"},
        "cassandra": {"keyspace": "b"}}"#;
    ClusterDocument::from_json(json).unwrap()
}

impl Clusters for Declared {
    fn declare(
        &self,
        document: ClusterDocument,
        request: ChangeRequest,
    ) -> BoxFuture<'_, Result<ClusterRecord, ClusterError>> {
        let record = ClusterRecord {
            document,
            version: 1,
            changed_at: crate::testing::START,
            author: request.author,
        };
        async { Ok(record) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ClusterRecord>, StoreError>> {
        let record = ClusterRecord {
            document: billing(),
            version: 1,
            changed_at: crate::testing::START,
            author: Author::default(),
        };
        async { Ok(vec![record]) }.boxed()
    }

    fn home<'a>(
        &'a self,
        name: &'a Namespace,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        async { Ok((name.as_str() == "invoices").then(|| "billing".to_owned())) }.boxed()
    }
}

/// The cluster `default` with the namespace of all tests, and `billing` with `invoices`.
fn two() -> (World, World, TestServed, TestMembers) {
    let (home, billing) = (World::new(), World::named("invoices"));
    let (served, members) = Served::new(home.gateway(), Arc::new(Declared), 2);
    members.joined("billing", billing.gateway());
    (home, billing, served, members)
}

async fn add(served: &TestServed, namespace: &str) -> Result<(), Failure> {
    let request = MutationRequest {
        counter_name: "a",
        mutation: Mutation::Add(1),
        token: None,
        item_key: "",
    };
    let gateway = served.of(namespace).await?;
    gateway.mutate(namespace, request).await.map(drop)
}

fn document(name: &str, cluster: &str) -> NamespaceDocument {
    let json = format!(
        r#"{{"namespace": "{name}", "persistence": [{{"id": "CACHE",
            "physical_storage": {{"type": "REDIS", "cluster": "{cluster}"}}}}]}}"#
    );
    NamespaceDocument::from_json(json.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_call_goes_to_the_cluster_of_its_namespace_and_to_no_other() {
    let (home, billing, served, _members) = two();
    add(&served, NS).await.unwrap();
    add(&served, "invoices").await.unwrap();
    add(&served, "invoices").await.unwrap();
    assert_eq!(home.appended_events().len(), 1);
    let appended = billing.appended_events();
    assert_eq!(appended.len(), 2);
    assert!(
        appended
            .iter()
            .all(|event| event.namespace.as_str() == "invoices")
    );
    let unknown = add(&served, "nowhere").await.unwrap_err();
    assert_eq!(unknown.reason, reason::UNKNOWN_NAMESPACE);
}

#[tokio::test]
async fn a_cluster_that_is_away_concerns_its_own_namespaces_only() {
    let (home, _billing, served, members) = two();
    members.away("billing", "no broker answers".to_owned());
    add(&served, NS).await.unwrap();
    assert_eq!(home.appended_events().len(), 1);
    let failure = add(&served, "invoices").await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    assert_eq!(failure.reason, reason::CLUSTER_UNAVAILABLE);
    assert!(failure.message.contains("no broker answers"), "{failure:?}");
    let unknown = add(&served, "nowhere").await.unwrap_err();
    assert_eq!(unknown.reason, reason::UNKNOWN_NAMESPACE);
    let all = served.list_namespaces().await.unwrap();
    assert!(all.is_incomplete);
    assert_eq!(all.records.len(), 1);
}

#[tokio::test]
async fn one_cluster_takes_no_more_than_its_share_of_calls() {
    let (_home, _billing, served, _members) = two();
    let held = [
        served.of("invoices").await.unwrap(),
        served.of("invoices").await.unwrap(),
    ];
    let refused = served.of("invoices").await.err().unwrap();
    assert_eq!(refused.reason, reason::OVERLOADED);
    add(&served, NS).await.unwrap();
    drop(held);
    add(&served, "invoices").await.unwrap();
}

#[tokio::test]
async fn a_namespace_is_made_where_its_document_says_and_is_not_moved() {
    let (_home, billing, served, _members) = two();
    let by = ChangeRequest::default;
    let all = served.list_namespaces().await.unwrap();
    let names: Vec<_> = all
        .records
        .iter()
        .map(|it| it.document.namespace.as_str())
        .collect();
    assert_eq!((names, all.is_incomplete), (vec![NS, "invoices"], false));
    for (name, cluster) in [
        (NS, "billing"),
        ("invoices", "default"),
        ("invoices", "other"),
    ] {
        let refused = served
            .apply_namespace(name, document(name, cluster), by())
            .await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason, reason::NAMESPACE_REFUSED, "{refused:?}");
        assert!(
            refused.message.contains("lives in the cluster"),
            "{refused:?}"
        );
    }
    billing.allow_persistence();
    let made = served
        .apply_namespace("bills", document("bills", "billing"), by())
        .await;
    assert_eq!(made.unwrap().document.namespace, "bills");
    let bills = Namespace::new("bills").unwrap();
    assert!(billing.show(&bills).await.is_ok());
    let refused = served
        .apply_namespace("x", document("x", "other"), by())
        .await;
    assert_eq!(refused.unwrap_err().reason, reason::NAMESPACE_REFUSED);
}

#[tokio::test]
async fn a_cluster_that_was_just_declared_elsewhere_is_waited_for() {
    let world = World::new();
    let (served, _members) = Served::new(world.gateway(), Arc::new(Declared), 2);
    let by = ChangeRequest::default();
    let failure = served
        .apply_namespace("bills", document("bills", "billing"), by)
        .await;
    assert_eq!(failure.unwrap_err().reason, reason::CLUSTER_UNAVAILABLE);
}

#[tokio::test]
async fn a_declaration_has_the_name_of_its_path() {
    let (_home, _billing, served, _members) = two();
    let by = ChangeRequest::default;
    assert_eq!(
        served
            .declare_cluster("billing", billing(), by())
            .await
            .unwrap()
            .version,
        1
    );
    for name in ["default", "B", "other"] {
        let refused = served
            .declare_cluster(name, billing(), by())
            .await
            .unwrap_err();
        let told = (refused.reason, refused.field.as_deref());
        assert_eq!(told, (reason::INVALID_FIELD, Some("cluster")), "{name}");
    }
    let shown = served.show_cluster("billing").await.unwrap();
    assert_eq!(shown.document, billing());
    for name in ["default", "other"] {
        let missing = served.show_cluster(name).await.unwrap_err();
        assert_eq!(missing.reason, reason::UNKNOWN_CLUSTER);
    }
}

#[tokio::test]
async fn a_server_of_one_process_declares_nothing() {
    let served = World::new().served();
    let refused = served
        .declare_cluster("billing", billing(), ChangeRequest::default())
        .await;
    assert_eq!(refused.unwrap_err().reason, reason::CLUSTER_REFUSED);
    assert_eq!(served.list_clusters().await.unwrap(), []);
}
