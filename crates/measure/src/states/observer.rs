//! Observes a simulation and counts the threads in each state.

use std::ops::Range;

use policy::{CpuId, Instant, JobId, ThreadId};
use scenario::{JobKind, Setting};
use sim::observer::{CpuState, LeaveReason, ThreadPhase};
use sim::scheduler::ReadyReason;

use super::natives::NativeCpuTracker;
use super::rounds::first_copies;
use super::timeline::{Beginning, Buckets};
use super::{EffectiveLoad, JobStates, Rounds, RunStates, State, alternation, transition};

/// The most jobs that are observed. More would not be readable in a figure.
const MOST_JOBS: usize = 4;

/// Observes the jobs of a run whose threads wait for each other. Of copies it observes the first.
#[derive(Clone, Debug)]
pub struct Observer {
    jobs: Vec<Job>,
    cpus: Vec<CpuState>,
    machine_cpus: u32,
    /// The numbers of runnable threads and of all threads.
    load: Buckets<2>,
    now: Instant,
}

#[derive(Clone, Debug)]
struct Job {
    name: String,
    /// Its number in the run.
    id: JobId,
    /// Its threads, by their numbers in the run.
    numbers: Range<usize>,
    threads: Vec<Thread>,
    buckets: Buckets<{ State::SIMULATED.len() }>,
    beginning: Beginning,
    natives: NativeCpuTracker,
    /// The rounds of its barrier, if it has one.
    rounds: Option<Rounds>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    phase: ThreadPhase,
    has_cpu: bool,
    /// `None` before its job has arrived and after it has ended.
    state: Option<State>,
}

impl Observer {
    /// An observer for a run of this setting on a machine with `cpus` CPUs.
    pub fn new(setting: &Setting, cpus: u32) -> Observer {
        let has_waits = |kind: &JobKind| !matches!(kind, JobKind::Cpu { .. } | JobKind::Command { .. });
        let observed = first_copies(setting, cpus).filter(|(job, ..)| has_waits(&job.kind)).take(MOST_JOBS);
        let jobs = observed.map(|(job, id, numbers)| {
            let name = if job.copies > 1 { format!("{}.0", job.name) } else { job.name.clone() };
            let rounds = matches!(job.kind, JobKind::Barrier { .. }).then(|| Rounds::new(numbers.len()));
            Job {
                name,
                id,
                natives: NativeCpuTracker::new(numbers.len()),
                rounds,
                threads: vec![Thread { phase: ThreadPhase::Computation, has_cpu: false, state: None }; numbers.len()],
                numbers,
                buckets: Buckets::new(),
                // No thread exists before the job arrives, even if it arrives at the start.
                beginning: Beginning::new(),
            }
        });
        let jobs = jobs.collect();
        Observer { jobs, cpus: Vec::new(), machine_cpus: cpus, load: Buckets::new(), now: Instant::ZERO }
    }

    /// The observed states, up to the last event.
    pub fn into_run_states(mut self) -> RunStates {
        let end = self.now;
        let states = |mut job: Job| JobStates {
            job: job.name,
            threads: job.threads.len() as u32,
            whole: job.buckets.course(end),
            beginning: job.beginning.course(),
            natives: Some(job.natives.finish(end)),
            alternation: job.rounds.as_ref().and_then(alternation::find),
            transition: job.rounds.as_ref().and_then(transition::find),
            rounds: job.rounds,
        };
        let (runnable, all) = (self.load.level(end, 0), self.load.level(end, 1));
        let load = Some(EffectiveLoad { cpus: self.machine_cpus, runnable, all });
        RunStates { jobs: self.jobs.into_iter().map(states).collect(), load }
    }

    /// Changes the numbers of runnable threads and of all threads.
    fn change_load(&mut self, at: Instant, runnable: i32, all: i32) {
        self.load.change(at, |[of_runnable, of_all]| {
            *of_runnable = of_runnable.saturating_add_signed(runnable);
            *of_all = of_all.saturating_add_signed(all);
        });
    }

    fn thread(&mut self, at: Instant, thread: ThreadId, change: impl FnOnce(&mut Thread)) {
        self.now = at;
        if let Some(job) = self.job_of(thread) {
            job.thread(at, thread.index() - job.numbers.start, change);
        }
    }

    fn job_of(&mut self, thread: ThreadId) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.numbers.contains(&thread.index()))
    }
}

