//! The course of a run: how many threads were in each state, one state upon the other, from left to right.
//!
//! It is as wide as the page lets it be, and its letters stay as large as they are. So the areas are a drawing of their own,
//! which is stretched, inside of one that is not.

use std::fmt::Write;

use super::axis::Axis;
use super::svg::{Anchor, Drawing, Words, number};
use crate::states::{Course, State};

const TOP: f64 = 16.0;
const AREA: f64 = 110.0;
const BOTTOM: f64 = 18.0;

/// How wide the stretched drawing is in its own units.
const WIDTH: f64 = 1000.0;

/// Draws a course of a job of so many threads; `axis` is its time in units of so many nanoseconds.
pub fn render(words: &Words, course: &Course, threads: u32, axis: &Axis, unit: (f64, &str)) -> String {
    let height = TOP + AREA + BOTTOM;
    let mut drawing = Drawing::new(&format!("class=\"course\" width=\"100%\" height=\"{height}\""), words);
    let (nanos, name) = unit;
    let begin = course.edges.first().copied().unwrap_or(0) as f64;
    let length = (course.length() as f64).max(1.0);
    let share = |at: f64| (at - begin) / length;
    drawing.raw(format_args!(
        "<svg y=\"{TOP}\" width=\"100%\" height=\"{AREA}\" viewBox=\"0 0 {WIDTH} {AREA}\" preserveAspectRatio=\"none\">\n"
    ));
    let mut below = vec![0.0; course.edges.len().saturating_sub(1)];
    for (state, means) in &course.layers {
        // What sleeps is the room that is left below the line at the top, with no ink of its own.
        if matches!(state, State::Blocked | State::Sleeping) {
            continue;
        }
        let above: Vec<f64> = below.iter().zip(means).map(|(below, mean)| below + mean).collect();
        if means.iter().any(|mean| *mean > 0.0) {
            let outline = outline(course, &below, &above, f64::from(threads.max(1)), share);
            drawing.raw(format_args!("<path class=\"area {}\" d=\"{outline}\"/>\n", state.name()));
        }
        below = above;
    }
    drawing.raw(format_args!("</svg>\n"));
    let line = |drawing: &mut Drawing, y: f64| {
        drawing.raw(format_args!("<line class=\"axis\" x1=\"0\" y1=\"{y}\" x2=\"100%\" y2=\"{y}\"/>\n"));
    };
    line(&mut drawing, TOP);
    line(&mut drawing, TOP + AREA);
    let all = format!("{threads} {}", if threads == 1 { "thread" } else { "threads" });
    drawing.text("tick", (0.0, TOP - 4.0), Anchor::Start, &all);
    let shown: Vec<_> = axis.ticks.iter().filter(|(at, _)| (0.0..=1.0).contains(&share(at * nanos))).collect();
    for (place, (at, label)) in shown.iter().enumerate() {
        let at = share(at * nanos);
        let (anchor, unit) = match place {
            _ if at < 0.03 => (Anchor::Start, ""),
            _ if place + 1 == shown.len() => (if at > 0.93 { Anchor::End } else { Anchor::Middle }, name),
            _ => (Anchor::Middle, ""),
        };
        let (at, y, anchor) = (number(at * 100.0), height - 5.0, anchor.name());
        let (top, space) = (TOP + AREA, if unit.is_empty() { "" } else { " " });
        drawing.raw(format_args!(
            "<line class=\"axis\" x1=\"{at}%\" y1=\"{top}\" x2=\"{at}%\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{at}%\" y=\"{y}\" text-anchor=\"{anchor}\">{label}{space}{unit}</text>\n",
            top + 3.0
        ));
    }
    drawing.finish()
}

/// The path around an area: along its upper side piece by piece, and back along its lower side.
fn outline(course: &Course, below: &[f64], above: &[f64], threads: f64, share: impl Fn(f64) -> f64) -> String {
    let across = |edge: usize| number(share(course.edges[edge] as f64) * WIDTH);
    let height = |level: f64| number(AREA - level / threads * AREA);
    let mut path = String::new();
    // Pieces of the same height are one.
    let mut side = |levels: &mut dyn Iterator<Item = (usize, usize, f64)>| {
        let mut last = String::new();
        for (from, to, level) in levels {
            let height = height(level);
            // Writing to a string does not fail.
            if path.is_empty() {
                let _ = write!(path, "M{},{height}", across(from));
            } else if height != last {
                let _ = write!(path, "H{}V{height}", across(from));
            }
            last = height;
            if to == course.edges.len() - 1 || to == 0 {
                let _ = write!(path, "H{}", across(to));
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
    fn areas_stand_upon_each_other_and_what_is_blocked_is_left_empty() {
        let layers = vec![
            (State::Computing, vec![2.0, 1.0, 1.0]),
            (State::Spinning, vec![0.0, 1.0, 1.0]),
            (State::Blocked, vec![2.0, 2.0, 2.0]),
        ];
        let course = Course { edges: vec![0, 250, 500, 1000], layers };
        let words = Words { id: "t".into(), title: "crew".into(), description: "states".into() };
        let text = render(&words, &course, 4, &Axis::linear(0.0, 1.0), (1000.0, "us"));
        let document = roxmltree::Document::parse(&text).unwrap();
        let paths: Vec<_> = document.descendants().filter_map(|node| node.attribute("d")).collect();
        assert_eq!(
            paths,
            ["M0,55H250V82.5H1000H1000V110H0z", "M0,55H1000H1000V82.5H250V55H0z"],
            "half, then a quarter of the threads; upon them nothing, then a quarter"
        );
    }
}
