//! Compares the simulation of this machine with the machine: `cargo bench -p rowlock-bench-measure
//! --bench twin`. Takes about five minutes; `-- 1` makes one pass.
//!
//! Fifteen settings: five kinds of job under three loads. A job is alone, with one thread for each
//! CPU; crowded, with two for each CPU; or beside as many endless hogs as CPUs, with one for each
//! CPU. First each is simulated with eleven seeds for each pass, 99 in all. The prediction is the
//! median, and the range reaches from the 10th to the 90th percentile: some settings have two
//! states, and chance decides which one a run is in. Then each pass runs all settings in random
//! order, twice on the host, with the random draws of one of these seeds. The measurement is the
//! median of all these runs. The noise is the median difference between the two of a pass, which
//! even a perfect prediction would have. The list of settings was fixed before the first
//! measurement.
//!
//! A second table has the placement of teams: the shares of windows of a tick in which they run side
//! by side, stacked on one CPU, or alternating (`measure::states::placement`). On the host, two more
//! runs of each pass are recorded by the kernel: a switch takes longer then, so their times do not
//! count. If the kernel refuses, the table says why, and has only the simulated shares.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::collections::BTreeSet;
use std::error::Error;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use measure::interleaving;
use measure::sample::JobQuantity;
use measure::states::Placement;
use measure::states::placement::{Stint, Stints, recorded};
use measure::two_worlds::TwoWorlds;
use scenario::{JobKind, Machine, Setting};
use sys::perf::switches::Recording;

const PASSES: u32 = 9;
/// The simulations of a setting for each pass.
const SIMULATIONS: u32 = 11;
/// No pass begins after this time.
const TIME_LIMIT: Duration = Duration::from_secs(300);
const SEED: u64 = 1;

/// The threads of the job and of the hogs, for each CPU.
const LOADS: [(&str, u32, u32); 3] = [("alone", 1, 0), ("crowded", 2, 0), ("hogs", 1, 1)];

/// A kind of job: its name, its keys, and its number of rounds under each load, chosen for similar
/// durations. A pipeline has its threads at the compute stage.
const KINDS: [(&str, &str, [u32; 3]); 5] = [
    ("cpu-bound", "kind = 'cpu'\nthreads = THREADS\nwork = '400 ms'", [1, 1, 1]),
    (
        "barrier fine",
        "kind = 'barrier'\nthreads = THREADS\ncompute = { mean = '50 us', sd = '5 us' }\nrounds = ROUNDS\nwaiting = '2cs+'",
        [5_000, 3_000, 150],
    ),
    (
        "barrier coarse",
        "kind = 'barrier'\nthreads = THREADS\ncompute = { mean = '5 ms', sd = '0.5 ms' }\nrounds = ROUNDS\nwaiting = 'always-block'",
        [80, 50, 40],
    ),
    (
        "lock",
        "kind = 'lock'\nthreads = THREADS\ncompute = { mean = '20 us', sd = '4 us' }\ncritical = { mean = '5 us', sd = '1 us' }\n\
         rounds = ROUNDS\nwaiting = '2cs+'",
        [10_000, 6_000, 5_000],
    ),
    (
        "pipeline",
        "kind = 'pipeline'\nbuffers = 8\nrounds = ROUNDS\nstructure = 'threads'\nstages = [\n\
         { name = 'read', kind = 'io', compute = '20 us', device = '0.4 ms' },\n\
         { name = 'work', kind = 'compute', compute = { mean = '1 ms', sd = '0.1 ms' }, fork = THREADS },\n\
         { name = 'write', kind = 'io', compute = '20 us', device = '0.4 ms' } ]",
        [600, 600, 400],
    ),
];

/// A setting and its results. Times are in milliseconds, and placements shares of time: side by
/// side, stacked and alternating. Only teams have one.
struct SettingResult {
    kind: &'static str,
    load: &'static str,
    setting: Setting,
    predicted: Vec<f64>,
    predicted_placements: Vec<[f64; 3]>,
    /// Of the two runs of each pass.
    measured: Vec<[f64; 2]>,
    measured_placements: Vec<[f64; 3]>,
}

