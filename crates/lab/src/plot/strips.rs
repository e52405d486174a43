//! Rounds of a barrier: a strip for each thread, from left to right, with ink in every round that it passed awake.

use super::svg::{Anchor, Drawing, Words, number};
use crate::states::Rounds;

/// The height of a strip.
const STRIP: f64 = 9.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 18.0;
/// How wide the stretched drawing is in its own units.
const WIDTH: f64 = 1000.0;

/// Draws these rounds, the strips of threads in this order; a gap is left before those whose place in it is in `gaps`.
pub fn render(
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

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Instant;

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
