//! Horizontal strips: for each thread, filled in the rounds of a barrier that it passed awake; for
//! each CPU, filled while it has some property.

use super::course::{BOTTOM, Moment, WIDTH, stretched};
use crate::states::{Level, Rounds};
use report::plot::svg::{Anchor, Drawing, Words, number};

/// The height of a strip.
const STRIP: f64 = 9.0;
const TOP: f64 = 4.0;

/// Draws these rounds, with the strips of threads in this order. There is a gap before the strip at
/// the place `second`.
pub(super) fn render(
    words: &Words,
    rounds: &Rounds,
    shown: std::ops::Range<usize>,
    order: &[usize],
    second: usize,
) -> String {
    let gap = |place: usize| if place < second { 0.0 } else { STRIP / 2.0 };
    let area = order.len() as f64 * STRIP + gap(order.len());
    let width = WIDTH / shown.len().max(1) as f64;
    let drawing = stretched(words, TOP, area, |drawing| {
        for (place, &thread) in order.iter().enumerate() {
            let y = place as f64 * STRIP + gap(place);
            for round in shown.clone().filter(|&round| rounds.is_awake(round, thread)) {
                strip(drawing, "spinning", ((round - shown.start) as f64 * width, y), width, "");
            }
        }
    });
    finish(drawing, area, [&format!("round {}", shown.start + 1), &format!("round {}", shown.end)])
}

/// Draws a strip for each of these levels, which are between zero and one, as opacity. `ends` are
/// the labels of the beginning and the end.
pub(super) fn render_levels(words: &Words, levels: &[&Level], moments: &[Moment], ends: [&str; 2]) -> String {
    let area = levels.len() as f64 * STRIP;
    let end = levels.iter().filter_map(|level| level.edges.last()).copied().max().unwrap_or(1).max(1) as f64;
    let mut drawing = stretched(words, TOP, area, |drawing| {
        for (place, level) in levels.iter().enumerate() {
            for (mean, edges) in level.means.iter().zip(level.edges.windows(2)).filter(|(mean, _)| **mean > 0.0) {
                let [from, to] = [edges[0], edges[1]].map(|edge| edge as f64 / end * WIDTH);
                let opacity = format!(" fill-opacity=\"{}\"", number(mean.min(1.0)));
                strip(drawing, "level", (from, place as f64 * STRIP), to - from, &opacity);
            }
        }
    });
    for moment in moments {
        let x = number(moment.at as f64 / end * 100.0);
        drawing.raw(format_args!("<line class=\"moment\" x1=\"{x}%\" y1=\"0\" x2=\"{x}%\" y2=\"{}\"/>\n", TOP + area));
    }
    finish(drawing, area, ends)
}

/// Draws a piece of a strip.
fn strip(drawing: &mut Drawing, class: &str, (x, y): (f64, f64), width: f64, attributes: &str) {
    let [x, y, width, height] = [x, y + 1.0, width, STRIP - 2.0].map(number);
    drawing.raw(format_args!(
        "<rect class=\"area {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{attributes}/>\n"
    ));
}

/// Adds the labels of both ends.
fn finish(mut drawing: Drawing, area: f64, [begin, end]: [&str; 2]) -> String {
    let y = TOP + area + BOTTOM - 5.0;
    drawing.text("tick", (0.0, y), Anchor::Start, begin);
    drawing.raw(format_args!("<text class=\"tick\" x=\"100%\" y=\"{y}\" text-anchor=\"end\">{end}</text>\n"));
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Instant;

    #[test]
    fn a_strip_is_filled_while_its_level_is_not_zero() {
        let level = |means: &[f64]| Level { edges: vec![0, 50, 100], means: means.to_vec() };
        let words = Words { id: "s".into(), title: "CPUs".into(), description: "native".into() };
        let levels = [level(&[1.0, 0.0]), level(&[0.0, 0.5])];
        let text = render_levels(&words, &levels.each_ref(), &[Moment { at: 50, what: "here" }], ["0", "100 ns"]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let ink = document.descendants().filter(|node| node.has_tag_name("rect"));
        let places = ink.map(|node| ["x", "y", "fill-opacity"].map(|name| node.attribute(name).unwrap()));
        assert_eq!(places.collect::<Vec<_>>(), [["0", "1", "1"], ["500", "10", "0.5"]]);
        let lines = document.descendants().filter(|node| node.has_tag_name("line"));
        assert_eq!(lines.map(|node| node.attribute("x1").unwrap()).collect::<Vec<_>>(), ["50%"]);
    }

    #[test]
    fn rounds_are_filled_if_the_thread_was_awake_and_groups_have_a_gap() {
        let mut rounds = Rounds::new(2);
        for side in [[true, true], [true, false], [false, true]] {
            rounds.push(Instant::ZERO, side.into_iter());
        }
        let words = Words { id: "s".into(), title: "crew".into(), description: "rounds".into() };
        let text = render(&words, &rounds, 1..3, &[1, 0], 1);
        let document = roxmltree::Document::parse(&text).unwrap();
        let ink = document.descendants().filter(|node| node.has_tag_name("rect"));
        let places: Vec<_> = ink.map(|node| (node.attribute("x").unwrap(), node.attribute("y").unwrap())).collect();
        // Thread 1 in the second round, and thread 0, below a gap, in the first.
        assert_eq!(places, [("500", "1"), ("0", "14.5")]);
    }
}
