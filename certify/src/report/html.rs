//! The page for people.

use super::{
    Case, Report,
    chart::{Line, draw, escaped, number},
};
use std::fmt::Write as _;

const STYLE: &str =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}
.good{color:#176f2c}.bad{color:#b00020;font-weight:bold}
figure{margin:1rem 0}svg{width:100%;height:auto}svg text{font-size:11px;fill:#555}
.axis{stroke:#999}.fault{fill:#f4c7c3;opacity:.6}.legend{margin:0;font-size:13px}
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem}";
const MIB: f64 = 1_048_576.0;

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let survived = report.cases.iter().filter(|case| case.survived).count();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1><p>{survived} of {} runs survived: nothing \
         acknowledged was lost, nothing was counted twice, every refused record has its reason, and \
         all counts agree.</p>",
        report.cases.len()
    );
    page.push_str(
        "<table><tr><th>case<th>run<th>outcome<th>attempted<th>acknowledged<th>stored<th>unknown\
         <th>complete again after, s<th>undisturbed, s<th>staleness p50 / p99 / max, s\
         <th>peak memory, MiB</tr>",
    );
    for (at, case) in report.cases.iter().enumerate() {
        row(&mut page, at, case);
    }
    page.push_str("</table>");
    for (at, case) in report.cases.iter().enumerate() {
        section(&mut page, at, case);
    }
    page
}

fn row(page: &mut String, at: usize, case: &Case) {
    let tally = &case.tally;
    let seconds = |value: Option<f64>| value.map_or("never".to_owned(), number);
    let staleness = case.staleness_s.map_or(String::new(), |of| {
        [of.p50, of.p99, of.max].map(number).join(" / ")
    });
    let memory = case.peak_memory.iter();
    let memory = memory.map(|(role, bytes)| format!("{} {}", escaped(role), number(mib(*bytes))));
    push(
        page,
        format_args!(
            "<tr><td><a href=\"#case{at}\">{}</a><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escaped(&case.name),
            case.run,
            outcome(case),
            tally.attempted,
            tally.acknowledged,
            tally.stored,
            tally.unknown,
            seconds(case.recovery_s),
            seconds(case.undisturbed_s),
            staleness,
            memory.collect::<Vec<_>>().join(", ")
        ),
    );
}

fn outcome(case: &Case) -> String {
    if case.survived {
        return "<span class=\"good\">survived</span>".to_owned();
    }
    let why = match case.violations {
        0 => "did not come back".to_owned(),
        violations => format!("{violations} violations"),
    };
    format!("<span class=\"bad\">{why}</span>")
}

fn section(page: &mut String, at: usize, case: &Case) {
    push(
        page,
        format_args!(
            "<h2 id=\"case{at}\">{}, run {} (seed {})</h2><p>{} {} Took {} s.</p>",
            escaped(&case.name),
            case.run,
            case.seed,
            escaped(&case.about),
            outcome(case),
            number(case.took_s)
        ),
    );
    let injected = case.injected.iter().map(|fault| {
        let (began, ended) = (number(fault.began), number(fault.ended));
        format!("<li>{began} s to {ended} s: {}", escaped(&fault.what))
    });
    push(
        page,
        format_args!("<ul>{}</ul>", injected.collect::<String>()),
    );
    if !case.tally.dead_letters.is_empty() {
        let letters = case.tally.dead_letters.iter();
        let letters = letters.map(|(reason, count)| format!("{count} {}", escaped(reason)));
        let letters: Vec<_> = letters.collect();
        push(
            page,
            format_args!("<p>Dead letters: {}.</p>", letters.join(", ")),
        );
    }
    if case.violations > 0 {
        let first = escaped(&case.first_violations.join("\n"));
        push(
            page,
            format_args!(
                "<p>The first of {} violations:</p><pre>{first}</pre>",
                case.violations
            ),
        );
    }
    charts(page, case);
}

fn charts(page: &mut String, case: &Case) {
    let of = |name, value: fn(&crate::Second) -> f64| Line {
        name,
        values: case.seconds.iter().map(value).collect(),
    };
    let adds = [
        of("attempted", |second| second.attempted.into()),
        of("acknowledged", |second| second.acknowledged.into()),
        of("not settled, sent again", |second| second.unsettled.into()),
    ];
    page.push_str(&draw("Events a second", &adds, &case.injected));
    let reads = [
        of("answered", |second| second.read.into()),
        of("failed", |second| second.unread.into()),
    ];
    page.push_str(&draw("Reads a second", &reads, &case.injected));
    let stale = [of("the most stale count that a read showed", |second| {
        second.staleness
    })];
    page.push_str(&draw("Staleness, s", &stale, &case.injected));
    if !case.memory.is_empty() {
        let lines = case.memory.iter().map(|(role, bytes)| Line {
            name: role,
            values: bytes.iter().map(|bytes| mib(*bytes)).collect(),
        });
        let lines: Vec<_> = lines.collect();
        page.push_str(&draw(
            "Memory of the largest process of each role, MiB",
            &lines,
            &case.injected,
        ));
    }
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1_024.0 / MIB
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("text grows");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::case;

    #[test]
    fn the_page_tells_all_and_asks_nothing_of_elsewhere() {
        let page = page(&Report {
            title: "Faults".to_owned(),
            cases: vec![case()],
        });
        for told in [
            "1 of 1 runs survived",
            "kill-ingest",
            "Kills it &amp; starts another.",
            "2.0 s to 4.0 s: &lt;kill&gt;",
            "ingest 9.0",
            "2.0 / 9.0 / 9.0",
        ] {
            assert!(page.contains(told), "{told} is missing in {page}");
        }
        assert_eq!(page.matches("<svg").count(), 4);
        for outside in ["http", "<script", "<link", "<img"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn violations_are_spelt_out() {
        let mut bad = case();
        bad.survived = false;
        (bad.violations, bad.first_violations) = (2, vec!["lost: <a>".to_owned()]);
        let page = page(&Report {
            title: "Faults".to_owned(),
            cases: vec![bad],
        });
        assert!(
            page.contains("0 of 1 runs")
                && page.contains("lost: &lt;a&gt;")
                && page.contains("2 violations"),
            "{page}"
        );
    }
}
