//! What runs showed, for machines (JSON) and for people (one HTML file without anything outside).

mod chart;
mod html;

use crate::{journal::Injected, run::Outcome, timeline::Second, verdict::Tally};
use serde::Serialize;
use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

/// Violations that a report spells out; of more it says how many there are.
const SPELT_OUT: usize = 50;

/// Everything that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it is of.
    pub title: String,
    /// Each run of each case, in the order in which they were run.
    pub cases: Vec<Case>,
}

/// One run of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The case's name.
    pub name: String,
    /// What it does, as a sentence.
    pub about: String,
    /// Which run of it, from 1.
    pub run: u32,
    /// What all randomness came from.
    pub seed: u64,
    /// Whether nothing was lost, nothing was counted twice, and all came back.
    pub survived: bool,
    /// What was injected.
    pub injected: Vec<Injected>,
    /// Seconds beyond the last fault until every count was complete and exact through its end.
    /// Absent, if that did not happen in time.
    pub recovery_s: Option<f64>,
    /// The same before the first fault: the accept limit, and what rollups take.
    pub undisturbed_s: Option<f64>,
    /// How long before its answer a count was complete, over all reads.
    pub staleness_s: Option<Percentiles>,
    /// What the verdict stands on.
    pub tally: Tally,
    /// How many violations there are.
    pub violations: usize,
    /// The first of them.
    pub first_violations: Vec<String>,
    /// The most memory that a process of each role had, in bytes.
    pub peak_memory: BTreeMap<String, u64>,
    /// What happened in each second.
    pub seconds: Vec<Second>,
    /// The memory of each role in each second, in bytes.
    pub memory: BTreeMap<String, Vec<u64>>,
    /// How long all of it took, in seconds.
    pub took_s: f64,
}

/// Of all values, so many of a hundred are at or below each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of them.
    pub p50: f64,
    /// 90 of a hundred.
    pub p90: f64,
    /// 99 of a hundred.
    pub p99: f64,
    /// All of them.
    pub max: f64,
}

impl Percentiles {
    /// Of sorted values; none of no value.
    pub fn of(sorted: &[f64]) -> Option<Self> {
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1);
        Some(Self {
            p50: *at(50)?,
            p90: *at(90)?,
            p99: *at(99)?,
            max: *sorted.last()?,
        })
    }
}

/// The memory of the roles' processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Of the largest process of each role in each second, in bytes.
    pub seconds: BTreeMap<String, Vec<u64>>,
    /// The most that a process of each role ever had, in bytes.
    pub peak: BTreeMap<String, u64>,
}

/// What a run is called in a report.
#[derive(Clone, Debug)]
pub struct Label {
    /// The case's name.
    pub name: String,
    /// What it does, as a sentence.
    pub about: String,
    /// Which run of it, from 1.
    pub run: u32,
    /// What all randomness came from.
    pub seed: u64,
}

impl Case {
    /// From what came of a run.
    pub fn new(label: Label, outcome: Outcome, memory: Memory, took: Duration) -> Self {
        let violations = &outcome.verdict.violations;
        let first = violations.iter().take(SPELT_OUT).map(ToString::to_string);
        Self {
            survived: violations.is_empty() && outcome.recovery.counts.is_some(),
            name: label.name,
            about: label.about,
            run: label.run,
            seed: label.seed,
            recovery_s: outcome.recovery.counts,
            undisturbed_s: outcome.recovery.without,
            staleness_s: Percentiles::of(&outcome.staleness),
            violations: violations.len(),
            first_violations: first.collect(),
            peak_memory: memory.peak,
            injected: outcome.injected,
            tally: outcome.verdict.tally,
            seconds: outcome.seconds,
            memory: memory.seconds,
            took_s: took.as_secs_f64(),
        }
    }

