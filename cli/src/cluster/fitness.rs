//! Whether a cluster is fit, as operators are told and as roles take it.

use super::connect::Control;
use crate::commands::{
    exit::{Exit, Failed},
    print,
};
use quipu_adapters::finding::{Finding, Severity};
use quipu_schemas::namespace::NamespaceDocument;
use std::time::Duration;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found(Vec<Finding>);

impl Found {
    /// Findings in the order in which they are told: the worst first.
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self(findings)
    }

    /// The same, and more.
    pub(super) fn with(self, more: Option<Finding>) -> Self {
        Self::new([self.0, Vec::from_iter(more)].concat())
    }

    fn refused(&self) -> impl Iterator<Item = &Finding> {
        let found = self.0.iter();
        found.filter(|finding| finding.severity.is_refused())
    }

    /// What roles go on with.
    pub(super) fn tolerated(&self) -> impl Iterator<Item = &Finding> {
        let found = self.0.iter();
        found.filter(|finding| !finding.severity.is_refused())
    }

    /// Refuses a cluster on which counts could be wrong, or roles could not work.
    pub(super) fn refuse(&self) -> Result<(), Failed> {
        let lines: Vec<_> = self.refused().map(ToString::to_string).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let message = format!("the cluster is not fit:\n- {}", lines.join("\n- "));
        Err(Failed::new(Exit::Refused, message))
    }

    /// Prints each finding, what it is first and what to do about it below.
    pub(super) fn print(&self) -> Result<(), Failed> {
        for Finding {
            severity,
            what,
            fix,
        } in &self.0
        {
            let label = label(*severity);
            print(&format!("{label}: {what}\n  to do: {fix}\n"))?;
        }
        Ok(())
    }

    /// Says how the cluster is, after the findings were printed. Fails on findings that are as
    /// severe as `fails_from`, or worse.
    pub(super) fn conclude(&self, fails_from: Severity) -> Result<Exit, Failed> {
        let counts = [
            ("unfit", "unfit"),
            ("problem", "problems"),
            ("advice", "advice"),
        ];
        let counts = counts.map(|(one, many)| {
            let found = self.0.iter();
            match found.filter(|it| label(it.severity) == one).count() {
                0 => None,
                1 => Some(format!("1 {one}")),
                count => Some(format!("{count} {many}")),
            }
        });
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        let counts = counts.join(", ");
        let verdict = match self.0.first().map(|worst| worst.severity) {
            None => "the cluster is fit".to_owned(),
            Some(worst) if worst.is_refused() => {
                format!("the cluster is not fit, and roles refuse to start ({counts})")
            }
            Some(Severity::Problem) => {
                format!("the cluster is fit for roles to start, but not as it should be ({counts})")
            }
            Some(_) => format!("the cluster is fit ({counts})"),
        };
        if self.0.iter().any(|found| found.severity >= fails_from) {
            return Err(Failed::new(Exit::Refused, verdict));
        }
        print(&verdict)?;
        Ok(Exit::Done)
    }
}

fn label(severity: Severity) -> &'static str {
    match severity {
        Severity::Advice => "advice",
        Severity::Problem => "problem",
        Severity::Passing | Severity::Unfit => "unfit",
    }
}

/// Namespaces that a finding names; how many more there are is told.
const NAMED: usize = 10;

/// Namespaces of which no gateway with this guard ever accepts what is written now (R7).
pub(super) fn never_accepted(documents: &[NamespaceDocument], guard: Duration) -> Option<Finding> {
    let show = humantime::format_duration;
    let all: Vec<_> = documents
        .iter()
        .filter(|document| document.accept_limit <= guard)
        .map(|document| format!("{} ({})", document.namespace, show(document.accept_limit)))
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let mut names = all[..all.len() - more].join(", ");
    if more > 0 {
        names = format!("{names} and {more} more");
    }
    let guard = show(guard);
    (!all.is_empty()).then(|| {
        Finding::new(
            Severity::Problem,
            format!(
                "no mutation of a namespace is ever ACCEPTED at once whose accept_limit is not \
                 above gateway.append_guard = {guard}: {names}"
            ),
            format!(
                "raise accept_limit to some seconds above {guard} with `quipu namespace apply`, or \
                 lower gateway.append_guard of every gateway"
            ),
        )
    })
}

/// How long something that may pass is waited for.
#[derive(Clone, Copy)]
struct Patience {
    looks: u32,
    pause: Duration,
}

/// Partitions are announced for some ten seconds before they are made (R12).
const PATIENCE: Patience = Patience {
    looks: 20,
    pause: Duration::from_secs(1),
};

/// Looks at a cluster until it is fit, for as long as what is wrong may pass by itself.
pub(super) async fn fit(control: &Control) -> Result<Found, Failed> {
    fit_within(PATIENCE, async || control.check().await).await
}

