//! Turns, and the roles that tests share.

use super::{
    installation::{Addresses, Installation, Role},
    own_stack::OwnStack,
};
use crate::{http::Api, process::Server};
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// All roles, running. They end before what they are installed on.
pub(super) struct Cluster {
    pub(super) gateway: Server,
    pub(super) ingests: Vec<Role>,
    pub(super) workers: Vec<Role>,
    pub(super) installation: Installation,
}

impl Cluster {
    /// One of each role.
    pub(super) fn start(addresses: Addresses) -> Self {
        let installation = Installation::new(addresses, 4);
        installation.set_up();
        Self {
            gateway: installation.start_gateway(),
            ingests: vec![installation.start("ingest")],
            workers: vec![installation.start("rollup-worker")],
            installation,
        }
    }

    pub(super) fn api(&self) -> Api {
        Api::new(&self.gateway.http)
    }
}

/// What tests share, made by the first that asks for it.
struct Shared {
    cluster: Option<Cluster>,
    /// Where stores may be killed. The roles end before the stack.
    fragile: Option<(Cluster, OwnStack)>,
}

/// While this lives, no other test of the distributed roles does anything.
pub(super) struct Turn(MutexGuard<'static, Shared>);

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    cluster: None,
    fragile: None,
});
/// Tests that have a turn or wait for one.
static TESTS: AtomicUsize = AtomicUsize::new(0);

impl Turn {
    pub(super) fn take() -> Self {
        TESTS.fetch_add(1, Ordering::Relaxed);
        // A test that failed left nothing behind.
        Self(SHARED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The shared roles, as the test before left them.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        self.0
            .cluster
            .get_or_insert_with(|| Cluster::start(Addresses::shared()))
    }

    /// Roles on a stack of their own.
    pub(super) fn fragile(&mut self) -> &mut (Cluster, OwnStack) {
        self.0.fragile.get_or_insert_with(|| {
            let (stack, addresses) = OwnStack::start();
            (Cluster::start(addresses), stack)
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let is_last = TESTS.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last || thread::panicking() {
            self.0.cluster.take();
            self.0.fragile.take();
        }
    }
}
