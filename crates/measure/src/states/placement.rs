//! How the threads of a team share the CPUs: stacked on one, side by side, or alternating.
//!
//! Time is divided into windows of equal length. The running times in a window decide its
//! state:
//!
//! * **side by side**: several of them ran at once, for at least half of the time in which any did;
//! * **stacked**: else, if one CPU had at least nine tenths of their running time;
//! * **alternating**: else, they ran mostly one at a time, on different CPUs.
//!
//! A window in which none of them ran has no state. The intervals come from a simulation
//! ([`Stints`]) or from the context switches that a kernel has recorded ([`recorded`]), so both
//! worlds are judged by the same rule.

use host::HostRun;
use policy::{CpuId, Instant, Span, ThreadId};
use sim::observer::{CpuState, Observer};
use sys::perf::switches;

/// An interval in which a thread ran on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// The CPU.
    pub cpu: CpuId,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
}

/// The shares of the windows with a state, each 0 to 1. They sum up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Several threads at once.
    pub side_by_side: f64,
    /// One CPU.
    pub stacked: f64,
    /// One at a time, on different CPUs.
    pub alternating: f64,
}

impl Placement {
    /// The placement of a team with these stints, in any order, by windows of this length. Returns
    /// `None` if there is no time in which a thread ran.
    pub fn of(stints: &[Stint], window: Span) -> Option<Placement> {
        let window = window.as_nanos().max(1);
        let mut parts: Vec<(u64, Stint)> = Vec::new();
        for &stint in stints {
            let (mut from, to) = (stint.from.as_nanos(), stint.to.as_nanos());
            while from < to {
                let number = from / window;
                let end = (number + 1).saturating_mul(window).min(to);
                let (from_then, to_then) = (Instant::from_nanos(from), Instant::from_nanos(end));
                parts.push((number, Stint { cpu: stint.cpu, from: from_then, to: to_then }));
                from = end;
            }
        }
        parts.sort_by_key(|&(number, Stint { cpu, from, .. })| (number, cpu, from));
        let states = || parts.chunk_by(|one, other| one.0 == other.0).map(State::of_window);
        let share = |state| states().filter(|of_window| *of_window == state).count() as f64 / states().count() as f64;
        (!parts.is_empty()).then(|| Placement {
            side_by_side: share(State::SideBySide),
            stacked: share(State::Stacked),
            alternating: share(State::Alternating),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SideBySide,
    Stacked,
    Alternating,
}

impl State {
    /// The state of a window with these parts of stints, sorted by CPU: at least one.
    fn of_window(parts: &[(u64, Stint)]) -> State {
        let length = |part: &(u64, Stint)| part.1.to.since(part.1.from).as_nanos();
        let total: u64 = parts.iter().map(length).sum();
        let of_cpus = parts.chunk_by(|one, other| one.1.cpu == other.1.cpu);
        let most = of_cpus.map(|parts| parts.iter().map(length).sum()).max().unwrap_or(0_u64);
        // How many threads run changes at these moments.
        let begins = parts.iter().map(|(_, stint)| (stint.from, 1));
        let mut changes: Vec<(Instant, i64)> = begins.chain(parts.iter().map(|(_, stint)| (stint.to, -1))).collect();
        changes.sort_unstable();
        let (mut running, mut any, mut several) = (0, 0, 0);
        for pair in changes.windows(2) {
            running += pair[0].1;
            let span = pair[1].0.since(pair[0].0).as_nanos();
            any += if running > 0 { span } else { 0 };
            several += if running > 1 { span } else { 0 };
        }
        match () {
            () if 2 * several >= any => State::SideBySide,
            () if 10 * most >= 9 * total => State::Stacked,
            () => State::Alternating,
        }
    }
}

/// Records the stints of the threads of one job in a simulation. A switch belongs to no thread.
#[derive(Clone, Debug)]
pub struct Stints {
    threads: std::ops::Range<u32>,
    running: Vec<Option<Instant>>,
    stints: Vec<Stint>,
}

impl Stints {
    /// Of the threads with these numbers, on a machine with this many CPUs.
    pub fn new(threads: std::ops::Range<u32>, cpus: u32) -> Stints {
        Stints { threads, running: vec![None; cpus as usize], stints: Vec::new() }
    }

    /// The stints of a run that ended at this moment.
    pub fn finish(mut self, end: Instant) -> Vec<Stint> {
        (0..self.running.len() as u32).for_each(|cpu| self.end(CpuId(cpu), end));
        self.stints
    }

    fn end(&mut self, cpu: CpuId, at: Instant) {
        let began = self.running[cpu.index()].take();
        self.stints.extend(began.map(|from| Stint { cpu, from, to: at }));
    }

    fn is_member(&self, thread: ThreadId) -> bool {
        self.threads.contains(&thread.0)
    }
}

impl Observer for Stints {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        self.end(cpu, at);
        if let CpuState::Running(thread) = state
            && self.is_member(thread)
        {
            self.running[cpu.index()] = Some(at);
        }
    }
}

/// The stints of a job's threads in a run on the host, from its start to its completion. The
/// recording began before the run. Returns `None` if the job has no completion.
pub fn recorded(recording: &[switches::Stint], run: &HostRun, job: usize) -> Option<Vec<Stint>> {
    let length = run.outcome.jobs[job].completion_ns?;
    let at = |time: std::time::Duration| {
        let since = (time.as_nanos() as u64).saturating_sub(run.began.as_nanos());
        Instant::from_nanos(since.min(length.as_nanos()))
    };
    let own = recording.iter().filter(|stint| run.threads[job].iter().any(|id| id.unsigned_abs() == stint.thread));
    let stints = own.map(|stint| Stint { cpu: CpuId(stint.cpu), from: at(stint.from), to: at(stint.to) });
    Some(stints.filter(|stint| stint.from < stint.to).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In microseconds.
    fn stint(cpu: u32, from: u64, to: u64) -> Stint {
        let at = |micros| Instant::from_nanos(1_000 * micros);
        Stint { cpu: CpuId(cpu), from: at(from), to: at(to) }
    }

    fn shares(stints: &[Stint]) -> Option<[f64; 3]> {
        let placement = Placement::of(stints, Span::from_micros(100))?;
        Some([placement.side_by_side, placement.stacked, placement.alternating])
    }

    #[test]
    fn threads_that_run_at_once_are_side_by_side() {
        assert_eq!(shares(&[stint(0, 0, 100), stint(1, 0, 100)]), Some([1.0, 0.0, 0.0]));
        // For half of the time.
        assert_eq!(shares(&[stint(0, 0, 60), stint(1, 30, 60)]), Some([1.0, 0.0, 0.0]));
        assert_eq!(shares(&[stint(0, 0, 60), stint(1, 31, 60)]), Some([0.0, 0.0, 1.0]));
    }

    #[test]
    fn threads_that_run_one_at_a_time_are_stacked_on_one_cpu_and_alternate_on_several() {
        assert_eq!(shares(&[stint(3, 0, 40), stint(3, 50, 90)]), Some([0.0, 1.0, 0.0]));
        assert_eq!(shares(&[stint(3, 0, 90), stint(1, 90, 100)]), Some([0.0, 1.0, 0.0]));
        assert_eq!(shares(&[stint(3, 0, 89), stint(1, 89, 100)]), Some([0.0, 0.0, 1.0]));
    }

    #[test]
    fn a_stint_counts_in_each_window_and_windows_without_any_count_nowhere() {
        // Stacked in the first two windows, side by side in the fifth.
        let stints = [stint(0, 10, 150), stint(1, 410, 470), stint(0, 400, 500)];
        assert_eq!(shares(&stints), Some([1.0 / 3.0, 2.0 / 3.0, 0.0]));
        assert_eq!(shares(&[stint(0, 7, 7)]), None);
        assert_eq!(shares(&[]), None);
    }

    #[test]
    fn a_recording_counts_for_the_threads_of_the_job_while_it_runs() {
        use scenario::result::{JobOutcome, MachineOutcome, Outcome};
        let job = JobOutcome { completion_ns: Some(Span::from_micros(100)), ..JobOutcome::default() };
        let run = HostRun {
            outcome: Outcome { jobs: vec![JobOutcome::default(), job], machine: MachineOutcome::default() },
            began: Instant::from_nanos(1_000_000),
            threads: vec![vec![7], vec![8, 9]],
            cut_off: Vec::new(),
            timeline: Vec::new(),
            records: Vec::new(),
            event_logs: Vec::new(),
        };
        let recorded_stint = |thread, cpu, from, to| {
            let [from, to] = [from, to].map(std::time::Duration::from_micros);
            switches::Stint { thread, cpu, from, to }
        };
        let recording = [
            recorded_stint(8, 0, 900, 950),
            recorded_stint(8, 0, 990, 1_020),
            recorded_stint(7, 1, 1_000, 1_050),
            recorded_stint(9, 1, 1_050, 1_200),
        ];
        assert_eq!(recorded(&recording, &run, 1), Some(vec![stint(0, 0, 20), stint(1, 50, 100)]));
        assert_eq!(recorded(&recording, &run, 0), None, "it has not ended");
    }

    #[test]
    fn a_simulated_team_on_one_cpu_is_stacked_and_one_on_two_is_side_by_side() {
        use scenario::{Compute, Distribution, Job, JobKind, Machine, MachineKeys, Setting};
        for (cpus, expected) in [(1, [0.0, 1.0, 0.0]), (2, [1.0, 0.0, 0.0])] {
            let compute = Compute::Drawn(Distribution::Normal { mean: Span::from_micros(50), sd: Span::ZERO });
            let waiting = "2cs+".parse().unwrap();
            let kind = JobKind::Barrier { threads: 2, compute, rounds: 1_000, waiting };
            let jobs = vec![Job::new("team", 1, kind)];
            let machine = MachineKeys::default();
            let setting = Setting { machine, jobs, coscheduling: None, keep_running: false };
            let mut observer = Stints::new(0..2, cpus);
            let outcome = sim::run_observed(&Machine::with_cpus(cpus), &setting, 1, &mut observer).unwrap();
            let end = Instant::ZERO + outcome.jobs[0].completion_ns.unwrap();
            let placement = Placement::of(&observer.finish(end), Span::from_millis(4)).unwrap();
            assert_eq!([placement.side_by_side, placement.stacked, placement.alternating], expected);
        }
    }
}
