//! Series: the samples of an experiment, grouped by arm, job and world.

use std::collections::BTreeMap;

use scenario::result::{JobOutcome, Run, World};
use scenario::{Arm, Scenario};

use crate::sample::{JobQuantity, Sample};
use stats::stages::TwoStageSamples;

/// The outcomes of one job in one arm and world, by repetition.
///
/// The copies of a job run together, so they are one sample. Their figures are averaged.
#[derive(Clone, Debug)]
pub struct Series {
    /// The outcomes of the copies, by the number of the repetition.
    pub repetitions: BTreeMap<u32, Vec<JobOutcome>>,
    /// The number of CPUs that the runs could use.
    pub cpus: u32,
    /// The number of repetitions that were planned at first. The stopping rule added the others.
    first_stage: u32,
}

impl Series {
    /// Collects a job of an arm, given by its number in the setting, from the samples of that arm.
    fn collect(arm: &Arm, job: usize, world: World, samples: &[&Sample], first_stage: u32) -> Series {
        // Outcomes are in the order of the scenario, one for each copy.
        let before: usize = arm.setting.jobs[..job].iter().map(|job| job.copies as usize).sum();
        let copies = arm.setting.jobs[job].copies as usize;
        let runs: Vec<&Run> = samples.iter().map(|sample| &sample.run).filter(|run| run.world == world).collect();
        let cpus = runs.first().map_or(1, |run| run.outcome.machine.cpus);
        let copies = |run: &Run| run.outcome.jobs.iter().skip(before).take(copies).cloned().collect();
        let repetitions = runs.into_iter().map(|run| (run.repeat, copies(run))).collect();
        Series { repetitions, cpus, first_stage }
    }

    /// The quantity in each repetition that has it.
    pub fn values(&self, quantity: JobQuantity) -> Vec<f64> {
        self.stages(quantity).samples
    }

    /// The quantity in each repetition that has it, with the size of the first stage.
    pub fn stages(&self, quantity: JobQuantity) -> TwoStageSamples {
        self.staged(|_, copies| average(quantity, copies))
    }

    /// The means of `of` over the copies that have it, in each repetition in which a copy does.
    pub fn stages_by(&self, of: impl Fn(&JobOutcome) -> Option<f64>) -> TwoStageSamples {
        self.staged(|_, copies| mean(copies.iter().filter_map(&of)))
    }

    /// The names of the groups of its fibers.
    pub fn groups(&self) -> Vec<String> {
        let fibers = self.repetitions.values().flatten().find_map(|job| job.fibers.as_ref());
        fibers.map_or_else(Vec::new, |fibers| fibers.groups.iter().map(|group| group.group.clone()).collect())
    }

    /// The logarithms of this quantity over that of `other`, in repetitions with positive values.
    pub fn log_ratios(&self, other: &Series, quantity: JobQuantity) -> TwoStageSamples {
        self.paired(other, quantity, |here, there| (here > 0.0 && there > 0.0).then(|| (here / there).ln()))
    }

    /// This quantity over that of `other`, in repetitions in which the ratio is finite.
    pub fn ratios(&self, other: &Series, quantity: JobQuantity) -> TwoStageSamples {
        self.paired(other, quantity, |here, there| Some(here / there).filter(|ratio| ratio.is_finite()))
    }

    /// This quantity minus that of `other`, in each repetition in which both have it.
    pub fn differences(&self, other: &Series, quantity: JobQuantity) -> TwoStageSamples {
        self.paired(other, quantity, |here, there| Some(here - there))
    }

    /// Combines the quantity with that of `other` in each repetition in which both have it.
    fn paired(&self, other: &Series, quantity: JobQuantity, of: fn(f64, f64) -> Option<f64>) -> TwoStageSamples {
        self.staged(|repeat, copies| {
            of(average(quantity, copies)?, average(quantity, other.repetitions.get(&repeat)?)?)
        })
    }

    fn staged(&self, of: impl Fn(u32, &[JobOutcome]) -> Option<f64>) -> TwoStageSamples {
        let samples: Vec<(u32, f64)> =
            self.repetitions.iter().filter_map(|(&repeat, copies)| Some((repeat, of(repeat, copies)?))).collect();
        let first = samples.partition_point(|&(repeat, _)| repeat < self.first_stage);
        TwoStageSamples { samples: samples.into_iter().map(|(_, sample)| sample).collect(), first }
    }
}

fn average(quantity: JobQuantity, copies: &[JobOutcome]) -> Option<f64> {
    mean(copies.iter().filter_map(|copy| quantity.of(copy)))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::average(&values.collect::<Vec<f64>>())
}

/// All series of an experiment: one for each arm, job and world with at least one sample.
#[derive(Clone, Debug)]
pub struct AllSeries<'a> {
    /// The scenario that was run.
    pub scenario: &'a Scenario,
    series: BTreeMap<(usize, usize, World), Series>,
}

