//! Predictions: the stage costs of the runs with default priorities become a scenario, which is
//! simulated under every rule.
//!
//! A run of columnsort is several pipelines in sequence, and each becomes a scenario. In each
//! round, a stage computes for its mean processor time, and then uses the device for the rest of
//! the time in its calls. That rest includes the time that requests waited for each other, so the
//! simulated device serves as many requests at once as there are I/O stages. The time outside of
//! the pipelines is added as measured.

use std::sync::atomic::AtomicBool;

use pipeline::{Place, RunReport};
use policy::priority::{PriorityRule, StageKind};
use serde::Serialize;

use super::arms::Variant;
use super::runs::Observation;
use super::simulated::clock;
use crate::ScenarioFile;
use measure::world::{Failure, Worlds};
use stats;

/// How often a scenario is simulated. The order in which threads begin is random.
const SEEDS: u64 = 3;

/// A rule's prediction and measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The program.
    pub variant: Variant,
    /// The rule.
    pub arm: String,
    /// The predicted time, in seconds.
    pub predicted_s: f64,
    /// The mean of the measured time, in seconds.
    pub measured_s: f64,
    /// How much longer the prediction is, in percent of the measurement.
    pub gap_percent: f64,
    /// The predicted time over that with default priorities.
    pub predicted_times_as_long: f64,
    /// The measured time over that with default priorities.
    pub measured_times_as_long: f64,
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// The program cannot be expressed as a scenario.
    #[error("no prediction of the {} program: {why}", variant.name())]
    Unsupported {
        /// The program.
        variant: Variant,
        /// The reason.
        why: String,
    },
    /// A simulation failed.
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// Predicts the measured times of a program from those runs that have reports of its pipelines, one
/// report per pipeline. Also returns the scenarios.
///
/// # Errors
/// [`PredictionError`].
pub fn predict(
    variant: Variant,
    runs: &[Observation],
    baseline: &str,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(Vec<Prediction>, Vec<ScenarioFile>), PredictionError> {
    let mean = |values: Vec<f64>| stats::mean(&values).map(|estimate| estimate.mean);
    let of_it = || runs.iter().filter(|run| run.variant == variant);
    let measured = |rule: &str| mean(of_it().filter(|run| run.arm == rule).map(|run| run.clock_s).collect());
    let reports: Vec<&[RunReport]> =
        of_it().map(|run| run.reports.as_slice()).filter(|reports| !reports.is_empty()).collect();
    let Some(measured_by_default) = measured(baseline) else { return Ok((Vec::new(), Vec::new())) };
    let rules: Vec<(PriorityRule, f64)> =
        PriorityRule::ALL.into_iter().filter_map(|rule| Some((rule, measured(rule.name())?))).collect();
    let names: Vec<&str> = rules.iter().map(|(rule, _)| rule.name()).collect();
    let written = scenarios(variant, &reports, &names)?;

    // The clock time outside of the pipelines.
    let in_a_run = |run: &&[RunReport]| run.iter().map(|report| report.clock().as_secs_f64()).sum();
    let in_pipelines = mean(reports.iter().map(in_a_run).collect()).unwrap_or(0.0);
    let outside = (measured_by_default - in_pipelines).max(0.0);
    let mut predicted = vec![outside; rules.len()];
    for of_pass in &written {
        let scenario = of_pass.read()?;
        for (arm, sum) in scenario.arms.iter().zip(&mut predicted) {
            for seed in 0..SEEDS {
                *sum += clock(&arm.setting, scenario.experiment.seed + seed, worlds, cancel)? / SEEDS as f64;
            }
        }
    }
    let by_default = rules.iter().zip(&predicted).find(|((rule, _), _)| rule.name() == baseline);
    let predicted_by_default = by_default.map_or(f64::NAN, |(_, &predicted)| predicted);
    let rows = rules.iter().zip(&predicted).map(|(&(rule, measured_s), &predicted_s)| Prediction {
        variant,
        arm: rule.name().to_owned(),
        predicted_s,
        measured_s,
        gap_percent: (predicted_s / measured_s - 1.0) * 100.0,
        predicted_times_as_long: predicted_s / predicted_by_default,
        measured_times_as_long: measured_s / measured_by_default,
    });
    Ok((rows.collect(), written))
}

/// A scenario for each pipeline of the program.
fn scenarios(variant: Variant, runs: &[&[RunReport]], rules: &[&str]) -> Result<Vec<ScenarioFile>, PredictionError> {
    let unsupported = |why: &str| PredictionError::Unsupported { variant, why: why.to_owned() };
    let first = runs.first().ok_or_else(|| unsupported("no run has reports"))?;
    if first.is_empty() {
        return Err(unsupported("it ran no pipeline"));
    }
    if runs.iter().any(|run| run.len() != first.len()) {
        return Err(unsupported("its runs have different numbers of pipelines"));
    }
    let pass = |number: usize| {
        let of_all: Vec<&RunReport> = runs.iter().map(|run| &run[number]).collect();
        let text = scenario(variant, number, &of_all, rules).map_err(|why| unsupported(&why))?;
        Ok(ScenarioFile { file: format!("{}-pass-{}.toml", variant.name(), number + 1), text })
    };
    (0..first.len()).map(pass).collect()
}

/// One pipeline, with the mean costs of its stages over all runs.
fn scenario(variant: Variant, pass: usize, runs: &[&RunReport], rules: &[&str]) -> Result<String, String> {
    let first = runs.first().ok_or("no run has reports")?;
    let [pipeline] = first.pipelines.as_slice() else {
        return Err(format!("program `{}` has {} pipelines at once", first.program, first.pipelines.len()));
    };
    if let Some(stage) = first.stages.iter().find(|stage| stage.is_fused || stage.place == Place::Junction) {
        return Err(format!("stage `{}` is fused, or a junction", stage.name));
    }
    let rounds = pipeline.rounds.max(1);
    let mut stages = String::new();
    let mut depth = 0;
    for stage in &first.stages {
        let mean = |of: fn(&pipeline::StageReport) -> u64| {
            let all = runs.iter().filter_map(|run| run.stage(&stage.name)).map(of);
            all.sum::<u64>() / (runs.len() as u64 * rounds)
        };
        let cpu = mean(|stage| stage.user_ns + stage.system_ns);
        let device = mean(|stage| stage.busy_ns).saturating_sub(cpu);
        if stage.kind == StageKind::Io {
            depth += stage.copies;
        }
        let device = match stage.kind {
            StageKind::Compute => String::new(),
            _ => format!(", device = \"{} ns\"", device.max(1)),
        };
        let pipeline::StageReport { name, kind, copies, .. } = stage;
        stages += &format!(
            "    {{ name = \"{name}\", kind = \"{kind}\", compute = \"{} ns\"{device}, fork = {copies} }},\n",
            cpu.max(1)
        );
    }
    let list = rules.iter().map(|rule| format!("\"{rule}\"")).collect::<Vec<_>>().join(", ");
    let (pass, name, runs) = (pass + 1, variant.name(), runs.len());
    let (depth, buffers) = (depth.max(1), pipeline.buffers.max(1));
    Ok(format!(
        "# Pass {pass} of the {name} columnsort, with the costs of its stages measured in {runs} runs.\n\
         title = \"Columnsort, {name}, pass {pass}\"\n\n\
         [machine]\nlike = \"host\"\ndevice_depth = {depth}\n\n\
         [[job]]\nname = \"columnsort\"\nkind = \"pipeline\"\nbuffers = {buffers}\nrounds = {rounds}\nstructure = \"threads\"\n\
         stages = [\n{stages}]\n\n\
         [experiment]\nrepeat = {SEEDS}\nseed = 1\ncompare = \"job.columnsort.priority\"\n\n\
         [experiment.sweep]\n\"job.columnsort.priority\" = [{list}]\n",
    ))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use pipeline::{PipelineReport, StageReport};
    use scenario::result::World;

    use super::*;
    use crate::fg::arms::RULES;
    use measure::two_worlds::TwoWorlds;
    use measure::world::Executed;

    fn stage(name: &str, kind: StageKind, copies: usize, cpu_us: u64, busy_us: u64) -> StageReport {
        StageReport {
            name: name.to_owned(),
            kind,
            place: Place::Threads,
            copies,
            calls: 10,
            busy_ns: busy_us * 10_000,
            user_ns: cpu_us * 10_000,
            ..StageReport::default()
        }
    }

    /// Ten rounds of a pipeline whose disk takes 1 ms for each read and for each write.
    fn report() -> RunReport {
        RunReport {
            program: "columnsort".to_owned(),
            clock_ns: 20_000_000,
            pipelines: vec![PipelineReport { buffers: 4, rounds: 10, ..PipelineReport::default() }],
            stages: vec![
                stage("read", StageKind::Io, 1, 100, 1_100),
                stage("sort", StageKind::Compute, 2, 1_800, 1_900),
                stage("communicate", StageKind::Communicate, 1, 0, 0),
                stage("write", StageKind::Io, 1, 100, 1_100),
            ],
            ..RunReport::default()
        }
    }

    /// The simulator with a machine of two CPUs.
    struct Two(TwoWorlds);

    impl Worlds for Two {
        fn run(
            &self,
            world: World,
            setting: &scenario::Setting,
            seed: u64,
            is_watched: bool,
            cancel: &AtomicBool,
        ) -> Result<Executed, Failure> {
            let mut setting = setting.clone();
            (setting.machine.like_host, setting.machine.cpus) = (false, Some(2));
            self.0.run(world, &setting, seed, is_watched, cancel)
        }

        fn measure_command(&self, argv: &[String], cancel: &AtomicBool) -> Result<policy::Span, Failure> {
            self.0.measure_command(argv, cancel)
        }

        fn workers(&self) -> NonZeroUsize {
            self.0.workers()
        }
    }

    #[test]
    fn a_prediction_adds_the_stage_costs_and_the_time_outside_of_the_pipelines() {
        let mut runs: Vec<Observation> =
            RULES[..3].iter().map(|arm| Observation::new(arm, 0, 1.0, 0.0, 0.05)).collect();
        runs[0].reports = vec![report(), report()];
        runs.push(runs[0].clone());
        let worlds = Two(TwoWorlds::new(None, NonZeroUsize::MIN));
        let (rows, written) =
            predict(Variant::ComputeBound, &runs, "default", &worlds, &AtomicBool::new(false)).unwrap();
        assert_eq!(written.len(), 2);
        assert!(written[0].text.contains("device_depth = 2"), "{}", written[0].text);
        let read = "name = \"read\", kind = \"io\", compute = \"100000 ns\", device = \"1000000 ns\", fork = 1";
        assert!(written[0].text.contains(read), "{}", written[0].text);
        let rules: Vec<&str> = rows.iter().map(|row| row.arm.as_str()).collect();
        assert_eq!(rules, ["default", "nice-down-io", "nice-up-io"]);
        // Two passes of ten rounds, and two CPUs complete a round in 1 ms, plus beginnings and
        // ends. The time outside is 10 ms.
        for row in &rows {
            assert!((0.030..0.050).contains(&row.predicted_s), "{row:?}");
            assert!((row.gap_percent - (row.predicted_s / 0.05 - 1.0) * 100.0).abs() < 1e-9, "{row:?}");
        }
        assert_eq!((rows[0].predicted_times_as_long, rows[0].measured_times_as_long), (1.0, 1.0));
    }

    #[test]
    fn a_program_that_no_scenario_can_express_has_no_prediction() {
        let mut merged = report();
        merged.stages[1].place = Place::Junction;
        let why = scenario(Variant::IoBound, 0, &[&merged], &["default"]).unwrap_err();
        assert_eq!(why, "stage `sort` is fused, or a junction");
        assert!(scenarios(Variant::IoBound, &[&[]], &["default"]).is_err());
    }
}
