//! What was measured, a line each, behind a description of the machine.

use hdrhistogram::Histogram;
use std::{fs, time::Duration};

/// Prints what the machine is.
pub(crate) fn start() {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("?");
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .next()
        .unwrap_or("?")
        .replace("MemTotal:", "");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!(
        "machine: {} cores,{} memory {}, Linux {}",
        cores,
        model.trim_start_matches(['\t', ' ', ':']).to_owned() + ",",
        memory.trim(),
        kernel.trim()
    );
}

/// Begins a subject.
pub(crate) fn subject(title: &str) {
    println!("\n## {title}");
}

/// A figure with its unit, and what must be reached, where something must.
pub(crate) fn figure(what: &str, value: &str, target: &str) {
    let target = if target.is_empty() {
        String::new()
    } else {
        format!("  (target {target})")
    };
    println!("{what:<52} {value:>22}{target}");
}

/// A rate.
pub(crate) fn rate(what: &str, count: u64, took: Duration, target: &str) {
    let rate = per_second(count, took);
    figure(what, &format!("{} /s", thousands(rate)), target);
}

/// Percentiles of latencies in microseconds.
pub(crate) fn latency(what: &str, latencies: &Histogram<u64>, target: &str) {
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|p| millis(latencies.value_at_percentile(p)));
    figure(
        what,
        &format!("p50 {p50} p99 {p99} p99.9 {p999} ms"),
        target,
    );
}

/// CPU time for each of `count` things.
pub(crate) fn cpu(what: &str, cpu: Duration, count: u64) {
    let nanos = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX) / count.max(1);
    figure(
        what,
        &format!("{}.{:02} µs", nanos / 1000, nanos % 1000 / 10),
        "",
    );
}

/// How many a second, rounded down.
pub(crate) fn per_second(count: u64, took: Duration) -> u64 {
    let nanos = took.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

/// A number with separators.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn millis(micros: u64) -> String {
    format!("{}.{:02}", micros / 1000, micros % 1000 / 10)
}

/// Latencies in microseconds, up to a minute, exact to three digits.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("these bounds are valid")
}
