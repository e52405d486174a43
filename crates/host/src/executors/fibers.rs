//! The process of a job of fibers, run by `rowlock-fiber`.
//!
//! Computation is a calibrated number of iterations, as everywhere. All lengths are drawn before the run says go: a draw takes longer than a whole fiber of the kind that only takes a lock.
//! And the program's memory is there by then: as many fibers have been made and joined, and of groups with several bursts have stood still once, so that what is
//! counted is the library's work and not the kernel's, which the simulator knows nothing of.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex as StdMutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fiber::{Builder, Config, JoinHandle, Mutex, Runtime, SpawnError};
use policy::Span;
use policy::feedback::FeedbackRules;
use scenario::fibers::Program;
use scenario::result::{FibersOutcome, GroupOutcome, JobOutcome};
use sys::process::{Usage, own_usage};

use crate::protocol::{Failure, FibersTask, Order, Reply, Request};
use crate::protocol::{RequestReader, reply};
use crate::units::span;
use crate::workload::{Rate, Workload};

thread_local! {
    /// What the fibers of a worker compute with, one after the other; those that are preemptible have one each.
    static WORKLOAD: RefCell<Workload> = RefCell::new(Workload::new());
}

/// How long a scripted clock lets pass at a time while a fiber computes: its timer interrupts no
/// more often than that.
const STEP: Duration = Duration::from_micros(10);

/// What the fibers share. It is there as long as the process is.
struct Shared {
    job: String,
    config: Config,
    /// How long the lengths take that have been drawn.
    rate: Rate,
    groups: Vec<Group>,
    locks: Vec<Mutex<()>>,
    /// When the run said go.
    started: OnceLock<Instant>,
}

/// The fibers of a group, and what they have drawn.
struct Group {
    program: Program,
    /// The number of its first fiber in the job.
    first: u32,
    /// In iterations.
    compute: Lengths,
    critical: Option<Lengths>,
    /// In nanoseconds.
    think: Option<Lengths>,
    checkpoint: Option<u64>,
    responses: StdMutex<Vec<Span>>,
}

/// A length for each burst: those of the first fiber, then those of the next.
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

/// When the program had ended, and how often fibers had used up their running time by then.
struct Ended {
    at: Instant,
    demotions: u64,
}

/// Why a run of the program failed, in words.
type Refused = Box<dyn std::error::Error>;

pub(crate) fn serve(order: &Order, task: &FibersTask, mut requests: RequestReader) -> Result<(), Failure> {
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(order, task)?));
    let (tell, hear) = channel();
    let keep_running = order.keep_running;
    let body = move || shared.run(keep_running, &tell);
    let refused = Failure::io("its fibers cannot be started");
    let start = || thread::Builder::new().name("fibers".into()).spawn(body).map(drop);
    order.scheduling.start(start)?.map_err(refused)?;
    // Whoever tells nothing has told the run what is wrong.
    if let Ok(thread) = hear.recv() {
        // The library's other workers are known to nobody.
        let threads = if task.workers == 1 { vec![thread] } else { Vec::new() };
        reply(&Reply::Ready { threads }).map_err(Failure::io("cannot reply"))?;
    }
    // Nobody waits for fibers that still run: they end with the process.
    while let Some(request) = requests.wait().map_err(Failure::io("cannot hear the run"))? {
        if request == Request::Go {
            let _ = shared.started.set(Instant::now());
        }
    }
    Ok(())
}

impl Shared {
    fn new(order: &Order, task: &FibersTask) -> Result<Shared, Failure> {
        let boost = task.boost.parse().map_err(Failure::io("its boost"))?;
        let rules = FeedbackRules { levels: task.levels, running_time: task.running_time, boost };
        // What is drawn beforehand takes no time to draw.
        let rate = Rate { start_ps: 0, ..order.rate };
        let mut first = 0;
        let groups = task.programs.iter().map(|program| {
            let group = Group::new(program, first, task.seed, task.step, rate);
            first += program.fibers;
            group
        });
        let groups = groups.collect();
        Ok(Shared {
            job: order.job.clone(),
            config: Config { rules, workers: task.workers, preemptible: task.preemptible, ..Config::default() },
            rate,
            groups,
            locks: (0..task.locks).map(|_| Mutex::new(())).collect(),
            started: OnceLock::new(),
        })
    }

