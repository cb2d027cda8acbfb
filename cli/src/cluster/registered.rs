//! The registered partitions of the events topic, as the log's adapters take them (R12).

use quipu_adapters::{cassandra::Topics, kafka::Registered};
use quipu_core::time::Micros;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// Follows the control plane for as long as it lives.
pub(super) fn follow(mut topics: watch::Receiver<Arc<Topics>>, topic: String) -> Registered {
    let (sender, registered) = watch::channel(Arc::new(partitions(&topics.borrow(), &topic)));
    tokio::spawn(async move {
        while topics.changed().await.is_ok() {
            let newest = partitions(&topics.borrow_and_update(), &topic);
            sender.send_if_modified(|known| {
                let is_new = **known != newest;
                if is_new {
                    *known = Arc::new(newest);
                }
                is_new
            });
        }
    });
    registered
}

fn partitions(topics: &Topics, topic: &str) -> BTreeMap<u32, Micros> {
    let partitions = topics.partitions(topic).into_iter();
    partitions
        .map(|partition| (partition.partition, partition.effective_from))
        .collect()
}
