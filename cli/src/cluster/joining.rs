//! A gateway joins every cluster that is declared, also while it runs. One that is away, or not set
//! up yet, is tried again for ever, and concerns no other.

use super::{
    connect::Cluster,
    declared::Target,
    gated::Gated,
    gateway::{OfCluster, of_cluster},
};
use crate::{
    commands::exit::Failed,
    process::{readiness::Readiness, threads::Threads},
};
use futures::{StreamExt, join, stream::FuturesUnordered};
use quipu_adapters::{
    cassandra::{CassandraClusters, CassandraEventStore, CassandraRollupStore, Homes},
    config::Config,
    kafka::KafkaProducer,
    metered::{MeteredCache, MeteredEvents, MeteredRollups},
    ports::Clusters,
    redis::RedisCache,
    retry::Backoff,
};
use quipu_schemas::cluster::ClusterDocument;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};

/// A declaration, as it changes.
type Documents = watch::Receiver<ClusterDocument>;

/// A declaration is known within about this long.
const EVERY: Duration = Duration::from_secs(1);

type Members = quipu_gateway::Members<
    KafkaProducer,
    MeteredEvents<CassandraEventStore>,
    MeteredRollups<CassandraRollupStore>,
    MeteredCache<RedisCache>,
    Gated,
>;

/// Follows the declarations for ever, on the task that polls this.
pub(super) async fn follow(clusters: CassandraClusters, own: Config, members: Members) {
    let (found, mut new) = mpsc::channel(1);
    let joining = async {
        let mut stays = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(documents) = new.recv() => {
                    stays.push(stay(&own, clusters.homes(), documents, &members));
                }
                Some(()) = stays.next() => {}
                else => return,
            }
        }
    };
    join!(look(&clusters, found, &members), joining);
}

/// Tells of each cluster once it is declared, and of its declaration whenever that changes.
async fn look(clusters: &CassandraClusters, found: mpsc::Sender<Documents>, members: &Members) {
    let mut known: BTreeMap<String, watch::Sender<ClusterDocument>> = BTreeMap::new();
    let mut is_failing = false;
    loop {
        match clusters.list().await {
            Ok(records) => {
                is_failing = false;
                for document in records.into_iter().map(|record| record.document) {
                    let name = document.cluster.clone();
                    if let Some(declared) = known.get(&name) {
                        declared.send_if_modified(|before| {
                            let is_new = *before != document;
                            *before = document;
                            is_new
                        });
                        continue;
                    }
                    members.away(&name, "it was just declared".to_owned());
                    let (declared, documents) = watch::channel(document);
                    if found.send(documents).await.is_err() {
                        return;
                    }
                    known.insert(name, declared);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot read which clusters are declared");
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Joins a cluster, and joins it again whenever its declaration changes or its follower fails.
async fn stay(own: &Config, homes: &Homes, mut documents: Documents, members: &Members) {
    let mut backoff = Backoff::new("join a declared cluster");
    loop {
        let document = documents.borrow_and_update().clone();
        let (target, name) = (Target::of(own, &document, homes.clone()), &document.cluster);
        let (gateway, mut roles) = match join(&target).await {
            Ok(joined) => joined,
            Err(failed) => {
                let why = failed.message().to_owned();
                backoff.failed(&format!("{name}: {why}"));
                members.away(name, why);
                tokio::select! {
                    () = tokio::time::sleep(backoff.last_pause()) => {}
                    changed = documents.changed() => if changed.is_err() { return },
                }
                continue;
            }
        };
        backoff.succeeded();
        members.joined(name, Arc::new(gateway));
        tracing::info!(cluster = name, "joined a declared cluster");
        let why = tokio::select! {
            failure = roles.failed() => failure.to_string(),
            changed = documents.changed() => match changed {
                Ok(()) => "its declaration changed".to_owned(),
                Err(_) => return,
            },
        };
        tracing::warn!(cluster = name, why, "joining a declared cluster again");
        members.away(name, why);
        if let Err(error) = roles.stop().await {
            tracing::warn!(cluster = name, %error, "a role of a declared cluster failed");
        }
    }
}

async fn join(target: &Target) -> Result<(OfCluster, Threads), Failed> {
    target.config.check()?;
    let cluster = Cluster::join(target).await?;
    let mut roles = Threads::new(Readiness::starting());
    let gateway = of_cluster(&cluster, &target.config, &mut roles)?;
    Ok((gateway, roles))
}