    /// Runs the program, and tells the run what came of it; then again and again, where it is to keep running.
    fn run(&'static self, keep_running: bool, ready: &Sender<i32>) {
        // Where the run is gone, the main thread sees the end of its input and ends the process.
        let failed = |why: Refused| drop(reply(&Reply::Failed(Failure::Other { message: why.to_string() })));
        let tell = || {
            let _ = ready.send(rustix::thread::gettid().as_raw_nonzero().get());
            let started = *self.started.wait();
            (started, own_usage(), fiber::demotions())
        };
        match self.once(tell) {
            Ok(((started, before, demotions), ended)) => {
                let (completion, usage) = (span(ended.at - started), own_usage().since(before));
                let outcome = self.outcome(completion, usage, ended.demotions - demotions);
                let _ = reply(&Reply::Finished(outcome));
            }
            Err(why) => return failed(why),
        }
        if keep_running {
            loop {
                if let Err(why) = self.once(|| ()) {
                    return failed(why);
                }
            }
        }
    }

    /// Runs the program once, after `begin`. Returns what that returned, and how the program ended.
    fn once<T>(&'static self, begin: impl FnOnce() -> T) -> Result<(T, Ended), Refused> {
        Runtime::new(self.config.clone()).run(|| {
            self.prepare()?;
            let begun = begin();
            // A fiber of its own: this one has used up its running time meanwhile, and has gone down.
            Builder::new().spawn(|| self.all().map_err(|why| why.to_string()))?.join()??;
            Ok((begun, Ended { at: fiber::now(), demotions: fiber::demotions() }))
        })?
    }

    /// Lets the memory be there.
    fn prepare(&self) -> Result<(), Refused> {
        let mut handles = Vec::new();
        for Group { program, .. } in &self.groups {
            let stands_still = program.bursts > 1;
            for _ in 0..program.fibers {
                handles.push(Builder::new().spawn(move || {
                    // The first pass brings code and data into the cache.
                    WORKLOAD.with_borrow_mut(|workload| workload.run(1));
                    if stands_still {
                        fiber::yield_now();
                    }
                })?);
            }
        }
        handles.into_iter().try_for_each(|handle| Ok(handle.join()?))
    }

    /// What the program's first fiber does: makes the others, and joins those that no other joins.
    fn all(&'static self) -> Result<(), Refused> {
        let count = self.groups.iter().map(|group| group.program.fibers as usize).sum();
        let mut handles: Vec<Option<JoinHandle<()>>> = Vec::with_capacity(count);
        for group in &self.groups {
            for number in 0..group.program.fibers {
                let before = if group.program.joins(number) { handles.last_mut().and_then(Option::take) } else { None };
                handles.push(Some(self.make(group, number, before)?));
            }
        }
        handles.into_iter().flatten().try_for_each(|handle| Ok(handle.join()?))
    }

    fn make(
        &'static self,
        group: &'static Group,
        number: u32,
        before: Option<JoinHandle<()>>,
    ) -> Result<JoinHandle<()>, SpawnError> {
        if group.program.is_timed(number) {
            let made = fiber::now();
            return Builder::new().spawn(move || self.fiber(group, number, before, Some(made)));
        }
        Builder::new().spawn(move || self.fiber(group, number, before, None))
    }

    /// The life of a fiber, which could run from then on, if its bursts are timed.
    #[inline]
    fn fiber(&self, group: &Group, number: u32, before: Option<JoinHandle<()>>, mut could_run: Option<Instant>) {
        let bursts = group.program.bursts as usize;
        let first = number as usize * bursts;
        for burst in first..first + bursts {
            self.compute(group, group.compute.get(burst));
            if let Some(critical) = &group.critical {
                let lock = (group.first + number) as usize % self.locks.len();
                // Nobody unwinds with it.
                let _guard = self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner);
                self.compute(group, critical.get(burst));
            }
            if let Some(could_run) = could_run {
                group.responded(could_run);
            }
            if burst + 1 < first + bursts {
                could_run = group.rest(burst, could_run.is_some());
            }
        }
        if let Some(before) = before {
            // Nobody panics in it.
            let _ = before.join();
        }
    }

    /// Computes, and looks whether it may go on where the group asks for that.
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

    /// Computes. By a scripted clock, as tests have it, that is to let the time pass that it takes.
    #[inline]
    fn run_workload(&self, iterations: u64) {
        match &self.config.clock {
            None => WORKLOAD.with_borrow_mut(|workload| workload.run(iterations)),
            Some(clock) => {
                let mut left = Duration::from_nanos(self.rate.time(iterations, 0).as_nanos());
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
            job: self.job.clone(),
            completion_ns: Some(completion),
            rounds: Some(self.groups.iter().map(bursts).sum()),
            cpu_ns: Some(span(usage.cpu)),
            delivered_work_ns: Some(self.rate.time(iterations.fold(0, u64::saturating_add), 0)),
            voluntary_switches: Some(usage.voluntary_switches),
            involuntary_switches: Some(usage.involuntary_switches),
            fibers: Some(FibersOutcome { switches: None, demotions: Some(demotions), groups }),
            ..JobOutcome::default()
        }
    }
}

