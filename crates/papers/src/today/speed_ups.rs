//! The speed-ups over immediate blocking, by kernel, grain and load: the paper's measure of whether
//! to spin.

use serde::Serialize;

use super::conclusions::{Judged, geometric_mean, schedulers};
use super::runs::FIXED;

/// The rules for a range of grains and loads, the best one first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedUps {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The range of grains.
    pub grain: &'static str,
    /// The range of loads.
    pub loads: &'static str,
    /// The number of cells.
    pub cells: usize,
    /// The rules with the geometric mean of their speed-ups.
    pub rules: Vec<(String, f64)>,
}

/// The ranges of grains: at most 0.5 CS, at most 3 CS, at most 12 CS, and more.
const GRAINS: [&str; 4] = ["finest", "fine", "medium", "coarse"];
/// The ranges of loads that are averaged.
const LOADS: [&str; 3] = ["up to 1", "1 to 2", "2 and more"];

fn grain(multiple: f64) -> &'static str {
    GRAINS[[0.5, 3.0, 12.0].into_iter().filter(|most| multiple > *most).count()]
}

fn range(load: f64) -> &'static str {
    LOADS[usize::from(load > 1.0) + usize::from(load >= 2.0)]
}

/// The speed-ups in these cells.
pub(super) fn speed_ups(rules: &[String], cells: &[Judged]) -> Vec<SpeedUps> {
    let baseline = FIXED[0].to_string();
    let mut speed_ups = Vec::new();
    for scheduler in schedulers(cells) {
        for grains in GRAINS {
            for loads in LOADS {
                let is_here = |cell: &&Judged| {
                    cell.cell.kernel.name() == scheduler
                        && grain(cell.cell.grain) == grains
                        && range(cell.load) == loads
                };
                let here: Vec<&Judged> = cells.iter().filter(is_here).collect();
                let mean = |rule: &String| {
                    let of = |cell: &&Judged| Some(cell.seconds(&baseline)? / cell.seconds(rule)?);
                    Some((rule.clone(), geometric_mean(&here.iter().filter_map(of).collect::<Vec<_>>())?))
                };
                let mut rules: Vec<(String, f64)> = rules.iter().filter_map(mean).collect();
                rules.sort_by(|one, other| other.1.total_cmp(&one.1));
                if !rules.is_empty() {
                    let (scheduler, cells) = (scheduler.to_owned(), here.len());
                    speed_ups.push(SpeedUps { scheduler, grain: grains, loads, cells, rules });
                }
            }
        }
    }
    speed_ups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grains_and_loads_belong_to_one_range() {
        assert_eq!([0.05, 0.5, 0.51, 3.0].map(grain), ["finest", "finest", "fine", "fine"]);
        assert_eq!([3.01, 12.0, 50.0].map(grain), ["medium", "medium", "coarse"]);
        assert_eq!([0.5, 1.0, 1.125, 2.0].map(range), ["up to 1", "up to 1", "1 to 2", "2 and more"]);
    }
}
