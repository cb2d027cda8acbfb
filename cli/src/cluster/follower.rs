//! The watermarks of all ingests, as a role that closes windows follows them.

use super::connect::Cluster;
use crate::process::{ProcessError, threads::Threads};
use quipu_adapters::{kafka::watermarks, ports::LogError, watermarks::WatermarkBoard};
use quipu_core::watermark::Watermarks;

/// A board that shows the watermarks of all partitions, and is kept up to date.
pub(super) fn start(
    cluster: &Cluster,
    roles: &mut Threads,
) -> Result<WatermarkBoard, ProcessError> {
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
    Ok(board)
}