impl<'a> AllSeries<'a> {
    /// Groups the samples. At first, `first_stage` repetitions were planned.
    pub fn collect(scenario: &'a Scenario, samples: &[Sample], first_stage: u32) -> AllSeries<'a> {
        let mut by_arm = vec![Vec::new(); scenario.arms.len()];
        for sample in samples {
            by_arm[sample.arm].push(sample);
        }
        let mut series = BTreeMap::new();
        for (number, (arm, samples)) in scenario.arms.iter().zip(by_arm).enumerate() {
            // A job without copies has no outcome.
            for job in (0..arm.setting.jobs.len()).filter(|&job| arm.setting.jobs[job].copies > 0) {
                for world in [World::Sim, World::Host] {
                    let collected = Series::collect(arm, job, world, &samples, first_stage);
                    if !collected.repetitions.is_empty() {
                        series.insert((number, job, world), collected);
                    }
                }
            }
        }
        AllSeries { scenario, series }
    }

    /// The series of an arm, a job and a world.
    pub fn get(&self, arm: usize, job: usize, world: World) -> Option<&Series> {
        self.series.get(&(arm, job, world))
    }

    /// All series, by number of the arm, number of the job, and world.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, World, &Series)> {
        self.series.iter().map(|(&(arm, job, world), series)| (arm, job, world, series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::{Job, JobKind, MachineKeys, Setting, Span};

    fn job(millis: u64) -> JobOutcome {
        JobOutcome { completion_ns: Some(Span::from_millis(millis)), ..JobOutcome::default() }
    }

    #[test]
    fn copies_are_averaged_and_repetitions_are_paired_by_their_number() {
        let kind = JobKind::Cpu { threads: 1, work: None };
        let crew = |copies| Job::new("crew", copies, kind.clone());
        let other = Job { name: "other".into(), ..crew(1) };
        let jobs = vec![other, crew(2)];
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let arm = Arm { factors: Vec::new(), setting };
        let sample = |world, repeat, millis: [u64; 3]| Sample::of(world, repeat, millis.map(job).to_vec());
        let samples =
            [sample(World::Sim, 1, [9, 3, 5]), sample(World::Host, 0, [9, 7, 7]), sample(World::Host, 1, [9, 1, 3])];
        let series = |world| Series::collect(&arm, 1, world, &samples.each_ref(), u32::MAX);
        assert_eq!(series(World::Host).values(JobQuantity::Completion), [7e6, 2e6]);
        assert_eq!(series(World::Sim).differences(&series(World::Host), JobQuantity::Completion).samples, [2e6]);
        assert_eq!(
            series(World::Sim).log_ratios(&series(World::Host), JobQuantity::Completion).samples,
            [2.0_f64.ln()]
        );
        assert!(series(World::Host).values(JobQuantity::Ssr).is_empty());
    }

    #[test]
    fn a_job_without_copies_has_no_series() {
        let text = r#"
            machine.cpus = 1
            job = [
                { name = "crowd", kind = "cpu", copies = 0 },
                { name = "crew", kind = "cpu", work = "1 ms" },
            ]
        "#;
        let scenario = scenario::read("crew.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let all = AllSeries::collect(&scenario, &[Sample::of(World::Sim, 0, vec![job(7)])], u32::MAX);
        let found: Vec<_> =
            all.iter().map(|(_, job, _, series)| (job, series.values(JobQuantity::Completion))).collect();
        assert_eq!(found, [(1, vec![7e6])]);
    }

    /// A job that took this many milliseconds in each repetition.
    fn series(millis: &[u64]) -> Series {
        let repetitions = (0..).zip(millis.iter().map(|&millis| vec![job(millis)])).collect();
        Series { repetitions, cpus: 1, first_stage: u32::MAX }
    }

    fn log_ratio(one: &[u64], other: &[u64]) -> Option<stats::Estimate> {
        series(one).log_ratios(&series(other), JobQuantity::Completion).mean()
    }

    #[test]
    fn the_ratio_of_swapped_arms_is_the_inverse() {
        let (one, other) = ([10, 9, 12], [5, 4, 7]);
        let (ratio, turned) = (log_ratio(&one, &other).unwrap(), log_ratio(&other, &one).unwrap());
        let ((low, high), (turned_low, turned_high)) = (ratio.interval.unwrap(), turned.interval.unwrap());
        for (here, there) in [(ratio.mean, turned.mean), (low, turned_high), (high, turned_low)] {
            assert!((here + there).abs() < 1e-12, "{here} {there}");
        }
    }

    #[test]
    fn pairing_removes_what_affects_both_arms_of_a_repetition() {
        // The machine was three times slower in the second repetition, for both arms.
        let (low, high) = log_ratio(&[10, 30], &[5, 15]).unwrap().interval.unwrap();
        assert!((low - 2.0_f64.ln()).abs() < 1e-12 && (high - 2.0_f64.ln()).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn pairs_without_a_ratio_are_omitted() {
        assert_eq!(log_ratio(&[0, 4, 1], &[1, 2, 0]).map(|estimate| estimate.samples), Some(1));
        assert!(log_ratio(&[0], &[1]).is_none());
    }
}
