//! The executor of a `fibers` job, on `rowlock-fiber`.
//!
//! Computation is a calibrated number of iterations. All lengths are drawn before the run begins,
//! because a draw takes longer than a whole fiber that only acquires a lock. The program's memory
//! is allocated before as well: the same number of fibers are spawned and joined, and each fiber of
//! a group with several bursts yields once. So the figures show the work of the library and not
//! that of the kernel, which the simulator does not model.

use std::cell::RefCell;
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use fiber::{Builder, Config, JoinHandle, Mutex, Runtime, SpawnError};
use policy::Span;
use scenario::fibers::{FiberProgram, Fibers};
use scenario::result::{FibersOutcome, GroupOutcome, JobOutcome};
use sys::process::{Usage, own_usage};

use super::{ProgramError, Start, outcome, run_program, serve_program};
use crate::protocol::{Failure, Order, RequestReader};
use crate::workload::{Rate, Workload};

thread_local! {
    /// The workload of a worker's fibers, which run one at a time. Preemptible fibers have one
    /// each.
    static WORKLOAD: RefCell<Workload> = RefCell::new(Workload::new());
}

/// The step of a scripted clock while a fiber computes. Its timer interrupts no more often than
/// this.
const STEP: Duration = Duration::from_micros(10);

/// The state that the fibers share, for the lifetime of the process.
struct Shared {
    job: String,
    config: Config,
    /// The rate for lengths that are drawn beforehand.
    rate: Rate,
    groups: Vec<Group>,
    locks: Vec<Mutex<()>>,
    start: Start,
}

/// The fibers of a group, with the lengths that were drawn for them.
struct Group {
    program: FiberProgram,
    /// The number of the group's first fiber in the job.
    first: u32,
    /// In iterations.
    compute: Lengths,
    critical: Option<Lengths>,
    /// In nanoseconds.
    think: Option<Lengths>,
    checkpoint: Option<u64>,
    responses: StdMutex<Vec<Span>>,
}

/// A length for each burst: first those of the first fiber, then those of the next.
enum Lengths {
    Always(u64),
    Each(Vec<u64>),
}

impl Lengths {
    fn of(lengths: Vec<u64>) -> Lengths {
        match lengths.first() {
            Some(&first) if lengths.iter().all(|&length| length == first) => Lengths::Always(first),
            _ => Lengths::Each(lengths),
        }
    }

    #[inline]
    fn get(&self, burst: usize) -> u64 {
        match self {
            Lengths::Always(length) => *length,
            Lengths::Each(lengths) => lengths.get(burst).copied().unwrap_or_default(),
        }
    }

    fn sum(&self, bursts: u64) -> u64 {
        match self {
            Lengths::Always(length) => length.saturating_mul(bursts),
            Lengths::Each(lengths) => lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(*length)),
        }
    }
}

/// The end of the program, and the number of demotions by then.
struct Ended {
    at: Instant,
    demotions: u64,
}

pub(crate) fn serve(order: &Order, of: &Fibers, requests: RequestReader) -> Result<(), Failure> {
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(order, of)));
    let keep_running = order.keep_running;
    serve_program(order, "fibers", move || shared.run(keep_running), &shared.start, requests)
}

impl Shared {
    fn new(order: &Order, of: &Fibers) -> Shared {
        // A length that was drawn beforehand takes no time to draw.
        let rate = Rate { start_ps: 0, ..order.rate };
        let mut first = 0;
        let groups = of.groups.iter().map(|group| {
            let group = Group::new(group.program(&order.job.name), first, order.seed, order.step, rate);
            first += group.program.fibers;
            group
        });
        let groups = groups.collect();
        Shared {
            job: order.job.name.clone(),
            config: Config {
                rules: of.rules,
                workers: of.workers,
                preemptible: of.preemptible,
                closed: true,
                ..Config::default()
            },
            rate,
            groups,
            locks: (0..of.locks).map(|_| Mutex::new(())).collect(),
            start: Start::default(),
        }
    }

    /// Runs the program and reports the outcome. Then repeats it forever if the job keeps running.
    fn run(&'static self, keep_running: bool) {
        let begin = || {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            // The ids of the library's other workers are unknown.
            let started = self.start.wait(if self.config.workers == 1 { vec![thread] } else { Vec::new() });
            (started, own_usage(), fiber::demotions())
        };
        let first = || {
            let ((started, before, demotions), ended) = self.run_once(begin)?;
            let (completion, usage) = ((ended.at - started).into(), own_usage().since(before));
            Ok(self.outcome(completion, usage, ended.demotions - demotions))
        };
        run_program(keep_running, first, || self.run_once(|| ()).map(drop));
    }

