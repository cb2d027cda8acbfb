//! Metrics of the process, in the Prometheus text format.

use super::ProcessError;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use std::{sync::Arc, time::Duration};

/// From 100 µs to 10 s: fine where calls are, coarse where trouble is.
const SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];
const UPKEEP: Duration = Duration::from_secs(5);

/// Renders all metrics.
pub(crate) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Installs the process's recorder.
pub(crate) fn install() -> Result<Render, ProcessError> {
    let refused = |error: metrics_exporter_prometheus::BuildError| ProcessError::System {
        what: "record metrics",
        reason: error.to_string(),
    };
    let suffix = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new();
    let builder = builder
        .set_buckets_for_metric(suffix, &SECONDS)
        .map_err(refused)?;
    let handle = builder.install_recorder().map_err(refused)?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(Arc::new(move || handle.render()))
}
