//! The clusters that this process serves: which one a call is for, and that none takes the room of
//! the others. A name lives in one cluster only, so whichever knows it is the right one.

use crate::{
    failure::{Failure, reason},
    gateway::Gateway,
    names,
};
use ::metrics::{counter, gauge};
use quipu_adapters::ports::{
    Cache, Clusters, ControlPlane, EventStore, OneCluster, Producer, RollupStore,
};
use quipu_core::name::Namespace;
use quipu_schemas::cluster::DEFAULT_CLUSTER;
use std::{collections::BTreeMap, ops::Deref, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// All clusters of a process: a gateway of each.
pub struct Served<L, E, R, C, P> {
    /// That of the cluster `default`.
    pub(crate) home: Arc<Gateway<L, E, R, C, P>>,
    pub(crate) declared: Arc<dyn Clusters>,
    home_room: Arc<Semaphore>,
    others: watch::Receiver<Known<L, E, R, C, P>>,
}

/// The declared clusters, by name.
type Others<L, E, R, C, P> = BTreeMap<String, Other<L, E, R, C, P>>;
type Known<L, E, R, C, P> = Arc<Others<L, E, R, C, P>>;
type Gateways<L, E, R, C, P> = Vec<Arc<Gateway<L, E, R, C, P>>>;

struct Other<L, E, R, C, P> {
    state: State<L, E, R, C, P>,
    room: Arc<Semaphore>,
}

enum State<L, E, R, C, P> {
    Joined(Arc<Gateway<L, E, R, C, P>>),
    /// And why.
    Away(String),
}

impl<L, E, R, C, P> Clone for Other<L, E, R, C, P> {
    fn clone(&self) -> Self {
        Self {
            state: match &self.state {
                State::Joined(gateway) => State::Joined(Arc::clone(gateway)),
                State::Away(why) => State::Away(why.clone()),
            },
            room: Arc::clone(&self.room),
        }
    }
}

/// Tells which declared clusters there are, and how they are.
pub struct Members<L, E, R, C, P> {
    others: watch::Sender<Known<L, E, R, C, P>>,
    most_calls: usize,
}

impl<L, E, R, C, P> Members<L, E, R, C, P> {
    /// A cluster's calls are answered by this from now on.
    pub fn joined(&self, cluster: &str, gateway: Arc<Gateway<L, E, R, C, P>>) {
        self.set(cluster, State::Joined(gateway));
    }

    /// A cluster's calls cannot be answered for now, and why.
    pub fn away(&self, cluster: &str, why: String) {
        self.set(cluster, State::Away(why));
    }

    fn set(&self, cluster: &str, state: State<L, E, R, C, P>) {
        let mut others = Others::clone(&self.others.borrow());
        let room = others.remove(cluster).map(|known| known.room);
        let room = room.unwrap_or_else(|| Arc::new(Semaphore::new(self.most_calls)));
        others.insert(cluster.to_owned(), Other { state, room });
        let is_joined = |other: &&Other<_, _, _, _, _>| matches!(other.state, State::Joined(_));
        let joined = others.values().filter(is_joined).count();
        for (label, count) in [("joined", joined), ("away", others.len() - joined)] {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            gauge!(names::CLUSTERS, "state" => label).set(f64::from(count));
        }
        self.others.send_replace(Arc::new(others));
    }
}

/// The gateway that answers a call, and the call's place among those of its cluster.
pub(crate) struct Chosen<L, E, R, C, P> {
    gateway: Arc<Gateway<L, E, R, C, P>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<L, E, R, C, P> Deref for Chosen<L, E, R, C, P> {
    type Target = Gateway<L, E, R, C, P>;

    fn deref(&self) -> &Self::Target {
        &self.gateway
    }
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Served<L, E, R, C, P> {
    /// The cluster `default`, and those that the second part tells of. As soon as there are several,
    /// one has at most `most_calls` under way, so that one that does not answer leaves room.
    pub fn new(
        home: Arc<Gateway<L, E, R, C, P>>,
        declared: Arc<dyn Clusters>,
        most_calls: usize,
    ) -> (Self, Members<L, E, R, C, P>) {
        let most_calls = most_calls.max(1);
        let (others, known) = watch::channel(Arc::default());
        let served = Self {
            home,
            declared,
            home_room: Arc::new(Semaphore::new(most_calls)),
            others: known,
        };
        (served, Members { others, most_calls })
    }

    /// The cluster `default` alone, for a server that has no other.
    pub fn alone(home: Arc<Gateway<L, E, R, C, P>>) -> Self {
        Self::new(home, Arc::new(OneCluster), Semaphore::MAX_PERMITS).0
    }

    fn others(&self) -> Known<L, E, R, C, P> {
        Arc::clone(&self.others.borrow())
    }

    /// The gateway for calls of a namespace. Where nobody knows it, that of `default`, which says so.
    pub(crate) async fn of(&self, namespace: &str) -> Result<Chosen<L, E, R, C, P>, Failure> {
        if self.others.borrow().is_empty() {
            return Ok(Chosen {
                gateway: Arc::clone(&self.home),
                _place: None,
            });
        }
        let others = self.others();
        if self.home.knows(namespace) {
            return self.at_home();
        }
        let mut is_one_away = false;
        for other in others.values() {
            match &other.state {
                State::Joined(gateway) if gateway.knows(namespace) => return other.choose(gateway),
                State::Joined(_) => {}
                State::Away(_) => is_one_away = true,
            }
        }
        // It may live where nobody here can look.
        let Some(name) = Namespace::new(namespace).ok().filter(|_| is_one_away) else {
            return self.at_home();
        };
        let cluster = self.declared.home(&name).await?;
        match cluster.and_then(|cluster| others.get_key_value(&cluster)) {
            Some((cluster, other)) => match &other.state {
                State::Joined(gateway) => other.choose(gateway),
                State::Away(why) => Err(Failure::cluster_unavailable(cluster, why)),
            },
            None => self.at_home(),
        }
    }

    fn at_home(&self) -> Result<Chosen<L, E, R, C, P>, Failure> {
        choose(&self.home, &self.home_room)
    }

    /// The cluster that is known to have a namespace.
    pub(crate) fn cluster_of(&self, namespace: &str) -> Option<String> {
        if self.home.knows(namespace) {
            return Some(DEFAULT_CLUSTER.to_owned());
        }
        let others = self.others();
        let found = others.iter().find(
            |(_, other)| matches!(&other.state, State::Joined(gateway) if gateway.knows(namespace)),
        );
        found.map(|(cluster, _)| cluster.clone())
    }

    /// The gateway of a cluster that a document names. Of one that nobody declared, that of
    /// `default`, which refuses the document.
    pub(crate) async fn cluster(
        &self,
        cluster: &str,
    ) -> Result<Arc<Gateway<L, E, R, C, P>>, Failure> {
        if cluster == DEFAULT_CLUSTER {
            return Ok(Arc::clone(&self.home));
        }
        let others = self.others();
        match others.get(cluster).map(|other| &other.state) {
            Some(State::Joined(gateway)) => return Ok(Arc::clone(gateway)),
            Some(State::Away(why)) => return Err(Failure::cluster_unavailable(cluster, why)),
            None => {}
        }
        // Another gateway may have declared it a moment ago.
        let declared = self.declared.list().await?;
        if declared.iter().any(|it| it.document.cluster == cluster) {
            let why = "it was just declared";
            return Err(Failure::cluster_unavailable(cluster, why));
        }
        Ok(Arc::clone(&self.home))
    }

    /// The gateways that have joined their clusters, and whether any is away.
    pub(crate) fn joined(&self) -> (Gateways<L, E, R, C, P>, bool) {
        let others = self.others();
        let joined = others.values().filter_map(|other| match &other.state {
            State::Joined(gateway) => Some(Arc::clone(gateway)),
            State::Away(_) => None,
        });
        let all = [Arc::clone(&self.home)].into_iter().chain(joined);
        let all: Vec<_> = all.collect();
        let is_one_away = all.len() <= others.len();
        (all, is_one_away)
    }
}

impl<L, E, R, C, P> Other<L, E, R, C, P> {
    fn choose(
        &self,
        gateway: &Arc<Gateway<L, E, R, C, P>>,
    ) -> Result<Chosen<L, E, R, C, P>, Failure> {
        choose(gateway, &self.room)
    }
}

fn choose<L, E, R, C, P>(
    gateway: &Arc<Gateway<L, E, R, C, P>>,
    room: &Arc<Semaphore>,
) -> Result<Chosen<L, E, R, C, P>, Failure> {
    let Ok(place) = Arc::clone(room).try_acquire_owned() else {
        counter!(names::OVERLOADED).increment(1);
        return Err(Failure::overloaded());
    };
    Ok(Chosen {
        gateway: Arc::clone(gateway),
        _place: Some(place),
    })
}

impl Failure {
    pub(crate) fn cluster_unavailable(cluster: &str, why: &str) -> Self {
        let message = format!(
            "the cluster {cluster} is not joined yet: {why}; this call wrote nothing: retry with \
             the same token"
        );
        Self::unavailable(reason::CLUSTER_UNAVAILABLE, message)
    }
}