    /// Runs the program once, after `begin`. Returns the value of `begin` and how the program
    /// ended.
    fn run_once<T>(&'static self, begin: impl FnOnce() -> T) -> Result<(T, Ended), ProgramError> {
        Runtime::new(self.config.clone()).run(|| {
            self.warm_up()?;
            let begun = begin();
            // The program needs a new fiber: this one has used its running time in the preparation
            // and was demoted.
            Builder::new().spawn(|| self.spawn_all().map_err(|why| why.to_string()))?.join()??;
            Ok((begun, Ended { at: fiber::now(), demotions: fiber::demotions() }))
        })?
    }

    /// Allocates the program's memory by running a small copy of it.
    fn warm_up(&self) -> Result<(), ProgramError> {
        let mut handles = Vec::new();
        for Group { program, .. } in &self.groups {
            let yields = program.bursts > 1;
            for _ in 0..program.fibers {
                handles.push(Builder::new().spawn(move || {
                    // The first pass brings code and data into the cache.
                    WORKLOAD.with_borrow_mut(|workload| workload.run(1));
                    if yields {
                        fiber::yield_now();
                    }
                })?);
            }
        }
        handles.into_iter().try_for_each(|handle| Ok(handle.join()?))
    }

    /// The program's first fiber: spawns the others and joins those that no other fiber joins.
    fn spawn_all(&'static self) -> Result<(), ProgramError> {
        let count = self.groups.iter().map(|group| group.program.fibers as usize).sum();
        let mut handles: Vec<Option<JoinHandle<()>>> = Vec::with_capacity(count);
        for group in &self.groups {
            for number in 0..group.program.fibers {
                let predecessor =
                    if group.program.joins(number) { handles.last_mut().and_then(Option::take) } else { None };
                handles.push(Some(self.spawn(group, number, predecessor)?));
            }
        }
        handles.into_iter().flatten().try_for_each(|handle| Ok(handle.join()?))
    }

    fn spawn(
        &'static self,
        group: &'static Group,
        number: u32,
        predecessor: Option<JoinHandle<()>>,
    ) -> Result<JoinHandle<()>, SpawnError> {
        if group.program.is_timed(number) {
            let spawned_at = fiber::now();
            return Builder::new().spawn(move || self.run_fiber(group, number, predecessor, Some(spawned_at)));
        }
        Builder::new().spawn(move || self.run_fiber(group, number, predecessor, None))
    }

    /// Runs one fiber. If its bursts are timed, it is ready since `ready_since`.
    #[inline]
    fn run_fiber(
        &self,
        group: &Group,
        number: u32,
        predecessor: Option<JoinHandle<()>>,
        mut ready_since: Option<Instant>,
    ) {
        let bursts = group.program.bursts as usize;
        let first = number as usize * bursts;
        for burst in first..first + bursts {
            self.compute(group, group.compute.get(burst));
            if let Some(critical) = &group.critical {
                let lock = (group.first + number) as usize % self.locks.len();
                // No fiber panics while it holds the lock.
                let _guard = self.locks[lock].lock();
                self.compute(group, critical.get(burst));
            }
            if let Some(ready_since) = ready_since {
                group.record_response(ready_since);
            }
            if burst + 1 < first + bursts {
                ready_since = group.pause(burst, ready_since.is_some());
            }
        }
        if let Some(predecessor) = predecessor {
            // The fiber does not panic.
            let _ = predecessor.join();
        }
    }

    /// Computes, with checkpoints if the group asks for them.
    #[inline]
    fn compute(&self, group: &Group, iterations: u64) {
        let Some(every) = group.checkpoint else { return self.run_workload(iterations) };
        let mut left = iterations;
        while left > every {
            self.run_workload(every);
            fiber::checkpoint();
            left -= every;
        }
        self.run_workload(left);
    }

    /// Computes. With a scripted clock, as in tests, it advances the clock instead.
    #[inline]
    fn run_workload(&self, iterations: u64) {
        match &self.config.clock {
            None => WORKLOAD.with_borrow_mut(|workload| workload.run(iterations)),
            Some(clock) => {
                let mut left = Duration::from(self.rate.time(iterations, 0));
                while !left.is_zero() {
                    let step = left.min(STEP);
                    clock.advance(step);
                    left -= step;
                }
            }
        }
    }

    fn outcome(&self, completion: Span, usage: Usage, demotions: u64) -> JobOutcome {
        let groups = self.groups.iter().map(|group| {
            let mut responses = std::mem::take(&mut *group.responses.lock().unwrap_or_else(PoisonError::into_inner));
            GroupOutcome::new(group.program.group.clone(), &mut responses)
        });
        let groups = groups.collect();
        let bursts = |group: &Group| u64::from(group.program.fibers) * u64::from(group.program.bursts);
        let iterations = self.groups.iter().map(|group| {
            let critical = group.critical.as_ref().map_or(0, |critical| critical.sum(bursts(group)));
            group.compute.sum(bursts(group)).saturating_add(critical)
        });
        JobOutcome {
            rounds: Some(self.groups.iter().map(bursts).sum()),
            delivered_work_ns: Some(self.rate.time(iterations.fold(0, u64::saturating_add), 0)),
            fibers: Some(Box::new(FibersOutcome { switches: None, demotions: Some(demotions), groups })),
            ..outcome(&self.job, Some(completion), usage)
        }
    }
}

