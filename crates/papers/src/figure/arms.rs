//! Measurements of several arms, and their combination to one number.

use std::collections::BTreeMap;

use super::evidence::{Evidence, Load, Quantity};
use super::expected::{ArmGroup, Combine, LoadUnit};
use stats::{self, Estimate};

/// Values of a measure by seed.
pub(super) type BySeed = BTreeMap<u32, f64>;

/// Values of a measure in some arms, by arm and seed. Arms without values are omitted.
#[derive(Clone, Debug)]
pub(super) struct Arms(Vec<(Load, BySeed)>);

impl Arms {
    /// The arms of a group, with the measure of its jobs.
    pub(super) fn of(evidence: &Evidence<'_>, group: &ArmGroup, quantity: Quantity<'_>) -> Arms {
        let jobs = if group.job.is_empty() { quantity.jobs } else { &group.job };
        Arms::collect(evidence, evidence.arms(group), Quantity { jobs, ..quantity })
    }

    pub(super) fn collect(
        evidence: &Evidence<'_>,
        arms: impl IntoIterator<Item = usize>,
        quantity: Quantity<'_>,
    ) -> Arms {
        let values = |arm| (evidence.load(arm), evidence.values(arm, quantity));
        Arms(arms.into_iter().map(values).filter(|(_, values)| !values.is_empty()).collect())
    }

    fn means(&self) -> Vec<f64> {
        self.0.iter().map(|(_, values)| mean(values)).collect()
    }

    /// Combines the arms, separately for each seed.
    pub(super) fn by_seed(&self, combine: Combine) -> BySeed {
        let means = self.means();
        let by_mean = |one: &usize, other: &usize| means[*one].total_cmp(&means[*other]);
        let values = |arm: Option<usize>| arm.map(|arm| self.0[arm].1.clone()).unwrap_or_default();
        let lowest = || values((0..means.len()).min_by(by_mean));
        let highest = || values((0..means.len()).max_by(by_mean));
        match combine {
            Combine::Mean => mean_by_seed(self.0.iter().map(|(_, values)| values)),
            Combine::Min => lowest(),
            Combine::Max => highest(),
            Combine::Spread => difference(&highest(), &lowest()),
            Combine::LastAbove { level, counted } => self.last_above(level, counted),
        }
    }

    /// The arms in ascending order of load. Arms of the same load are averaged.
    pub(super) fn by_load(&self, counted: LoadUnit) -> Vec<(f64, BySeed)> {
        let mut loads: Vec<f64> = self.0.iter().map(|(load, _)| load.counted(counted)).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let averaged = |at: f64| {
            let here = self.0.iter().filter(|(load, _)| load.counted(counted) == at);
            (at, mean_by_seed(here.map(|(_, values)| values)))
        };
        loads.into_iter().map(averaged).collect()
    }

    /// See [`Combine::LastAbove`].
    ///
    /// The means over the seeds determine the load at which the level is reached, so that no single
    /// seed decides between which loads that is. The value of a seed is as far from there as that
    /// seed is from the level.
    fn last_above(&self, level: f64, counted: LoadUnit) -> BySeed {
        let points = self.by_load(counted);
        let Some(last) = points.iter().rposition(|(_, values)| mean(values) > level) else { return BySeed::new() };
        let (at, here) = &points[last];
        let Some((next, there)) = points.get(last + 1) else { return here.keys().map(|seed| (*seed, *at)).collect() };
        let fall = mean(here) - mean(there);
        let share = (mean(here) - level) / fall;
        let of_seed = |(seed, here): (&u32, &f64)| {
            let between = here + share * (there.get(seed)? - here);
            Some((*seed, at + (next - at) * (share + (between - level) / fall)))
        };
        here.iter().filter_map(of_seed).collect()
    }

    /// The mean over the seeds and the arms.
    pub(super) fn mean(&self) -> Option<Estimate> {
        estimate(&self.by_seed(Combine::Mean))
    }

    /// The mean distance of the arms from their mean. `None` if there is only one arm.
    pub(super) fn deviation(&self) -> Option<f64> {
        average_absolute_deviation(&self.means())
    }
}

