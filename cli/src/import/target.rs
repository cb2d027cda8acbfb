//! Calls to the server: a part of a block, sent once.

use super::{block::Block, settle::Pick};
use crate::client::{
    connection::unanswered,
    retry::Backoff,
    verdict::{Applied, Failure, of_item},
};
use quipu_schemas::v1::{BatchAddCountRequest, counter_client::CounterClient};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

/// No call waits longer than this for its answer.
const ONE_CALL: Duration = Duration::from_secs(10);

/// Where adds go and what marks them.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The server.
    pub(crate) client: CounterClient<Channel>,
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
    pub(crate) async fn send(mut self, job: Job) -> (Job, Answer) {
        if !job.wait.is_zero() {
            sleep(job.wait).await;
        }
        let item = |pick: &Pick| job.block.item(pick.place, pick.time, &self.token_prefix);
        let items = job.picks.iter().map(item).collect();
        let request = BatchAddCountRequest {
            namespace: self.namespace,
            items,
        };
        let answer = match timeout(ONE_CALL, self.client.batch_add_count(request)).await {
            Err(_) => Err(unanswered(ONE_CALL)),
            Ok(Err(status)) => Err(Failure::from(&status)),
            Ok(Ok(response)) => {
                let results = response.into_inner().results;
                if results.len() == job.picks.len() {
                    Ok(results.into_iter().map(of_item).collect())
                } else {
                    let (got, sent) = (results.len(), job.picks.len());
                    let message = format!("the server gave {got} results for {sent} adds");
                    Err(Failure::unsettled(message))
                }
            }
        };
        (job, answer)
    }
}
