//! The watermarks of all ingests, as a role that closes windows follows them.

use super::{connect::Cluster, gated::Gated};
use crate::process::{ProcessError, threads::Threads};
use quipu_adapters::{kafka::watermarks, ports::LogError, watermarks::WatermarkBoard};
use quipu_core::watermark::Watermarks;

/// A board that shows the watermarks of all partitions, and is kept up to date; and the control
/// plane whose policy goes with it.
pub(super) fn start(
    cluster: &Cluster,
    roles: &mut Threads,
) -> Result<(WatermarkBoard, Gated), ProcessError> {
    let registered = cluster.registered.borrow().clone();
    let initial = registered.iter().map(|(partition, at)| (*partition, *at));
    let board = WatermarkBoard::new(Watermarks::new(initial));
    let follow = watermarks::follow(
        cluster.kafka.clone(),
        cluster.registered.clone(),
        board.clone(),
    );
    let stopped = roles.asked_to_stop();
    let work = async move {
        tokio::select! {
            ended = follow => ended,
            () = stopped => Ok::<(), LogError>(()),
        }
    };
    roles.spawn("the follower of watermarks", work)?;
    let topic = cluster.kafka.topics.events.clone();
    let gated = Gated::new(cluster.control.clone(), topic, board.clone());
    Ok((board, gated))
}
