//! Charts over the seconds of a run, as SVG inside the page.

use crate::journal::Injected;
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
/// Room for the numbers at the left, and below.
const LEFT: f64 = 64.0;
const BELOW: f64 = 18.0;
const COLOURS: [&str; 6] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b",
];

/// A line of a chart, one value a second.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<f64>,
}

/// Draws lines over bands that show when faults were on.
pub(super) fn draw(title: &str, lines: &[Line<'_>], injected: &[Injected]) -> String {
    let values = lines.iter().flat_map(|line| line.values.iter().copied());
    let highest = values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let longest = lines
        .iter()
        .map(|line| line.values.len())
        .max()
        .unwrap_or_default();
    let across = (WIDTH - LEFT) / as_f64(longest.saturating_sub(1).max(1));
    let x = |second: f64| LEFT + (second * across).min(WIDTH - LEFT);
    let y = |value: f64| HEIGHT - value / highest * (HEIGHT - 12.0);
    let (full, bottom) = (HEIGHT + BELOW, HEIGHT + BELOW - 4.0);
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {full}\" role=\"img\">",
        escaped(title)
    );
    for fault in injected {
        // A kill takes no time, and must be seen all the same.
        let (from, wide) = (x(fault.began), (x(fault.ended) - x(fault.began)).max(2.0));
        push(
            &mut svg,
            format_args!(
                "<rect class=\"fault\" x=\"{from:.1}\" y=\"0\" width=\"{wide:.1}\" height=\"{HEIGHT}\">\
             <title>{}</title></rect>",
                escaped(&fault.what)
            ),
        );
    }
    push(
        &mut svg,
        format_args!(
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{HEIGHT}\" x2=\"{WIDTH}\" y2=\"{HEIGHT}\"/>\
         <text x=\"0\" y=\"12\">{}</text><text x=\"0\" y=\"{HEIGHT}\">0</text>\
         <text x=\"{LEFT}\" y=\"{bottom}\">0 s</text>\
         <text x=\"{WIDTH}\" y=\"{bottom}\" text-anchor=\"end\">{} s</text>",
            number(highest),
            longest.saturating_sub(1)
        ),
    );
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points = line.values.iter().enumerate();
        let points = points.map(|(at, value)| format!("{:.1},{:.1}", x(as_f64(at)), y(*value)));
        let points: Vec<_> = points.collect();
        push(
            &mut svg,
            format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" points=\"{}\"/>",
                points.join(" ")
            ),
        );
    }
    svg.push_str("</svg><p class=\"legend\">");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let name = escaped(line.name);
        push(
            &mut svg,
            format_args!("<span style=\"color:{colour}\">{name}</span> "),
        );
    }
    svg.push_str("</p></figure>");
    svg
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("text grows");
}

/// A number as people read it.
pub(super) fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Text that means itself in HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_point_for_each_second_and_a_band_for_each_fault() {
        let line = |name, values: &[f64]| Line {
            name,
            values: values.to_vec(),
        };
        let fault = Injected {
            what: "a \"b\" <c>".to_owned(),
            began: 1.0,
            ended: 1.0,
        };
        let lines = [line("up", &[0.0, 5.0, 10.0]), line("flat", &[0.0; 3])];
        let svg = draw("T", &lines, &[fault]);
        assert!(
            svg.contains("points=\"64.0,150.0 392.0,81.0 720.0,12.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("width=\"2.0\"") && svg.contains("a &quot;b&quot; &lt;c&gt;"),
            "{svg}"
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
    }

    #[test]
    fn a_chart_of_nothing_has_no_number_that_is_none() {
        let svg = draw(
            "T",
            &[Line {
                name: "n",
                values: vec![],
            }],
            &[],
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
