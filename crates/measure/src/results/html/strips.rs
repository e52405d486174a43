//! Strips, from left to right: of each thread, with ink in every round of a barrier that it passed awake; of each CPU, with ink while something holds of it.

use super::course::Moment;
use crate::states::{Level, Rounds};
use report::plot::svg::{Anchor, Drawing, Words, number};

/// The height of a strip.
const STRIP: f64 = 9.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 18.0;
/// How wide the stretched drawing is in its own units.
const WIDTH: f64 = 1000.0;

/// Draws these rounds, the strips of threads in this order; a gap is left before those whose place in it is in `gaps`.
pub(super) fn render(
    words: &Words,
    rounds: &Rounds,
    shown: std::ops::Range<usize>,
    order: &[usize],
    gaps: &[usize],
) -> String {
    let gap = |place: usize| gaps.iter().filter(|&&before| before <= place).count() as f64 * STRIP / 2.0;
    let area = order.len() as f64 * STRIP + gap(order.len());
    let height = TOP + area + BOTTOM;
    let mut drawing = Drawing::new(&format!("class=\"course\" width=\"100%\" height=\"{height}\""), words);
    drawing.raw(format_args!(
        "<svg y=\"{TOP}\" width=\"100%\" height=\"{area}\" viewBox=\"0 0 {WIDTH} {area}\" preserveAspectRatio=\"none\">\n"
    ));
    let width = WIDTH / shown.len().max(1) as f64;
    for (place, &thread) in order.iter().enumerate() {
        let y = place as f64 * STRIP + gap(place);
        for round in shown.clone().filter(|&round| rounds.is_awake(round, thread)) {
            let [x, y, width] = [(round - shown.start) as f64 * width, y + 1.0, width].map(number);
            let height = number(STRIP - 2.0);
            drawing.raw(format_args!(
                "<rect class=\"area spinning\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"
            ));
        }
    }
    drawing.raw(format_args!("</svg>\n"));
    let y = height - 5.0;
    drawing.text("tick", (0.0, y), Anchor::Start, &format!("round {}", shown.start + 1));
    drawing.raw(format_args!(
        "<text class=\"tick\" x=\"100%\" y=\"{y}\" text-anchor=\"end\">round {}</text>\n",
        shown.end
    ));
    drawing.finish()
}

/// Draws a strip for each of these levels, which are between zero and one: the more, the more ink. Below stand where the time begins and ends.
pub(super) fn render_levels(words: &Words, levels: &[&Level], moments: &[Moment], ends: [&str; 2]) -> String {
    let area = levels.len() as f64 * STRIP;
    let height = TOP + area + BOTTOM;
    let end = levels.iter().filter_map(|level| level.edges.last()).copied().max().unwrap_or(1).max(1) as f64;
    let mut drawing = Drawing::new(&format!("class=\"course\" width=\"100%\" height=\"{height}\""), words);
    drawing.raw(format_args!(
        "<svg y=\"{TOP}\" width=\"100%\" height=\"{area}\" viewBox=\"0 0 {WIDTH} {area}\" preserveAspectRatio=\"none\">\n"
    ));
    for (place, level) in levels.iter().enumerate() {
        for (mean, edges) in level.means.iter().zip(level.edges.windows(2)).filter(|(mean, _)| **mean > 0.0) {
            let [from, to] = [edges[0], edges[1]].map(|edge| edge as f64 / end * WIDTH);
            let [x, y, width] = [from, place as f64 * STRIP + 1.0, to - from].map(number);
            let [height, ink] = [STRIP - 2.0, mean.min(1.0)].map(number);
            drawing.raw(format_args!(
                "<rect class=\"area level\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill-opacity=\"{ink}\"/>\n"
            ));
        }
    }
    drawing.raw(format_args!("</svg>\n"));
    for moment in moments {
        let x = number(moment.at as f64 / end * 100.0);
        drawing.raw(format_args!("<line class=\"moment\" x1=\"{x}%\" y1=\"0\" x2=\"{x}%\" y2=\"{}\"/>\n", TOP + area));
    }
    let y = height - 5.0;
    drawing.text("tick", (0.0, y), Anchor::Start, ends[0]);
    drawing.raw(format_args!("<text class=\"tick\" x=\"100%\" y=\"{y}\" text-anchor=\"end\">{}</text>\n", ends[1]));
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Instant;

    #[test]
    fn a_strip_has_ink_while_its_level_is_not_zero() {
        let level = |means: &[f64]| Level { edges: vec![0, 50, 100], means: means.to_vec() };
        let words = Words { id: "s".into(), title: "CPUs".into(), description: "native".into() };
        let levels = [level(&[1.0, 0.0]), level(&[0.0, 0.5])];
        let text =
            render_levels(&words, &levels.each_ref(), &[Moment { at: 50, what: "here".into() }], ["0", "100 ns"]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let ink = document.descendants().filter(|node| node.has_tag_name("rect"));
        let places = ink.map(|node| ["x", "y", "fill-opacity"].map(|name| node.attribute(name).unwrap()));
        assert_eq!(places.collect::<Vec<_>>(), [["0", "1", "1"], ["500", "10", "0.5"]]);
        let lines = document.descendants().filter(|node| node.has_tag_name("line"));
        assert_eq!(lines.map(|node| node.attribute("x1").unwrap()).collect::<Vec<_>>(), ["50%"]);
    }

    #[test]
    fn there_is_ink_where_a_thread_was_awake_and_groups_stand_apart() {
        let mut rounds = Rounds::new(2);
        for side in [[true, true], [true, false], [false, true]] {
            rounds.push(Instant::ZERO, side.into_iter());
        }
        let words = Words { id: "s".into(), title: "crew".into(), description: "rounds".into() };
        let text = render(&words, &rounds, 1..3, &[1, 0], &[1]);
        let document = roxmltree::Document::parse(&text).unwrap();
        let ink = document.descendants().filter(|node| node.has_tag_name("rect"));
        let places: Vec<_> = ink.map(|node| (node.attribute("x").unwrap(), node.attribute("y").unwrap())).collect();
        // Thread 1 in the second of the two rounds, and thread 0, which is below a gap, in the first.
        assert_eq!(places, [("500", "1"), ("0", "14.5")]);
    }
}