impl Job {
    fn thread(&mut self, at: Instant, thread: usize, change: impl FnOnce(&mut Thread)) {
        let thread = &mut self.threads[thread];
        let before = thread.state;
        change(thread);
        let after = thread.state;
        if before == after {
            return;
        }
        let counts = self.buckets.change(at, |counts| {
            before.into_iter().for_each(|before| counts[before as usize] -= 1);
            after.into_iter().for_each(|after| counts[after as usize] += 1);
        });
        self.beginning.change(at, counts);
    }
}

impl Thread {
    fn run(&mut self) {
        self.has_cpu = true;
        self.state = Some(match self.phase {
            ThreadPhase::Computation => State::Computing,
            ThreadPhase::Spin => State::Spinning,
            ThreadPhase::Yield | ThreadPhase::Block | ThreadPhase::End => State::Switching,
        });
    }

    fn switch(&mut self) {
        self.has_cpu = false;
        self.state = Some(State::Switching);
    }

    /// Leaves its CPU. If it is still runnable, `thread_ready` follows.
    fn leave_cpu(&mut self, how: LeaveReason) {
        match how {
            LeaveReason::Blocking | LeaveReason::Stopped => self.state = Some(State::Blocked),
            LeaveReason::Ending => self.state = None,
            LeaveReason::Preempted | LeaveReason::Yielding => {}
        }
    }
}

