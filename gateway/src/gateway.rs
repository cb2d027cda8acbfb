//! The gateway's state, and what every call begins with.

use crate::{
    accurate::ScanBounds,
    failure::Failure,
    machine::{self, Life, Moment},
    metrics::Meters,
    quota::Quotas,
    signals::{self, Signals},
};
use quipu_adapters::{
    clock::Clock,
    ports::{BestEffort, Cache, ControlPlane, EventStore, Producer, RollupStore},
    watermarks::WatermarkBoard,
};
use quipu_core::{
    event::CounterKey,
    name::{CounterName, Namespace},
    policy::PolicyBook,
    time::Micros,
};
use quipu_schemas::timestamp::to_rfc3339;
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, watch};

/// What the gateway talks to.
#[derive(Clone, Debug)]
pub struct Ports<L, E, R, C, P> {
    /// The log that mutations and signals are appended to.
    pub log: L,
    /// Where identities are looked up.
    pub events: E,
    /// Where checkpoints are read that the cache does not have.
    pub rollups: R,
    /// Where checkpoints are read first.
    pub cache: C,
    /// What counts for namespaces that keep no events.
    pub best_effort: Arc<dyn BestEffort>,
    /// Where namespaces are kept.
    pub control: P,
}

/// The gateway's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How far a record's effective time may be after its append time, at most (R7). Zero for a
    /// log that returns the effective time itself.
    pub append_guard: Duration,
    /// How much one accurate read may scan.
    pub scan: ScanBounds,
}

/// How many streams of adds are open at the same time, at most: what each may hold is bounded, too.
pub(crate) const MAX_ADD_STREAMS: usize = 256;

/// Answers calls. Shared by all transports.
pub struct Gateway<L, E, R, C, P> {
    pub(crate) ports: Ports<L, E, R, C, P>,
    pub(crate) board: WatermarkBoard,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) signals: Signals,
    pub(crate) meters: Meters,
    pub(crate) quotas: Quotas,
    /// Room for streams of adds.
    pub(crate) add_streams: Arc<Semaphore>,
    policies: watch::Receiver<Arc<PolicyBook>>,
}

/// What a call knows when it begins. It is taken before anything is read, so that nothing which
/// closes meanwhile is taken for closed before the read.
pub(crate) struct View {
    pub(crate) namespace: Namespace,
    pub(crate) life: Life,
    pub(crate) moment: Moment,
}

impl View {
    /// How far the namespace was closed when the call began.
    pub(crate) fn closed(&self) -> Micros {
        machine::closed(&self.life, self.moment)
    }

    /// A counter of the namespace, in the terms of storage.
    pub(crate) fn counter(&self, name: &str) -> Result<CounterKey, Failure> {
        Ok(CounterKey {
            namespace: self.life.id(),
            name: CounterName::new(name)?,
        })
    }
}

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Gateway<L, E, R, C, P> {
    /// A gateway, and the future that publishes its signals: spawn it. It ends once the gateway
    /// is dropped.
    pub fn new(
        ports: Ports<L, E, R, C, P>,
        board: WatermarkBoard,
        clock: Clock,
        settings: Settings,
    ) -> (
        Self,
        impl Future<Output = ()> + Send + 'static + use<L, E, R, C, P>,
    ) {
        let (signals, queued) = signals::channel();
        let publish = signals::publish(ports.log.clone(), queued);
        let policies = ports.control.policies();
        let meters = Meters::default();
        (
            Self {
                ports,
                board,
                clock,
                settings,
                signals,
                meters,
                quotas: Quotas::default(),
                add_streams: Arc::new(Semaphore::new(MAX_ADD_STREAMS)),
                policies,
            },
            publish,
        )
    }

    /// Whether calls can be answered; otherwise why not.
    pub fn ready(&self) -> Result<(), String> {
        let (moment, valid_through) = (self.moment(), self.book().valid_through());
        if moment.effective > valid_through {
            return Err(format!(
                "the policy is known through {} only",
                to_rfc3339(valid_through)
            ));
        }
        if moment.low == Micros::MIN {
            return Err("no watermark is known yet".to_owned());
        }
        Ok(())
    }

    /// Whether a name lives here, or did.
    pub(crate) fn knows(&self, namespace: &str) -> bool {
        self.policies.borrow().history(namespace).is_some()
    }

    /// The policy as it is now.
    pub(crate) fn book(&self) -> Arc<PolicyBook> {
        Arc::clone(&self.policies.borrow())
    }

    pub(crate) fn view(&self, namespace: &str) -> Result<View, Failure> {
        let namespace = Namespace::new(namespace)?;
        // In this order: the book then has every change that was in effect at the watermark, so
        // that nothing is taken for closed by limits that no longer hold.
        let moment = self.moment();
        let book = self.book();
        let moment = moment.at_least(&book);
        let life = machine::find(&book, namespace.as_str(), moment)
            .map_err(|why| Failure::no_namespace(namespace.as_str(), why))?;
        Ok(View {
            namespace,
            life,
            moment,
        })
    }

    fn moment(&self) -> Moment {
        Moment::new(self.clock.now(), self.board.low())
    }
}
