//! Watching a simulation: which thread is in which state, and how many.

use std::ops::Range;

use policy::{CpuId, Instant, ThreadId};
use scenario::{Kind, Setting};
use sim::scheduler::Why;
use sim::watch::{Begins, Doing, Leaving, Watch};

use super::course::{Beginning, Buckets, Counts};
use super::{JobStates, State};

/// No more jobs than this are watched: what is drawn is meant to be looked at.
const MOST_JOBS: usize = 4;

/// Watches the jobs of a run whose threads wait for each other, of copies the first.
#[derive(Clone, Debug)]
pub struct Observer {
    jobs: Vec<Job>,
    cpus: Vec<Doing>,
    now: Instant,
}

#[derive(Clone, Debug)]
struct Job {
    name: String,
    /// Its threads by their numbers in the run.
    numbers: Range<usize>,
    threads: Vec<Thread>,
    counts: Counts,
    since: Instant,
    buckets: Buckets,
    beginning: Beginning,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    doing: Begins,
    has_cpu: bool,
    /// Nothing once it has ended.
    state: Option<State>,
}

impl Observer {
    /// Somebody to watch a run of this setting.
    pub fn new(setting: &Setting) -> Observer {
        let mut jobs = Vec::new();
        let mut first = 0;
        for job in &setting.jobs {
            let threads = job.kind.threads() as usize;
            let has_waits = matches!(job.kind, Kind::Barrier { .. } | Kind::Lock { .. });
            if has_waits && jobs.len() < MOST_JOBS {
                let name = if job.copies > 1 { format!("{}.0", job.name) } else { job.name.clone() };
                jobs.push(Job::new(name, first..first + threads));
            }
            first += threads * job.copies as usize;
        }
        Observer { jobs, cpus: Vec::new(), now: Instant::ZERO }
    }

    /// What was seen, up to the last thing that happened.
    pub fn into_states(self) -> Vec<JobStates> {
        let end = self.now;
        let states = |mut job: Job| {
            job.buckets.add(job.since, end, &job.counts);
            let threads = job.threads.len() as u32;
            JobStates { job: job.name, threads, whole: job.buckets.course(end), beginning: job.beginning.course() }
        };
        self.jobs.into_iter().map(states).collect()
    }

    fn thread(&mut self, at: Instant, thread: ThreadId, change: impl FnOnce(&mut Thread)) {
        self.now = at;
        if let Some(job) = self.jobs.iter_mut().find(|job| job.numbers.contains(&thread.index())) {
            job.thread(at, thread.index() - job.numbers.start, change);
        }
    }
}

impl Job {
    fn new(name: String, numbers: Range<usize>) -> Job {
        // All are ready at the start.
        let counts = State::SIMULATED.map(|state| if state == State::Ready { numbers.len() as u32 } else { 0 });
        Job {
            name,
            threads: vec![
                Thread { doing: Begins::Computation, has_cpu: false, state: Some(State::Ready) };
                numbers.len()
            ],
            numbers,
            counts,
            since: Instant::ZERO,
            buckets: Buckets::new(),
            beginning: Beginning::new(counts),
        }
    }

    fn thread(&mut self, at: Instant, thread: usize, change: impl FnOnce(&mut Thread)) {
        let thread = &mut self.threads[thread];
        let before = thread.state;
        change(thread);
        let after = thread.state;
        if before == after {
            return;
        }
        self.buckets.add(self.since, at, &self.counts);
        self.since = at;
        if let Some(before) = before {
            self.counts[before as usize] -= 1;
        }
        if let Some(after) = after {
            self.counts[after as usize] += 1;
        }
        self.beginning.change(at, self.counts);
    }
}

impl Thread {
    fn runs(&mut self) {
        self.has_cpu = true;
        self.state = Some(match self.doing {
            Begins::Computation => State::Computing,
            Begins::Spin => State::Spinning,
            Begins::Yield | Begins::Block | Begins::End => State::Switching,
        });
    }

    fn switches(&mut self) {
        self.has_cpu = false;
        self.state = Some(State::Switching);
    }

    /// It is off its CPU. Whoever could go on is ready again, of which the observer is told by and by.
    fn has_left(&mut self, how: Leaving) {
        match how {
            Leaving::Blocking => self.state = Some(State::Blocked),
            Leaving::Ending => self.state = None,
            Leaving::Preempted | Leaving::Yielding => {}
        }
    }
}