fn list(cpus: u32) -> Vec<SettingResult> {
    let of_kind = |(kind, keys, rounds): (&'static str, &'static str, [u32; 3])| {
        LOADS.into_iter().zip(rounds).map(move |((load, threads, hogs), rounds)| {
            let keys = keys.replace("THREADS", &(threads * cpus).to_string()).replace("ROUNDS", &rounds.to_string());
            let mut text = format!("[machine]\nlike = 'host'\n[[job]]\nname = 'job'\n{keys}\n");
            if hogs > 0 {
                text += &format!("[[job]]\nname = 'hogs'\nkind = 'cpu'\nthreads = {}\n", hogs * cpus);
            }
            let scenario = scenario::read("twin", text.as_bytes()).unwrap();
            SettingResult {
                kind,
                load,
                setting: scenario.arms[0].setting.clone(),
                predicted: Vec::new(),
                predicted_placements: Vec::new(),
                measured: Vec::new(),
                measured_placements: Vec::new(),
            }
        })
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// The value that this part of the values does not exceed, from 0 to 1.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let place = part * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// From the 10th to the 90th percentile.
fn range(values: impl Iterator<Item = f64> + Clone) -> RangeInclusive<f64> {
    quantile(values.clone(), 0.1)..=quantile(values, 0.9)
}

/// A judgement by the difference from the prediction, and by the range of simulated outcomes.
fn verdict(is_near: bool, is_in_range: bool) -> &'static str {
    if is_near {
        "near"
    } else if is_in_range {
        "in the range"
    } else {
        "**beyond**"
    }
}

/// One of the three shares.
fn shares(placements: &[[f64; 3]], state: usize) -> impl Iterator<Item = f64> + Clone {
    placements.iter().map(move |shares| 100.0 * shares[state])
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// The mean of one of the shares, and its range.
fn cell(placements: &[[f64; 3]], state: usize) -> String {
    if placements.is_empty() {
        return "-".to_owned();
    }
    let range = range(shares(placements, state));
    format!("{:.0} % ({:.0} to {:.0})", mean(shares(placements, state)), range.start(), range.end())
}

impl SettingResult {
    /// The threads of the job, if it is a team.
    fn team(&self) -> Option<u32> {
        let JobKind::Barrier { threads, .. } = self.setting.jobs[0].kind else { return None };
        Some(threads)
    }

    fn simulate(&mut self, twin: &Machine, seed: u64) {
        let machine = self.setting.machine.complete(twin);
        let mut stints = Stints::new(0..self.team().unwrap_or(0), machine.cpus);
        let outcome = sim::run_observed(&machine, &self.setting, seed, &mut stints).unwrap();
        self.predicted.push(JobQuantity::Completion.of(&outcome.jobs[0]).unwrap() / 1e6);
        let end = policy::Instant::ZERO + outcome.jobs[0].completion_ns.unwrap();
        self.predicted_placements.extend(placement(&stints.finish(end), twin));
    }

    fn measure(&mut self, worlds: &TwoWorlds, seed: u64) {
        self.measured.push([(); 2].map(|()| {
            let (run, _) = worlds.run_on_host(&self.setting, seed, Duration::MAX, &AtomicBool::new(false)).unwrap();
            JobQuantity::Completion.of(&run.outcome.jobs[0]).unwrap() / 1e6
        }));
    }

    /// Runs once more on the host, and records the placement of a team.
    fn record(&mut self, worlds: &TwoWorlds, twin: &Machine, seed: u64) -> Result<(), Box<dyn Error>> {
        if self.team().is_some() {
            let recording = Recording::start()?;
            let (run, _) = worlds.run_on_host(&self.setting, seed, Duration::MAX, &AtomicBool::new(false)).unwrap();
            let stints = recorded(&recording.finish()?, &run, 0).unwrap();
            self.measured_placements.extend(placement(&stints, twin));
        }
        Ok(())
    }

    fn prediction(&self) -> f64 {
        median(self.predicted.iter().copied())
    }

    fn measurement(&self) -> f64 {
        median(self.measured.iter().flatten().copied())
    }

    fn difference(&self) -> f64 {
        self.prediction() / self.measurement() - 1.0
    }

    fn noise(&self) -> f64 {
        median(self.measured.iter().map(|times| (times[0] / times[1] - 1.0).abs()))
    }

    fn print_times(&self) {
        let (predicted, measured) = (self.prediction(), self.measurement());
        let (difference, noise) = (100.0 * self.difference(), 100.0 * self.noise());
        let range = range(self.predicted.iter().copied());
        println!(
            "| {} | {} | {predicted:.1} | {:.1} to {:.1} | {measured:.1} | {difference:+.1} % | {noise:.1} % | {} |",
            self.kind,
            self.load,
            range.start(),
            range.end(),
            verdict(difference.abs() <= 25.0, range.contains(&measured)),
        );
    }

    fn print_placements(&self) {
        let (predicted, measured) = (&self.predicted_placements, &self.measured_placements);
        if predicted.is_empty() {
            return;
        }
        print!("| {} | {} ", self.kind, self.load);
        (0..3).for_each(|state| print!("| {} | {} ", cell(predicted, state), cell(measured, state)));
        let all = |holds: &dyn Fn(usize) -> bool| !measured.is_empty() && (0..3).all(holds);
        let near = |state| (mean(shares(predicted, state)) - mean(shares(measured, state))).abs() <= 10.0;
        let within = |state| range(shares(predicted, state)).contains(&mean(shares(measured, state)));
        println!("| {} |", if measured.is_empty() { "-" } else { verdict(all(&near), all(&within)) });
    }
}

fn placement(stints: &[Stint], twin: &Machine) -> Option<[f64; 3]> {
    let Placement { side_by_side, stacked, alternating } = Placement::of(stints, twin.tick)?;
    Some([side_by_side, stacked, alternating])
}

fn main() {
    host::child::run_if_asked();
    let calibration = host::load_or_measure(false).unwrap();
    calibration.notes.iter().for_each(|note| println!("{note}"));
    let (cpus, twin) = (calibration.machine.cpus, host::twin(&calibration));
    let host = host::Host { program: std::env::current_exe().unwrap(), calibration };
    let worlds = TwoWorlds::new(Some(host), NonZeroUsize::MIN);
    let mut entries = list(cpus);
    let wanted = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(PASSES);
    let seed = |number: u32| SEED + u64::from(number);
    let began = Instant::now();
    for entry in &mut entries {
        (0..wanted * SIMULATIONS).for_each(|number| entry.simulate(&twin, seed(number)));
    }
    let simulated = began.elapsed();
    let (mut passes, mut missing) = (0, BTreeSet::new());
    while passes < wanted && began.elapsed() < TIME_LIMIT {
        for (_, number) in interleaving::rounds(entries.len(), passes..passes + 1, SEED) {
            entries[number].measure(&worlds, seed(passes));
            for _ in 0..2 {
                missing.extend(entries[number].record(&worlds, &twin, seed(passes)).err().map(|why| why.to_string()));
            }
        }
        passes += 1;
    }
    println!(
        "{cpus} CPUs, CS {} and {} to wake, tick {}, slice {}; {} simulations of each in {:.0} s, {passes} passes in \
         {:.0} s\n",
        twin.context_switch,
        twin.wakeup_cost,
        twin.tick,
        twin.slice,
        wanted * SIMULATIONS,
        simulated.as_secs_f64(),
        (began.elapsed() - simulated).as_secs_f64()
    );
    println!(
        "| job | load | predicted (ms) | 10 % to 90 % | measured (ms) | difference | duplicates | within 25 %, or in \
         the range |\n|---|---|---:|---:|---:|---:|---:|---|"
    );
    entries.iter().for_each(SettingResult::print_times);
    println!(
        "\n| team | load | side by side: predicted | measured | stacked: predicted | measured | alternating: predicted \
         | measured | within 10 points, or in the range |\n|---|---|---:|---:|---:|---:|---:|---:|---|"
    );
    entries.iter().for_each(SettingResult::print_placements);
    missing.iter().for_each(|why| println!("\nThe placement of some runs was not recorded: {why}."));
    let differences = || entries.iter().map(|entry| 100.0 * entry.difference().abs());
    let largest = differences().fold(0.0, f64::max);
    let noise = median(entries.iter().map(|entry| 100.0 * entry.noise()));
    println!(
        "\nmedian difference {:.1} %, largest {largest:.1} %; median of the duplicates {noise:.1} %",
        median(differences())
    );
}
