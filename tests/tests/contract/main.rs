//! What every implementation of a port must do. One suite, run against each of them.

/// Runs tests, which are functions of the thing under test, against implementations, which are
/// functions of a directory that is theirs alone; and with the feature `cluster` against real
/// ones, which are futures of the thing and of what must live as long as it.
macro_rules! run_against {
    ($local:tt, $tests:tt, cluster [$($implementation:ident = $open:path),+ $(,)?] $(,)?) => {
        run_against!($local, $tests);
        $(run_against!(@cluster $implementation, $open, $tests);)+
    };
    ([$($implementation:ident = $make:path),+ $(,)?], $tests:tt) => {
        $(run_against!(@one $implementation, $make, $tests);)+
    };
    (@one $implementation:ident, $make:path, [$($test:ident),+ $(,)?]) => {
        mod $implementation {
            $(#[tokio::test]
            async fn $test() {
                let directory = tempfile::tempdir().expect("a temporary directory");
                super::$test($make(directory.path())).await;
            })+
        }
    };
    (@cluster $implementation:ident, $open:path, [$($test:ident),+ $(,)?]) => {
        #[cfg(feature = "cluster")]
        mod $implementation {
            $(#[tokio::test]
            async fn $test() {
                let (store, _keep) = $open().await;
                super::$test(store).await;
            })+
        }
    };
}

mod best_effort;
mod cache;
#[cfg(feature = "cluster")]
mod cassandra;
#[cfg(feature = "cluster")]
mod clusters;
#[cfg(feature = "cluster")]
mod control;
mod events;
mod fixtures;
#[cfg(feature = "cluster")]
mod kafka;
mod log;
mod model;
#[cfg(feature = "cluster")]
mod namespaces;
mod rollups;
mod slices;
