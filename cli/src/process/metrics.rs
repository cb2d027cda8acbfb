//! Metrics of the process, in the Prometheus text format.

use super::ProcessError;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use quipu_adapters::metrics::{self as names, Kind};
use std::{sync::Arc, time::Duration};

const UPKEEP: Duration = Duration::from_secs(5);

/// Renders all metrics.
pub(crate) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Installs the process's recorder.
pub(crate) fn install() -> Result<Render, ProcessError> {
    let refused = |error: metrics_exporter_prometheus::BuildError| ProcessError::System {
        what: "record metrics",
        reason: error.to_string(),
    };
    let mut builder = PrometheusBuilder::new();
    for metric in names::all() {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, bounds)
                .map_err(refused)?;
        }
    }
    let handle = builder.install_recorder().map_err(refused)?;
    names::describe();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(Arc::new(move || handle.render()))
}