impl sim::observer::Observer for Observer {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, CpuState::Idle);
        }
        let before = std::mem::replace(&mut self.cpus[cpu.index()], state);
        if let CpuState::Switching { from: Some((thread, how)), .. } = before {
            match how {
                LeaveReason::Blocking | LeaveReason::Stopped => self.change_load(at, -1, 0),
                LeaveReason::Ending => self.change_load(at, -1, -1),
                LeaveReason::Preempted | LeaveReason::Yielding => {}
            }
            self.thread(at, thread, |thread| thread.leave_cpu(how));
        }
        match state {
            CpuState::Idle => {}
            CpuState::Running(thread) => {
                self.thread(at, thread, Thread::run);
                if let Some(job) = self.job_of(thread) {
                    job.natives.record_run(at, thread.index() - job.numbers.start, cpu);
                }
            }
            CpuState::Switching { from, to } => {
                for thread in from.map(|(thread, _)| thread).into_iter().chain(to) {
                    self.thread(at, thread, Thread::switch);
                }
            }
        }
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        self.thread(at, thread, |thread| {
            thread.phase = what;
            // Otherwise it continues when it next has a CPU.
            if thread.has_cpu {
                thread.run();
            }
        });
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        match why {
            ReadyReason::New => self.change_load(at, 1, 1),
            ReadyReason::Woken => self.change_load(at, 1, 0),
            ReadyReason::Preempted | ReadyReason::Yielded | ReadyReason::Moved(_) => {}
        }
        self.thread(at, thread, |thread| thread.state = Some(State::Ready));
    }

    fn thread_stopped(&mut self, at: Instant, thread: ThreadId) {
        self.change_load(at, -1, 0);
        self.thread(at, thread, |thread| thread.state = Some(State::Blocked));
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, _last: ThreadId) {
        let Some(Job { threads, rounds: Some(rounds), .. }) = self.jobs.iter_mut().find(|known| known.id == job) else {
            return;
        };
        // The last to arrive is still marked as computing.
        rounds.push(at, threads.iter().map(|thread| thread.phase != ThreadPhase::Block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::StateTimeline;
    use proptest::prelude::*;
    use scenario::{Cfs, Compute, Distribution, Machine, MachineKeys, Scheduler, Span};

    fn setting(copies: u32, threads: u32, micros: u64, waiting: &str, crowd: u32) -> Setting {
        let compute =
            Compute::Drawn(Distribution::Normal { mean: Span::from_micros(micros), sd: Span::from_micros(micros / 5) });
        let kind = JobKind::Barrier { threads, compute, rounds: 30, waiting: waiting.parse().unwrap() };
        let crew = scenario::Job::new("crew", copies, kind);
        let kind = JobKind::Cpu { threads: crowd, work: None };
        let jobs = vec![scenario::Job::new("crowd", 1, kind), crew];
        Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
    }

    fn observed(setting: &Setting, machine: &Machine) -> (RunStates, scenario::result::Outcome) {
        let mut observer = Observer::new(setting, machine.cpus);
        let outcome = sim::run_observed(machine, setting, 7, &mut observer).unwrap();
        (observer.into_run_states(), outcome)
    }

    /// Threads times nanoseconds in a state.
    fn total(course: &StateTimeline, state: State) -> f64 {
        let (_, means) = course.layers.iter().find(|(of, _)| *of == state).unwrap();
        crate::states::total(&course.edges, means)
    }

    #[test]
    fn two_threads_that_meet_once_are_in_each_state_for_the_expected_time() {
        let mut setting = setting(1, 2, 10, "always-block", 1);
        setting.jobs.remove(0);
        let JobKind::Barrier { rounds, compute, .. } = &mut setting.jobs[0].kind else { panic!("another job") };
        *rounds = 1;
        *compute = Compute::Drawn(Distribution::Normal { mean: Span::from_micros(10), sd: Span::ZERO });
        let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(1) };
        let (seen, _) = observed(&setting, &machine);
        // Two threads are runnable, except for the 10 us that one is blocked.
        let load = seen.load.unwrap();
        let length = load.all.edges[load.all.edges.len() - 1] as f64 / 1000.0;
        assert_eq!(load.all.mean(), 2.0);
        assert!((load.runnable.mean() - (2.0 - 10.0 / length)).abs() < 1e-9, "{load:?}");
        let states = seen.jobs;
        // The CPU switches to one thread in 6 us. It computes and blocks. 6 us later it is blocked
        // and the other computes, is the last to arrive, and leaves. 6 us later the first has its
        // CPU again and the run ends. During a switch between the two, both count as switching.
        let whole = &states[0].whole;
        let micros = State::SIMULATED.map(|state| (total(whole, state) / 1000.0).round() as u64);
        assert_eq!(micros, [20, 0, 30, 16, 10]);
    }

    #[test]
    fn threads_have_no_state_before_they_arrive_and_jobs_without_copies_are_not_observed() {
        let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(2) };
        let mut setting = setting(1, 1, 10, "always-block", 1);
        setting.jobs.remove(0);
        let (alone, _) = observed(&setting, &machine);
        let absent = scenario::Job { name: "absent".into(), copies: 0, ..setting.jobs[0].clone() };
        setting.jobs[0].arrival.at = Span::from_micros(500);
        setting.jobs.insert(0, absent);
        let (states, _) = observed(&setting, &machine);
        let (alone, states) = (alone.jobs, states.jobs);
        assert_eq!((states.len(), states[0].job.as_str()), (1, "crew"));
        for state in State::SIMULATED {
            assert!((total(&states[0].whole, state) - total(&alone[0].whole, state)).abs() < 1.0, "{state:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn observed_times_add_up_to_those_that_the_simulator_charges(
            copies in 1..3_u32, threads in 1..6_u32, micros in 1..40_u64, cpus in 1..5_u32, crowd in 1..4_u32,
            scheduler in proptest::sample::select(Scheduler::ALL.into_iter().filter(|scheduler| scheduler.shares_time()).collect::<Vec<_>>()),
            waiting in proptest::sample::select(vec!["always-block", "always-spin", "always-yield", "cs", "2cs+"]),
        ) {
            let setting = setting(copies, threads, micros, waiting, crowd);
            // With the slices of real kernels, a thread that yields would do so a million times.
            let us = Span::from_micros;
            let cfs = Cfs { latency: us(300), granularity: us(75), wakeup_granularity: us(100), migration_cost: us(50) };
            let machine =
                Machine { scheduler, tick: us(200), slice: us(150), timeslice: 3, cfs, ..Machine::with_cpus(cpus) };
            let (seen, outcome) = observed(&setting, &machine);
            let (states, load) = (seen.jobs, seen.load.unwrap());
            let all = f64::from(copies * threads + crowd);
            prop_assert!(load.runnable.means.iter().zip(&load.all.means).all(|(runnable, here)| *runnable >= -1e-9
                && runnable <= here && *here <= all + 1e-9), "{load:?}");
            // The job `crowd` has no barrier, and of copies only the first is observed.
            prop_assert_eq!(states.len(), 1);
            let (whole, job) = (&states[0].whole, &outcome.jobs[1]);
            prop_assert_eq!(&states[0].job, &job.job);
            for (state, charged) in [(State::Computing, job.delivered_work_ns), (State::Spinning, job.spin_ns)] {
                let (seen, charged) = (total(whole, state), charged.unwrap().as_nanos() as f64);
                prop_assert!((seen - charged).abs() < 1e-6 * charged + 1.0, "{state:?}: {seen} {charged}");
            }
            for courses in [Some(whole), states[0].beginning.as_ref()].into_iter().flatten() {
                for piece in 0..courses.edges.len() - 1 {
                    let all: f64 = courses.layers.iter().map(|(_, means)| means[piece]).sum();
                    prop_assert!(all <= f64::from(threads) + 1e-9, "{all} of {threads}");
                    prop_assert!(courses.edges[piece] > 0 || (all - f64::from(threads)).abs() < 1e-9);
                }
            }
        }
    }
}
