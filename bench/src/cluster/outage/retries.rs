//! What became of adds of unknown outcome: a retry with the same token tells.

use super::{
    load::Load,
    tally::{Resolved, Unresolved},
};
use crate::http::Failure;
use futures::{StreamExt, TryStreamExt, stream};
use std::{
    future,
    time::{Duration, Instant},
};

const AT_ONCE: usize = 4;
/// As the gateway asks for.
const PAUSE: Duration = Duration::from_secs(1);
/// A batch that has no outcome after so long will never have one.
const PATIENCE: Duration = Duration::from_mins(2);

/// Retries until all that is to be retried has an outcome.
pub(super) async fn resolve(load: &Load) -> Result<Resolved, Failure> {
    let unresolved = std::mem::take(&mut load.tally().unresolved);
    stream::iter(unresolved)
        .map(|batch| retry(load, batch))
        .buffer_unordered(AT_ONCE)
        .try_fold(Resolved::default(), |all, part| {
            future::ready(Ok(Resolved {
                counted: all.counted + part.counted,
                refused: all.refused + part.refused,
            }))
        })
        .await
}

async fn retry(load: &Load, unresolved: Unresolved) -> Result<Resolved, Failure> {
    let began = Instant::now();
    loop {
        let answer = load.send(unresolved.batch, unresolved.generated).await;
        let resolved = answer
            .as_ref()
            .and_then(|answer| load.tally().resolve(&unresolved, answer));
        if let Some(resolved) = resolved {
            return Ok(resolved);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("a retry does not tell an outcome: {answer:?}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
