//! What every implementation of a port must do. One suite, run against each of them.

/// Runs tests, which are functions of the thing under test, against implementations, which are
/// functions of a directory that is theirs alone.
macro_rules! run_against {
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
}

mod cache;
mod events;
mod fixtures;
mod log;
mod model;
mod rollups;
mod slices;
