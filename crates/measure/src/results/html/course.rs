//! The number of threads in each state over the time of a run, stacked.
//!
//! The drawing is as wide as the page. Only the areas are stretched, in a drawing of their own, so
//! that the text keeps its size.

use super::figures::unit_of_time;
use crate::states::{Level, State, StateTimeline};
use report::plot::axis::Axis;
use report::plot::svg::{Anchor, Drawing, Words, escape, number};
use report::words::counted;

const TOP: f64 = 16.0;
const AREA: f64 = 110.0;
pub(super) const BOTTOM: f64 = 18.0;

/// The width of a stretched drawing in its own units.
pub(super) const WIDTH: f64 = 1000.0;

/// A moment that is marked by a vertical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The time in nanoseconds since the start of the run.
    pub(super) at: u64,
    /// The label.
    pub(super) what: &'static str,
}

/// Creates a drawing as wide as the page. `fill` draws its stretched part of height `area`.
pub(super) fn stretched(words: &Words, top: f64, area: f64, fill: impl FnOnce(&mut Drawing)) -> Drawing {
    let height = top + area + BOTTOM;
    let mut drawing = Drawing::new(&format!("class=\"course\" width=\"100%\" height=\"{height}\""), words);
    drawing.raw(format_args!(
        "<svg y=\"{top}\" width=\"100%\" height=\"{area}\" viewBox=\"0 0 {WIDTH} {area}\" preserveAspectRatio=\"none\">\n"
    ));
    fill(&mut drawing);
    drawing.raw(format_args!("</svg>\n"));
    drawing
}

/// Draws the states of a job.
pub(super) fn render(words: &Words, course: &StateTimeline, threads: u32, moments: &[Moment]) -> String {
    // Sleeping threads are the empty space below the top line.
    let areas = course.layers.iter().filter(|(state, _)| !matches!(state, State::Blocked | State::Sleeping));
    let areas = areas.map(|(state, means)| (state.name(), means.as_slice()));
    stacked(words, &course.edges, areas, (f64::from(threads.max(1)), &counted(threads.into(), "thread")), moments)
}

/// Draws a number over time. `most` is the number at the top, with its label.
pub(super) fn render_level(words: &Words, level: &Level, most: (f64, &str), moments: &[Moment]) -> String {
    stacked(words, &level.edges, [("level", level.means.as_slice())].into_iter(), most, moments)
}

/// Draws stacked areas, given by their classes and heights, in a frame.
fn stacked<'a>(
    words: &Words,
    edges: &[u64],
    areas: impl Iterator<Item = (&'a str, &'a [f64])>,
    (most, label): (f64, &str),
    moments: &[Moment],
) -> String {
    let [begin, end] = [edges.first(), edges.last()].map(|edge| edge.copied().unwrap_or(0) as f64);
    let length = (end - begin).max(1.0);
    let share = |at: f64| (at - begin) / length;
    let mut drawing = stretched(words, TOP, AREA, |drawing| {
        let mut below = vec![0.0; edges.len().saturating_sub(1)];
        for (class, means) in areas {
            let above: Vec<f64> = below.iter().zip(means).map(|(below, mean)| below + mean).collect();
            if means.iter().any(|mean| *mean > 0.0) {
                let outline = outline(edges, &below, &above, most, share);
                drawing.raw(format_args!("<path class=\"area {class}\" d=\"{outline}\"/>\n"));
            }
            below = above;
        }
    });
    for y in [TOP, TOP + AREA] {
        drawing.raw(format_args!("<line class=\"axis\" x1=\"0\" y1=\"{y}\" x2=\"100%\" y2=\"{y}\"/>\n"));
    }
    drawing.text("tick", (0.0, TOP - 4.0), Anchor::Start, label);
    ticks(&mut drawing, (begin, end), share);
    let shown = moments.iter().map(|moment| (share(moment.at as f64), moment.what));
    for (at, what) in shown.filter(|(at, _)| (0.0..=1.0).contains(at)) {
        let anchor = if at > 0.5 { Anchor::End } else { Anchor::Start }.name();
        let (at, y, what) = (number(at * 100.0), TOP - 4.0, escape(what));
        // Avoids the label at the beginning.
        let at_text = if at.parse().is_ok_and(|at: f64| at < 12.0) { "12".to_owned() } else { at.clone() };
        drawing.raw(format_args!(
            "<line class=\"moment\" x1=\"{at}%\" y1=\"{}\" x2=\"{at}%\" y2=\"{}\"/>\
             <text class=\"name\" x=\"{at_text}%\" y=\"{y}\" text-anchor=\"{anchor}\">{what}</text>\n",
            TOP - 3.0,
            TOP + AREA
        ));
    }
    drawing.finish()
}