async fn fit_within(
    patience: Patience,
    mut look: impl AsyncFnMut() -> Result<Found, Failed>,
) -> Result<Found, Failed> {
    for looks in 1.. {
        let found = look().await?;
        let Err(unfit) = found.refuse() else {
            return Ok(found);
        };
        let is_passing = (found.refused()).any(|found| found.severity == Severity::Passing);
        if !is_passing || looks >= patience.looks {
            return Err(unfit);
        }
        if looks == 1 {
            let message = unfit.message();
            tracing::warn!("{message}\nthis may pass while partitions are added: waiting for it");
        }
        tokio::time::sleep(patience.pause).await;
    }
    unreachable!("patience ends")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn found(severities: &[Severity]) -> Found {
        let finding = |severity: &Severity| {
            Finding::new(*severity, "partitions [4] are registered only", "add them")
        };
        Found::new(severities.iter().map(finding).collect())
    }

    /// How often a cluster was looked at that shows these one after the other, the last for ever.
    async fn looks(found: impl IntoIterator<Item = Found>) -> (usize, Result<Found, Failed>) {
        let (mut found, mut looks) = (VecDeque::from_iter(found), 0);
        let patience = Patience {
            looks: 5,
            pause: Duration::ZERO,
        };
        let ended = fit_within(patience, async || {
            looks += 1;
            Ok(match found.len() {
                1 => found[0].clone(),
                _ => found.pop_front().expect("one at least"),
            })
        });
        let ended = ended.await;
        (looks, ended)
    }

    #[tokio::test]
    async fn partitions_that_are_being_added_are_waited_for() {
        let passing = || found(&[Severity::Passing]);
        let (looks, ended) = looks([passing(), passing(), Found::default(), passing()]).await;
        assert_eq!((looks, ended.is_ok()), (3, true));
    }

    #[tokio::test]
    async fn what_stays_wrong_is_refused_at_once_and_what_may_pass_after_a_while() {
        let (once, ended) = looks([found(&[Severity::Unfit])]).await;
        assert_eq!(once, 1);
        let refused = ended.expect_err("refused");
        assert_eq!(refused.exit, Exit::Refused);
        assert!(refused.message().contains("partitions [4]"));
        let (often, ended) = looks([found(&[Severity::Passing])]).await;
        assert_eq!((often, ended.is_err()), (5, true));
    }

    #[tokio::test]
    async fn roles_start_on_problems_and_advice() {
        let (once, ended) = looks([found(&[Severity::Advice, Severity::Problem])]).await;
        assert_eq!(once, 1);
        assert_eq!(ended.expect("fit").tolerated().count(), 2);
    }

    #[test]
    fn advice_alone_ends_well_and_the_worst_is_told_first() {
        use Severity::{Advice, Problem, Unfit};
        let exit = |severities: &[Severity], fails_from| {
            let concluded = found(severities).conclude(fails_from);
            concluded.unwrap_or_else(|failed| failed.exit)
        };
        assert_eq!(exit(&[], Problem), Exit::Done);
        assert_eq!(exit(&[Advice, Advice], Problem), Exit::Done);
        assert_eq!(exit(&[Advice, Problem], Problem), Exit::Refused);
        assert_eq!(exit(&[Advice, Problem], Severity::Passing), Exit::Done);
        assert_eq!(exit(&[Severity::Passing], Severity::Passing), Exit::Refused);
        let mixed = found(&[Advice, Problem, Unfit, Problem]);
        assert_eq!(mixed.0[0].severity, Unfit);
        let told = mixed.conclude(Problem).expect_err("it is unfit");
        assert!(
            told.message().contains("(1 unfit, 2 problems, 1 advice)"),
            "{}",
            told.message()
        );
    }

    #[test]
    fn namespaces_whose_limit_the_guard_uses_up_are_named() {
        let document = |name: &str, millis| NamespaceDocument {
            accept_limit: Duration::from_millis(millis),
            ..NamespaceDocument::with_defaults(name)
        };
        let guard = Duration::from_secs(1);
        assert_eq!(never_accepted(&[document("a", 1_001)], guard), None);
        let documents = [
            document("a", 1_001),
            document("b", 1_000),
            document("c", 500),
        ];
        let told = never_accepted(&documents, guard).expect("told").what;
        assert!(
            told.ends_with("append_guard = 1s: b (1s), c (500ms)"),
            "{told}"
        );
        let many = (0..NAMED + 3).map(|n| document(&format!("n{n}"), 1));
        let many: Vec<_> = many.collect();
        let told = never_accepted(&many, guard).expect("told").what;
        assert!(told.ends_with("n9 (1ms) and 3 more"), "{told}");
    }
}