impl Group {
    fn new(program: &Program, first: u32, seed: u64, step: Span, rate: Rate) -> Group {
        let bursts = program.fibers as usize * program.bursts as usize;
        let room = |is_drawn: bool| Vec::with_capacity(if is_drawn { bursts } else { 0 });
        let (mut compute, mut critical, mut think) =
            (room(true), room(program.critical.is_some()), room(program.think.is_some()));
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
            program: program.clone(),
        }
    }

    fn responded(&self, could_run: Instant) {
        // What several workers share, no fiber keeps while another runs.
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.push(span(fiber::now().saturating_duration_since(could_run)));
    }

    /// Sleeps after a burst, or yields. Returns from when on it could run again, if its bursts are timed.
    fn rest(&self, burst: usize, is_timed: bool) -> Option<Instant> {
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
    use scenario::fibers::{Costs, Group};
    use scenario::{Distribution, Job, Kind, MachineKeys, Setting};
    use sys::tick::ScriptedClock;

    use super::*;
    use crate::calibration::sample_calibration;
    use crate::machine::Machine;
    use crate::protocol::Task;
    use crate::run::Host;

    /// The responses of a fiber of 100 ms and of one of 19.5 ms, and how often both were demoted,
    /// by a scripted clock and with running times of a millisecond.
    fn responses(preemptible: bool) -> ([Option<Span>; 2], u64) {
        let group = |name: &str, micros| Group {
            name: name.into(),
            fibers: 1,
            bursts: 1,
            compute: Distribution::exactly(Span::from_micros(micros)),
            critical: None,
            checkpoint: None,
            think: None,
            join_every: None,
        };
        let of = scenario::Fibers {
            groups: vec![group("long", 100_000), group("short", 19_500)],
            workers: 1,
            rules: FeedbackRules { levels: 4, running_time: Span::from_millis(1), boost: Boost::Never },
            locks: 1,
            preemptible,
            costs: Costs::default(),
        };
        let mut calibration = sample_calibration(Machine::current().unwrap());
        calibration.rate = Rate { iteration_ps: 2_000, start_ps: 0 };
        let host = Host { program: "/nowhere".into(), calibration };
        let jobs = vec![Job::new("fibers", 1, Kind::Fibers(of))];
        let setting = Setting { machine: MachineKeys::default(), jobs, keep_running: false };
        let order = host.orders(&setting, 1).remove(0);
        let Task::Fibers(task) = &order.task else { panic!("{order:?}") };
        let mut shared = Shared::new(&order, task).map_err(|_| "it is refused").unwrap();
        shared.config.clock = Some(ScriptedClock::new());
        let shared: &'static Shared = Box::leak(Box::new(shared));
        let ((), ended) = shared.once(|| ()).unwrap();
        let outcome = shared.outcome(Span::ZERO, Usage::default(), ended.demotions);
        let groups = outcome.fibers.unwrap().groups;
        ([0, 1].map(|group: usize| groups[group].response_worst_ns), ended.demotions)
    }

    #[test]
    fn a_preemptible_fiber_that_comes_to_no_point_lets_others_run_after_each_running_time() {
        // The short one has every other turn, and half of the last one. A fiber that is alone keeps
        // its level.
        let [long, short] = [119_500, 39_500].map(|micros| Some(Span::from_micros(micros)));
        assert_eq!(responses(true), ([long, short], 20 + 19));
    }

    #[test]
    fn a_fiber_that_is_not_preemptible_runs_to_its_end() {
        let [long, short] = [100_000, 119_500].map(|micros| Some(Span::from_micros(micros)));
        assert_eq!(responses(false), ([long, short], 0));
    }
}