/// The mean distance of numbers from their mean. `None` if there is only one number.
pub(super) fn average_absolute_deviation(numbers: &[f64]) -> Option<f64> {
    if numbers.len() < 2 {
        return None;
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let deviation = numbers.iter().map(|of| (of - mean).abs()).sum::<f64>() / numbers.len() as f64;
    Some(stats::six_digits(deviation))
}

/// The mean of the available values of each seed.
pub(super) fn mean_by_seed<'a>(all: impl Iterator<Item = &'a BySeed>) -> BySeed {
    let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (seed, value) in all.flatten() {
        values.entry(*seed).or_default().push(*value);
    }
    values.into_iter().map(|(seed, values)| (seed, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

/// The difference for each seed that both have.
pub(super) fn difference(one: &BySeed, other: &BySeed) -> BySeed {
    one.iter().filter_map(|(seed, value)| Some((*seed, value - other.get(seed)?))).collect()
}

/// The mean over the seeds with its interval.
pub(super) fn estimate(values: &BySeed) -> Option<Estimate> {
    stats::mean(&values.values().copied().collect::<Vec<_>>())
}

/// The mean over the seeds. There must be at least one.
pub(super) fn mean(values: &BySeed) -> f64 {
    values.values().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_seed(values: &[f64]) -> BySeed {
        (0..).zip(values.iter().copied()).collect()
    }

    /// Arms of 10, 20, 30 and so on threads on four CPUs.
    fn arms(values: &[&[f64]]) -> Arms {
        let arm = |(number, values): (u64, &&[f64])| (Load { threads: 10 * number, jobs: 1, cpus: 4 }, by_seed(values));
        Arms((1..).zip(values).map(arm).filter(|(_, values)| !values.is_empty()).collect())
    }

    fn last_above(level: f64, counted: LoadUnit) -> Combine {
        Combine::LastAbove { level, counted }
    }

    #[test]
    fn the_mean_of_several_arms_is_taken_separately_for_each_seed() {
        let arms = arms(&[&[1.0, 3.0], &[5.0, 9.0], &[]]);
        assert_eq!(arms.by_seed(Combine::Mean), BTreeMap::from([(0, 3.0), (1, 6.0)]));
        assert_eq!(arms.mean().map(|estimate| (estimate.mean, estimate.samples)), Some((4.5, 2)));
        // The arms' means are 2 and 7.
        assert_eq!(arms.deviation(), Some(2.5));
    }

    #[test]
    fn the_extreme_arm_is_chosen_by_its_mean_and_not_by_a_single_seed() {
        let arms = arms(&[&[0.0, 9.0], &[4.0, 4.0], &[1.0, 6.0]]);
        assert_eq!(arms.by_seed(Combine::Min), BTreeMap::from([(0, 1.0), (1, 6.0)]));
        assert_eq!(arms.by_seed(Combine::Max), BTreeMap::from([(0, 0.0), (1, 9.0)]));
        assert_eq!(arms.by_seed(Combine::Spread), BTreeMap::from([(0, -1.0), (1, 3.0)]));
    }

    #[test]
    fn no_arms_have_no_mean() {
        let none = arms(&[]);
        assert!(none.mean().is_none() && none.deviation().is_none() && none.by_seed(Combine::Max).is_empty());
        assert!(none.by_seed(Combine::Spread).is_empty());
        assert!(none.by_seed(last_above(0.0, LoadUnit::Threads)).is_empty());
        assert!(arms(&[&[1.0]]).deviation().is_none());
    }

    #[test]
    fn the_last_load_above_a_level_is_interpolated_linearly() {
        // The curve falls below 50 at 20 threads, recovers, and falls from 60 at 30 to 20 at 40. It
        // reaches 50 after a quarter of that way.
        let curve = arms(&[&[90.0], &[40.0], &[60.0], &[20.0], &[30.0]]);
        assert_eq!(curve.by_seed(last_above(50.0, LoadUnit::Threads)), by_seed(&[32.5]));
        assert_eq!(curve.by_seed(last_above(50.0, LoadUnit::ExtraThreads)), by_seed(&[28.5]));
        assert_eq!(curve.by_seed(last_above(50.0, LoadUnit::ThreadsPerCpu)), by_seed(&[8.125]));
        // A value at the level is not above it.
        assert_eq!(curve.by_seed(last_above(60.0, LoadUnit::Threads)), by_seed(&[16.0]));
    }

    #[test]
    fn a_level_that_is_never_left_or_never_reached_has_no_crossing() {
        let curve = arms(&[&[90.0, 80.0], &[70.0, 60.0]]);
        assert_eq!(curve.by_seed(last_above(50.0, LoadUnit::Threads)), by_seed(&[20.0, 20.0]));
        assert!(curve.by_seed(last_above(95.0, LoadUnit::Threads)).is_empty());
    }

    #[test]
    fn the_mean_crosses_at_the_level_and_each_seed_deviates_by_its_distance_from_it() {
        // Means: 70 and 30, so 50 is halfway. There the seeds are at 60 and 40, and one thread is
        // worth four points.
        let found = arms(&[&[80.0, 60.0], &[40.0, 20.0]]).by_seed(last_above(50.0, LoadUnit::Threads));
        assert_eq!(found, by_seed(&[17.5, 12.5]));
        assert_eq!(mean(&found), 15.0);
    }

    #[test]
    fn arms_of_the_same_load_are_one_point() {
        let of = |threads, values: &[f64]| (Load { threads, jobs: 1, cpus: 4 }, by_seed(values));
        let arms = Arms(vec![of(20, &[1.0, 3.0]), of(10, &[7.0]), of(20, &[3.0, 7.0])]);
        let points = arms.by_load(LoadUnit::ThreadsPerCpu);
        assert_eq!(points, [(2.5, by_seed(&[7.0])), (5.0, by_seed(&[2.0, 5.0]))]);
    }
}