/// Draws the ticks of the time from `begin` to `end`, in nanoseconds. The last one has the unit.
fn ticks(drawing: &mut Drawing, (begin, end): (f64, f64), share: impl Fn(f64) -> f64) {
    let (nanos, name) = unit_of_time(end - begin);
    let axis = Axis::linear(begin / nanos, end / nanos);
    let shown: Vec<_> = axis.ticks.iter().filter(|(at, _)| (0.0..=1.0).contains(&share(at * nanos))).collect();
    for (place, (at, label)) in shown.iter().enumerate() {
        let at = share(at * nanos);
        let (anchor, unit) = match place {
            _ if at < 0.03 => (Anchor::Start, ""),
            _ if place + 1 == shown.len() => (if at > 0.93 { Anchor::End } else { Anchor::Middle }, name),
            _ => (Anchor::Middle, ""),
        };
        let (at, y, anchor) = (number(at * 100.0), TOP + AREA + BOTTOM - 5.0, anchor.name());
        let (top, space) = (TOP + AREA, if unit.is_empty() { "" } else { " " });
        drawing.raw(format_args!(
            "<line class=\"axis\" x1=\"{at}%\" y1=\"{top}\" x2=\"{at}%\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{at}%\" y=\"{y}\" text-anchor=\"{anchor}\">{label}{space}{unit}</text>\n",
            top + 3.0
        ));
    }
}

/// The path around an area: along its upper side, and back along its lower side.
fn outline(edges: &[u64], below: &[f64], above: &[f64], threads: f64, share: impl Fn(f64) -> f64) -> String {
    let across = |edge: usize| number(share(edges[edge] as f64) * WIDTH);
    let height = |level: f64| number(AREA - level / threads * AREA);
    let mut path = String::new();
    // Merges pieces of the same height.
    let mut side = |levels: &mut dyn Iterator<Item = (usize, usize, f64)>| {
        let mut last = String::new();
        for (from, to, level) in levels {
            let height = height(level);
            if path.is_empty() {
                path += &format!("M{},{height}", across(from));
            } else if height != last {
                path += &format!("H{}V{height}", across(from));
            }
            last = height;
            if to == edges.len() - 1 || to == 0 {
                path += &format!("H{}", across(to));
            }
        }
    };
    side(&mut above.iter().enumerate().map(|(piece, level)| (piece, piece + 1, *level)));
    side(&mut below.iter().enumerate().rev().map(|(piece, level)| (piece + 1, piece, *level)));
    path + "z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_stacked_and_blocked_threads_are_empty_space() {
        let layers = vec![
            (State::Computing, vec![2.0, 1.0, 1.0]),
            (State::Spinning, vec![0.0, 1.0, 1.0]),
            (State::Blocked, vec![2.0, 2.0, 2.0]),
        ];
        let course = StateTimeline { edges: vec![0, 250, 500, 1000], layers };
        let words = Words { id: "t".into(), title: "crew".into(), description: "states".into() };
        let text = render(&words, &course, 4, &[Moment { at: 500, what: "a & b" }]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let paths: Vec<_> = document.descendants().filter_map(|node| node.attribute("d")).collect();
        assert_eq!(
            paths,
            ["M0,55H250V82.5H1000H1000V110H0z", "M0,55H1000H1000V82.5H250V55H0z"],
            "half, then a quarter of the threads; above them none, then a quarter"
        );
        let moment = document.descendants().find(|node| node.attribute("class") == Some("moment")).unwrap();
        assert_eq!((moment.attribute("x1"), moment.attribute("x2")), (Some("50%"), Some("50%")));
        assert!(document.descendants().any(|node| node.text() == Some("a & b")));
    }
}