impl Group {
    fn new(program: FiberProgram, first: u32, seed: u64, step: Span, rate: Rate) -> Group {
        let bursts = program.fibers as usize * program.bursts as usize;
        let with_capacity = |is_drawn: bool| Vec::with_capacity(if is_drawn { bursts } else { 0 });
        let (mut compute, mut critical, mut think) =
            (with_capacity(true), with_capacity(program.critical.is_some()), with_capacity(program.think.is_some()));
        for number in 0..program.fibers {
            let mut stream = program.stream(seed, number);
            for _ in 0..program.bursts {
                let burst = program.burst(&mut stream, step);
                compute.push(rate.iterations(burst.compute));
                critical.extend(burst.critical.map(|length| rate.iterations(length)));
                think.extend(burst.think.map(Span::as_nanos));
            }
        }
        let timed = (0..program.fibers).filter(|&number| program.is_timed(number)).count() * program.bursts as usize;
        Group {
            first,
            compute: Lengths::of(compute),
            critical: program.critical.as_ref().map(|_| Lengths::of(critical)),
            think: program.think.as_ref().map(|_| Lengths::of(think)),
            checkpoint: program.checkpoint.map(|every| rate.iterations(every).max(1)),
            responses: StdMutex::new(Vec::with_capacity(timed)),
            program,
        }
    }

    fn record_response(&self, ready_since: Instant) {
        // Several workers share the lock, and no fiber yields while it holds it.
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.push(fiber::now().saturating_duration_since(ready_since).into());
    }

    /// Sleeps after a burst, or yields. If its bursts are timed, returns the time from which it is
    /// ready again.
    fn pause(&self, burst: usize, is_timed: bool) -> Option<Instant> {
        match &self.think {
            None => {
                let now = is_timed.then(fiber::now);
                fiber::yield_now();
                now
            }
            Some(think) => {
                let until = fiber::now() + Duration::from_nanos(think.get(burst));
                fiber::sleep_until(until);
                is_timed.then_some(until)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::feedback::{Boost, FeedbackRules};
    use scenario::fibers::{FiberCosts, FiberGroup};
    use scenario::{Distribution, Job, JobKind, MachineKeys, Setting};
    use sys::tick::ScriptedClock;

    use super::*;
    use crate::calibration::sample_calibration;
    use crate::machine::Machine;
    use crate::protocol::Recording;
    use crate::run::Host;

    /// The responses of a fiber of 100 ms and of one of 19.5 ms, and how often both were demoted,
    /// with a scripted clock and running times of a millisecond.
    fn responses(preemptible: bool) -> ([Option<Span>; 2], u64) {
        let group = |name: &str, micros| FiberGroup {
            name: name.into(),
            fibers: 1,
            bursts: 1,
            compute: Distribution::exactly(Span::from_micros(micros)),
            critical: None,
            checkpoint: None,
            think: None,
            join_every: None,
        };
        let of = Fibers {
            groups: vec![group("long", 100_000), group("short", 19_500)],
            workers: 1,
            rules: FeedbackRules { levels: 4, running_time: Span::from_millis(1), boost: Boost::Never },
            locks: 1,
            preemptible,
            costs: FiberCosts::default(),
        };
        let mut calibration = sample_calibration(Machine::current().unwrap());
        calibration.rate = Rate { iteration_ps: 2_000, start_ps: 0 };
        let host = Host { program: "/nowhere".into(), calibration };
        let jobs = vec![Job::new("fibers", 1, JobKind::Fibers(of.clone()))];
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let order = host.orders(&setting, 1, Recording::Nothing).remove(0);
        let mut shared = Shared::new(&order, &of);
        shared.config.clock = Some(ScriptedClock::new());
        let shared: &'static Shared = Box::leak(Box::new(shared));
        let ((), ended) = shared.run_once(|| ()).unwrap();
        let outcome = shared.outcome(Span::ZERO, Usage::default(), ended.demotions);
        let groups = outcome.fibers.unwrap().groups;
        ([0, 1].map(|group: usize| groups[group].response_worst_ns), ended.demotions)
    }

    #[test]
    fn a_preemptible_fiber_without_safepoints_is_preempted_after_each_running_time() {
        // The short fiber runs in every other slot and half of its last one. A fiber that is alone
        // keeps its level.
        let [long, short] = [119_500, 39_500].map(|micros| Some(Span::from_micros(micros)));
        assert_eq!(responses(true), ([long, short], 20 + 19));
    }

    #[test]
    fn a_fiber_that_is_not_preemptible_runs_to_its_end() {
        let [long, short] = [100_000, 119_500].map(|micros| Some(Span::from_micros(micros)));
        assert_eq!(responses(false), ([long, short], 0));
    }
}
