//! Work that goes on while its driver is busy with something else.
//!
//! A driver that awaits in the middle of its loop does not poll its other futures meanwhile. Such a
//! future may have been given what the driver waits for, a permit of a store for example, and then
//! both wait for ever. A task of its own goes on.

use futures::{FutureExt, future::BoxFuture};
use std::panic;
use tokio_util::task::AbortOnDropHandle;

/// Starts work as a task. What is returned resolves with its result; dropped, it ends the task. A
/// panic of the task goes on in whoever waits.
pub fn start<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> BoxFuture<'static, T> {
    let task = AbortOnDropHandle::new(tokio::spawn(work));
    let result = async move {
        match task.await {
            Ok(result) => result,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => panic::resume_unwind(panic),
                // The runtime is shutting down, and nobody is left to be told.
                Err(_) => std::future::pending().await,
            },
        }
    };
    result.boxed()
}

#[cfg(test)]
mod tests {
    use super::start;
    use std::{sync::Arc, time::Duration};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn work_that_holds_a_permit_ends_while_its_driver_waits_for_the_permit() {
        let permits = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&permits);
        let work = start(async move {
            let _permit = held.acquire().await.expect("it is open");
            tokio::time::sleep(Duration::from_millis(20)).await;
            7
        });
        tokio::task::yield_now().await;
        assert_eq!(permits.available_permits(), 0, "the work has begun");
        let waited = tokio::time::timeout(Duration::from_secs(10), permits.acquire()).await;
        assert!(waited.is_ok(), "the work went on unpolled");
        assert_eq!(work.await, 7);
    }

    #[tokio::test]
    async fn work_whose_result_nobody_wants_any_more_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&permits);
        let work = start(async move {
            let _permit = held.acquire().await.expect("it is open");
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert_eq!(permits.available_permits(), 0, "the work has begun");
        drop(work);
        let waited = tokio::time::timeout(Duration::from_secs(10), permits.acquire()).await;
        assert!(waited.is_ok(), "its permit is free again");
    }
}
