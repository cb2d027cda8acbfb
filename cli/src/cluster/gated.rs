//! The policy for roles that close windows: never further in effective time than they know the
//! partitions of the log. Otherwise a role that slept through a registration could close past a
//! partition for a moment, because it heard of newer policy first (R12).

use quipu_adapters::{
    cassandra::{CassandraControlPlane, Topics},
    ports::{ChangeRequest, ControlError, ControlPlane, NamespaceRecord, NamespaceVersion},
    watermarks::WatermarkBoard,
};
use quipu_core::{name::Namespace, policy::PolicyBook, time::Micros};
use quipu_schemas::namespace::NamespaceDocument;
use std::sync::Arc;
use tokio::sync::watch;

type Policies = watch::Receiver<Arc<PolicyBook>>;

/// A control plane whose policy waits for the partitions.
#[derive(Clone)]
pub(super) struct Gated {
    control: CassandraControlPlane,
    policies: Policies,
}

/// What is known of the partitions, and through which effective time.
struct Known {
    partitions: Vec<(u32, Micros)>,
    valid_through: Micros,
}

impl Known {
    fn of(topics: &Topics, topic: &str) -> Self {
        let partitions = topics.partitions(topic).into_iter();
        let partitions =
            partitions.map(|partition| (partition.partition, partition.effective_from));
        Self {
            partitions: partitions.collect(),
            valid_through: topics.valid_through(),
        }
    }
}

impl Gated {
    /// Registers partitions on the board as they become known, and passes policy on after that.
    pub(super) fn new(
        control: CassandraControlPlane,
        topic: String,
        board: WatermarkBoard,
    ) -> Self {
        let (mut topics, policies) = (control.topics(), control.policies());
        let (sender, gated) = watch::channel(Arc::default());
        let pass = move |topics: &mut watch::Receiver<Arc<Topics>>| {
            let known = Known::of(&topics.borrow_and_update(), &topic);
            pass_on(known, &policies.borrow(), &board, &sender);
        };
        pass(&mut topics);
        tokio::spawn(async move {
            while topics.changed().await.is_ok() {
                pass(&mut topics);
            }
        });
        Self {
            control,
            policies: gated,
        }
    }
}

fn pass_on(
    known: Known,
    book: &Arc<PolicyBook>,
    board: &WatermarkBoard,
    sender: &watch::Sender<Arc<PolicyBook>>,
) {
    board.register(known.partitions);
    // Newer partitions are on their way then, and bring this book along.
    if book.valid_through() <= known.valid_through {
        sender.send_replace(Arc::clone(book));
    }
}

impl ControlPlane for Gated {
    fn policies(&self) -> Policies {
        self.policies.clone()
    }

    async fn apply(
        &self,
        document: NamespaceDocument,
        request: ChangeRequest,
    ) -> Result<NamespaceRecord, ControlError> {
        self.control.apply(document, request).await
    }

    async fn delete(&self, name: &Namespace, request: ChangeRequest) -> Result<(), ControlError> {
        self.control.delete(name, request).await
    }

    async fn show(&self, name: &Namespace) -> Result<NamespaceRecord, ControlError> {
        self.control.show(name).await
    }

    async fn list(&self) -> Result<Vec<NamespaceRecord>, ControlError> {
        self.control.list().await
    }

    async fn history(
        &self,
        name: &Namespace,
        before: Option<u64>,
    ) -> Result<Vec<NamespaceVersion>, ControlError> {
        self.control.history(name, before).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::watermark::Watermarks;

    fn known(partitions: u32, valid_through: i64) -> Known {
        Known {
            partitions: (0..partitions).map(|id| (id, Micros::new(5))).collect(),
            valid_through: Micros::new(valid_through),
        }
    }

    #[test]
    fn policy_that_reaches_further_than_the_known_partitions_waits_for_them() {
        let board = WatermarkBoard::new(Watermarks::new([(0, Micros::new(99))]));
        let (sender, policies) = watch::channel(Arc::<PolicyBook>::default());
        let valid_through = || policies.borrow().valid_through();
        let book = |through| Arc::new(PolicyBook::new([], Micros::new(through)));
        pass_on(known(1, 10), &book(10), &board, &sender);
        assert_eq!(valid_through(), Micros::new(10));
        pass_on(known(1, 10), &book(20), &board, &sender);
        assert_eq!(
            valid_through(),
            Micros::new(10),
            "a partition may begin at 11"
        );
        assert_eq!(board.low(), Micros::new(99));
        pass_on(known(2, 20), &book(20), &board, &sender);
        assert_eq!(valid_through(), Micros::new(20));
        assert_eq!(
            board.low(),
            Micros::new(5),
            "and it holds the low watermark by then"
        );
    }
}
