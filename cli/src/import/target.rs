//! Calls to the server: a part of a block, sent once.

use super::{block::Block, settle::Pick};
use quipu_client::{Applied, Backoff, Client, Failure};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// Where adds go and what marks them.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The server.
    pub(crate) client: Client,
    /// The namespace.
    pub(crate) namespace: String,
    /// What tokens begin with.
    pub(crate) token_prefix: String,
    /// How long to go on when nothing is confirmed.
    pub(crate) patience: Duration,
    /// How many adds a row becomes.
    pub(crate) templates: u64,
}

/// A call to make.
#[derive(Debug)]
pub(crate) struct Job {
    /// The adds.
    pub(crate) block: Arc<Block>,
    /// Which of them to send.
    pub(crate) picks: Vec<Pick>,
    /// How often it failed.
    pub(crate) backoff: Backoff,
    /// How long to wait before.
    pub(crate) wait: Duration,
}

/// What came of a call: a verdict for each pick, or the failure of all.
pub(crate) type Answer = Result<Vec<Result<Applied, Failure>>, Failure>;

impl Target {
    /// Makes a call, once.
    pub(crate) async fn send(self, job: Job) -> (Job, Answer) {
        if !job.wait.is_zero() {
            sleep(job.wait).await;
        }
        let item = |pick: &Pick| job.block.item(pick.place, pick.time, &self.token_prefix);
        let items = job.picks.iter().map(item).collect();
        let answer = self.client.batch_add_once(&self.namespace, items).await;
        (job, answer)
    }
}