    /// A line for people.
    pub fn summary(&self) -> String {
        let seconds =
            |value: Option<f64>| value.map_or("never".to_owned(), |it| format!("{it:.1} s"));
        let tally = &self.tally;
        format!(
            "{} {} run {}: {} attempted, {} acknowledged, {} stored, {} of unknown outcome; complete again after {} \
             ({} undisturbed); {} violations",
            if self.survived {
                "survived"
            } else {
                "FAILED  "
            },
            self.name,
            self.run,
            tally.attempted,
            tally.acknowledged,
            tally.stored,
            tally.unknown,
            seconds(self.recovery_s),
            seconds(self.undisturbed_s),
            self.violations
        )
    }
}

impl Report {
    /// Writes `report.json` and `report.html` into a directory, which is made if need be.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let json = serde_json::to_vec_pretty(self)?;
        fs::write(directory.join("report.json"), json)?;
        fs::write(directory.join("report.html"), html::page(self))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Recovery, verdict::Verdict};

    pub(crate) fn case() -> Case {
        let second = Second {
            attempted: 100,
            acknowledged: 90,
            unsettled: 3,
            staleness: 2.5,
            ..Second::default()
        };
        let outcome = Outcome {
            verdict: Verdict::default(),
            injected: vec![Injected {
                what: "<kill>".to_owned(),
                began: 2.0,
                ended: 4.0,
            }],
            recovery: Recovery {
                counts: Some(3.25),
                without: Some(2.0),
            },
            staleness: vec![1.0, 2.0, 3.0, 9.0],
            seconds: vec![second; 10],
        };
        let label = Label {
            name: "kill-ingest".to_owned(),
            about: "Kills it & starts another.".to_owned(),
            run: 2,
            seed: 7,
        };
        let memory = Memory {
            seconds: [("ingest".to_owned(), vec![5 << 20, 8 << 20, 7 << 20])].into(),
            peak: [("ingest".to_owned(), 9 << 20)].into(),
        };
        Case::new(label, outcome, memory, Duration::from_secs(12))
    }

    #[test]
    fn percentiles_are_of_the_values_at_or_below_them() {
        let hundred: Vec<_> = (1..=100_u8).map(f64::from).collect();
        let expected = Percentiles {
            p50: 50.0,
            p90: 90.0,
            p99: 99.0,
            max: 100.0,
        };
        assert_eq!(Percentiles::of(&hundred), Some(expected));
        assert_eq!(
            Percentiles::of(&[3.0]).unwrap().p50.total_cmp(&3.0),
            std::cmp::Ordering::Equal
        );
        assert_eq!(Percentiles::of(&[]), None);
    }

    #[test]
    fn a_run_survived_only_without_violation_and_with_recovery() {
        let good = case();
        assert!(good.survived && good.summary().starts_with("survived kill-ingest run 2"));
        assert_eq!(good.peak_memory["ingest"], 9 << 20);
        let outcome = |violations: usize, counts| {
            let violation = crate::verdict::Violation::Vanished((0, 0), String::new());
            let verdict = Verdict {
                violations: vec![violation; violations],
                ..Verdict::default()
            };
            let recovery = Recovery {
                counts,
                without: None,
            };
            let outcome = Outcome {
                verdict,
                recovery,
                injected: vec![],
                staleness: vec![],
                seconds: vec![],
            };
            let label = Label {
                name: String::new(),
                about: String::new(),
                run: 1,
                seed: 1,
            };
            Case::new(label, outcome, Memory::default(), Duration::ZERO)
        };
        assert!(!outcome(1, Some(1.0)).survived && !outcome(0, None).survived);
        let many = outcome(99, Some(1.0));
        assert_eq!((many.violations, many.first_violations.len()), (99, 50));
    }

    #[test]
    fn a_report_is_saved_for_machines_and_for_people() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("deep/down");
        let report = Report {
            title: "T".to_owned(),
            cases: vec![case()],
        };
        report.save(&directory).unwrap();
        let json = fs::read(directory.join("report.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["cases"][0]["recovery_s"], 3.25);
        assert_eq!(json["cases"][0]["injected"][0]["what"], "<kill>");
        assert!(
            fs::read_to_string(directory.join("report.html"))
                .unwrap()
                .contains("kill-ingest")
        );
    }
}
