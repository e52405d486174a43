//! Compares the simulation of this machine with the machine: `cargo bench -p rowlock-bench-measure
//! --bench twin`. Takes about five minutes; `-- 1` makes one pass.
//!
//! Fifteen settings: five kinds of job under three loads. A job is alone, with one thread for each
//! CPU; crowded, with two for each CPU; or beside as many endless hogs as CPUs, with one for each
//! CPU. Each pass runs all settings in random order, twice on the host and once in the simulator,
//! with the same random draws, and takes the completion time of the job. The prediction is the
//! median of the simulator, and the measurement that of the host. The noise is the median
//! difference between the two host runs of a pass, which even a perfect prediction would have. The
//! list of settings was fixed before the first measurement.
//!
//! A second table has the placement of the simulated teams: the shares of windows of a tick in
//! which they run side by side, stacked on one CPU, or alternating. A trace of the host's context
//! switches can be judged by the same rule (`measure::states::placement`).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use measure::interleaving;
use measure::sample::JobQuantity;
use measure::states::Placement;
use measure::states::placement::Stints;
use measure::two_worlds::TwoWorlds;
use measure::world::Worlds;
use scenario::result::World;
use scenario::{JobKind, Machine, Setting};

const PASSES: u32 = 9;
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

/// A setting, and its results in each pass: predicted, measured, and measured again.
struct SettingResult {
    kind: &'static str,
    load: &'static str,
    setting: Setting,
    times: Vec<[f64; 3]>,
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
            SettingResult { kind, load, setting: scenario.arms[0].setting.clone(), times: Vec::new() }
        })
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], values[middle]) } else { values[middle] }
}

impl SettingResult {
    fn predicted(&self) -> f64 {
        median(self.times.iter().map(|times| times[0]))
    }

    fn measured(&self) -> f64 {
        median(self.times.iter().flat_map(|times| [times[1], times[2]]))
    }

    fn difference(&self) -> f64 {
        self.predicted() / self.measured() - 1.0
    }

    /// The mean placement of the team in so many simulations, if it has one.
    fn placement(&self, twin: &Machine, passes: u32) -> Option<[f64; 3]> {
        let JobKind::Barrier { threads, .. } = self.setting.jobs[0].kind else { return None };
        let machine = self.setting.machine.complete(twin);
        let mut sums = [0.0; 3];
        for pass in 0..passes {
            let mut stints = Stints::new(0..threads, machine.cpus);
            let outcome = sim::run_observed(&machine, &self.setting, SEED + u64::from(pass), &mut stints).unwrap();
            let end = policy::Instant::ZERO + outcome.jobs[0].completion_ns.unwrap();
            let placement = Placement::of(&stints.finish(end), machine.tick).unwrap();
            for (sum, share) in sums.iter_mut().zip([placement.side_by_side, placement.stacked, placement.alternating])
            {
                *sum += share / f64::from(passes);
            }
        }
        Some(sums)
    }

    fn noise(&self) -> f64 {
        median(self.times.iter().map(|times| (times[1] / times[2] - 1.0).abs()))
    }
}

fn main() {
    host::child::run_if_asked();
    let calibration = host::load_or_measure(false).unwrap();
    calibration.notes.iter().for_each(|note| println!("{note}"));
    let (cpus, twin) = (calibration.machine.cpus, host::twin(&calibration));
    let host = host::Host { program: std::env::current_exe().unwrap(), calibration };
    let worlds = TwoWorlds::new(Some(host), NonZeroUsize::MIN);
    let mut entries = list(cpus);
    let began = Instant::now();
    let wanted = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(PASSES);
    let mut passes = 0;
    while passes < wanted && began.elapsed() < TIME_LIMIT {
        for (_, number) in interleaving::rounds(entries.len(), passes..passes + 1, SEED) {
            let entry = &mut entries[number];
            let times = [World::Sim, World::Host, World::Host].map(|world| {
                let executed =
                    worlds.run(world, &entry.setting, SEED + u64::from(passes), false, &AtomicBool::new(false));
                JobQuantity::Completion.of(&executed.unwrap().outcome.jobs[0]).unwrap() / 1e6
            });
            entry.times.push(times);
        }
        passes += 1;
    }
    println!(
        "{cpus} CPUs, CS {} and {} to wake, tick {}, slice {}; {passes} passes in {:.0} s\n",
        twin.context_switch,
        twin.wakeup_cost,
        twin.tick,
        twin.slice,
        began.elapsed().as_secs_f64()
    );
    println!(
        "| job | load | predicted (ms) | measured (ms) | difference | duplicates |\n|---|---|---:|---:|---:|---:|"
    );
    for entry in &entries {
        let SettingResult { kind, load, .. } = entry;
        let (predicted, measured) = (entry.predicted(), entry.measured());
        let (difference, noise) = (100.0 * entry.difference(), 100.0 * entry.noise());
        println!("| {kind} | {load} | {predicted:.1} | {measured:.1} | {difference:+.1} % | {noise:.1} % |");
    }
    println!("\n| team, simulated | load | side by side | stacked | alternating |\n|---|---|---:|---:|---:|");
    for entry in &entries {
        let Some(shares) = entry.placement(&twin, passes) else { continue };
        let [side_by_side, stacked, alternating] = shares.map(|share| 100.0 * share);
        println!("| {} | {} | {side_by_side:.0} % | {stacked:.0} % | {alternating:.0} % |", entry.kind, entry.load);
    }
    let differences = || entries.iter().map(|entry| 100.0 * entry.difference().abs());
    let largest = differences().fold(0.0, f64::max);
    let noise = median(entries.iter().map(|entry| 100.0 * entry.noise()));
    println!(
        "\nmedian difference {:.1} %, largest {largest:.1} %; median of the duplicates {noise:.1} %",
        median(differences())
    );
}