impl Watch for Observer {
    fn cpu_does(&mut self, at: Instant, cpu: CpuId, doing: Doing) {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, Doing::Idle);
        }
        let before = std::mem::replace(&mut self.cpus[cpu.index()], doing);
        if let Doing::Switching { from: Some((thread, how)), .. } = before {
            self.thread(at, thread, |thread| thread.has_left(how));
        }
        match doing {
            Doing::Idle => {}
            Doing::Running(thread) => self.thread(at, thread, Thread::runs),
            Doing::Switching { from, to } => {
                for thread in from.map(|(thread, _)| thread).into_iter().chain(to) {
                    self.thread(at, thread, Thread::switches);
                }
            }
        }
    }

    fn thread_begins(&mut self, at: Instant, thread: ThreadId, what: Begins) {
        self.thread(at, thread, |thread| {
            thread.doing = what;
            // Elsewhere it goes on when it next has a CPU.
            if thread.has_cpu {
                thread.runs();
            }
        });
    }

    fn thread_is_ready(&mut self, at: Instant, thread: ThreadId, _why: Why) {
        self.thread(at, thread, |thread| thread.state = Some(State::Ready));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::Course;
    use policy::record::Off;
    use proptest::prelude::*;
    use scenario::{Compute, Machine, MachineKeys, Scheduler, Span};

    fn setting(copies: u32, threads: u32, micros: u64, waiting: &str, crowd: u32) -> Setting {
        let compute = Compute::Normal { mean: Span::from_micros(micros), sd: Span::from_micros(micros / 5) };
        let kind = Kind::Barrier { threads, compute, rounds: 30, waiting: waiting.parse().unwrap() };
        let crew = scenario::Job { name: "crew".into(), copies, kind };
        let kind = Kind::Cpu { threads: crowd, work: None };
        let jobs = vec![scenario::Job { name: "crowd".into(), copies: 1, kind }, crew];
        Setting { machine: MachineKeys::default(), jobs, keep_running: false }
    }

    fn observed(setting: &Setting, machine: &Machine) -> (Vec<JobStates>, scenario::result::Outcome) {
        let mut observer = Observer::new(setting);
        let (outcome, _) = sim::run_watched::<Off, Observer>(machine, setting, 7, &mut observer).unwrap();
        (observer.into_states(), outcome)
    }

    /// Threads times nanoseconds in a state.
    fn total(course: &Course, state: State) -> f64 {
        let (_, means) = course.layers.iter().find(|(of, _)| *of == state).unwrap();
        means.iter().zip(course.edges.windows(2)).map(|(mean, edges)| mean * (edges[1] - edges[0]) as f64).sum()
    }

    #[test]
    fn two_threads_that_meet_once_are_seen_in_each_state_for_as_long_as_they_are_in_it() {
        let mut setting = setting(1, 2, 10, "always-block", 1);
        setting.jobs.remove(0);
        let Kind::Barrier { rounds, compute, .. } = &mut setting.jobs[0].kind else { panic!("another job") };
        *rounds = 1;
        *compute = Compute::Normal { mean: Span::from_micros(10), sd: Span::ZERO };
        let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(1) };
        let (states, _) = observed(&setting, &machine);
        // 6 us to switch to one, which computes and blocks; 6 us later it is blocked and the other computes, is the last, and
        // leaves; 6 us later the first has its CPU again and the run is over. While both are in a switch, both count.
        let whole = &states[0].whole;
        let micros = State::SIMULATED.map(|state| (total(whole, state) / 1000.0).round() as u64);
        assert_eq!(micros, [20, 0, 30, 16, 10]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_seen_adds_up_to_what_the_simulator_charges(
            copies in 1..3_u32, threads in 1..6_u32, micros in 1..40_u64, cpus in 1..5_u32, crowd in 1..4_u32,
            scheduler in proptest::sample::select(Scheduler::ALL.to_vec()),
            waiting in proptest::sample::select(vec!["always-block", "always-spin", "always-yield", "cs", "2cs+"]),
        ) {
            let setting = setting(copies, threads, micros, waiting, crowd);
            let machine = Machine { scheduler, ..Machine::with_cpus(cpus) };
            let (states, outcome) = observed(&setting, &machine);
            // The crowd has no barrier, and of the copies the first is enough.
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
