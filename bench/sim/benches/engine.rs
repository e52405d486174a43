//! Events per second of the engine on one core, by scheduler: `cargo bench -p rowlock-bench-sim`,
//! with names of schedulers after `--` to select some, and `cpu`, `barrier`, `arrivals` or `cells`
//! to select some of their tables.
//!
//! CPU-bound threads cause frequent switches. In addition, one thread for each CPU has a random
//! first computation shorter than a turn, starts beside the others and ends, so that the turns of
//! the CPUs are not aligned. The engine runs as for users, with all its accounting. CPU time is
//! measured, which a busy machine affects much less than wall-clock time. Quote the median of
//! several runs.
//!
//! `cpu`: 32 CPUs and 200 threads; the cost of an event with increasing numbers of threads, and
//! with increasing numbers of CPUs with six threads each; and the peak memory per thread according
//! to the allocator, including threads at a barrier.
//!
//! `barrier`: jobs at barriers on 256 CPUs with 1.5 and 2 threads each, as one team and as teams of
//! 16. The goal with the adaptive rule is 4 million events a second for `linux-2.4`, and 6 million
//! for `cfs` and `eevdf`.
//!
//! `arrivals`: 10^5 jobs of one thread that arrive one after another, and the peak memory according
//! to the allocator. The goal is 32 MB.
//!
//! `cells`: a minute of 16 cells and 8 jobs that take turns. The goal is 10 s.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]
#![allow(unsafe_code, reason = "a counting allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use policy::Span;
use policy::gang::Gang;
use policy::layout::{Mesh, Request, Shape};
use policy::waiting::WaitingRule;
use scenario::draw::Stream;
use scenario::message::Pattern;
use scenario::{
    Arrival, Compute, Coscheduling, Distribution, Granularity, Job, JobKind, Machine, MachineKeys, Message, Scheduler,
    Setting,
};

const CPUS: u32 = 32;
const BARRIER_CPUS: u32 = 256;
const ARRIVALS: u32 = 100_000;
const RUNS: usize = 5;
/// Each run times at least this many switches.
const SWITCHES: u64 = 2_000_000;

/// Counts the allocated memory and its peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work, and the counters do not affect it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HIGHEST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A machine, and the approximate turn of a thread on it when others wait. Under `fifo`, a thread
/// keeps the CPU until its work is done.
fn machine(scheduler: Scheduler, cpus: u32) -> (Machine, Span) {
    let keys = MachineKeys { scheduler: Some(scheduler), ..MachineKeys::default() };
    let machine = keys.complete(&Machine::with_cpus(cpus));
    let turn = match scheduler {
        Scheduler::Fifo | Scheduler::Rr => machine.quantum,
        Scheduler::Linux24 => machine.tick.scaled(1000 * u64::from(machine.linux_2_4.allocation)),
        Scheduler::LinuxO1 | Scheduler::Cfs | Scheduler::Eevdf => machine.tick,
        Scheduler::Feedback => machine.feedback.running_time,
    };
    (machine, turn)
}

fn bound(scheduler: Scheduler, cpus: u32, threads: u32) -> (Machine, Setting) {
    let (machine, turn) = machine(scheduler, cpus);
    let turns = (SWITCHES / u64::from(threads)).max(10);
    let work = if scheduler == Scheduler::Fifo { turn } else { turn.scaled(1000 * turns) };
    // Threads that are never preempted end soon, so more of them are needed.
    let copies = if scheduler == Scheduler::Fifo { turns.min(u64::from(1_000_000 / threads)) as u32 } else { 1 };
    let mut stream = Stream::named(1, "offsets", 0);
    let cpu = |name: String, copies, threads, work: Span| {
        Job::new(name, copies, JobKind::Cpu { threads, work: Some(work.into()) })
    };
    let mut jobs: Vec<Job> = (0..cpus)
        .map(|n| cpu(format!("offset.{n}"), 1, 1, Span::from_nanos(1 + stream.below(turn.as_nanos()))))
        .collect();
    jobs.push(cpu("bound".to_owned(), copies, threads, work));
    (machine, setting_of(jobs))
}

fn setting_of(jobs: Vec<Job>) -> Setting {
    Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
}

/// Teams of so many threads that meet again and again, on 256 CPUs.
fn teams(
    scheduler: Scheduler,
    threads: u32,
    team: u32,
    grain: Granularity,
    waiting: WaitingRule,
) -> (Machine, Setting) {
    // Two thirds of a million computations.
    let (compute, rounds) = (Compute::Granularity(grain), u64::from(SWITCHES as u32 / 3 / threads));
    let kind = JobKind::Barrier { threads: team, compute, rounds, waiting };
    (machine(scheduler, BARRIER_CPUS).0, setting_of(vec![Job::new("team", threads / team, kind)]))
}

/// 10^5 jobs of one thread that use nine tenths of the CPUs.
fn arrivals(scheduler: Scheduler) -> (Machine, Setting) {
    let (machine, turn) = machine(scheduler, CPUS);
    let mean = Span::from_nanos(turn.as_nanos() * 10 / 9 / u64::from(CPUS));
    let every = Some(Distribution::Exponential { mean });
    let kind = JobKind::Cpu { threads: 1, work: Some(Distribution::Exponential { mean: turn }) };
    let job = Job { arrival: Arrival { at: Span::ZERO, every }, ..Job::new("arrival", ARRIVALS, kind) };
    (machine, setting_of(vec![job]))
}

/// The cost of an event in nanoseconds: median, minimum, maximum.
fn cost((machine, setting): &(Machine, Setting)) -> [f64; 3] {
    let mut costs: Vec<f64> = (0..RUNS)
        .map(|run| {
            let started = cpu_time();
            let outcome = rowlock_sim::run(machine, setting, run as u64).unwrap();
            1e9 * (cpu_time() - started) / outcome.machine.events.unwrap() as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    [RUNS / 2, 0, RUNS - 1].map(|n| costs[n])
}

/// The peak memory of a run, in bytes.
fn peak(machine: &Machine, setting: &Setting) -> f64 {
    let before = NOW.load(Relaxed);
    HIGHEST.store(before, Relaxed);
    rowlock_sim::run(machine, setting, 1).unwrap();
    (HIGHEST.load(Relaxed) - before) as f64
}

/// The peak memory of a run for each additional thread, in bytes.
fn bytes_a_thread(scheduler: Scheduler, kind: impl Fn(u32) -> JobKind) -> f64 {
    let (machine, _) = machine(scheduler, CPUS);
    let [few, many] =
        [10_000, 60_000].map(|threads| peak(&machine, &setting_of(vec![Job::new("bound", 1, kind(threads))])));
    (many - few) / 50_000.0
}

/// 60 s of 8 x 2 cells and 8 jobs of 16 ranks each, in slices of 200 ms. Each rank sends every
/// 200 us. Returns the simulated time and the CPU time in seconds, and the number of events.
fn minute_of_cells() -> (f64, f64, u64) {
    let mesh = Shape { columns: 8, rows: 2 };
    let ranks = Message {
        request: Request::Rectangle(mesh),
        pattern: Pattern::Exchange,
        bytes: 100,
        rounds: 36_000,
        compute: Some(Span::from_micros(200).into()),
        sleep: None,
        waiting: WaitingRule::AlwaysSpin,
        weight: 1,
    };
    let machine = Machine { scheduler: Scheduler::Eevdf, cells: Mesh::new(mesh), ..Machine::with_cpus(1) };
    let rules = Coscheduling { how: Gang::Strict, slice: Span::from_millis(200), ..Coscheduling::default() };
    let jobs = vec![Job::new("job", 8, JobKind::Message(ranks))];
    let setting = Setting { coscheduling: Some(rules), ..setting_of(jobs) };
    let started = cpu_time();
    let outcome = rowlock_sim::run(&machine, &setting, 1).unwrap();
    let simulated = outcome.jobs.iter().filter_map(|job| job.completion_ns).max().unwrap().as_secs_f64();
    (simulated, cpu_time() - started, outcome.machine.events.unwrap())
}

/// Events per second of CPU-bound threads, the growth of their cost, and memory.
fn print_cpu(scheduler: Scheduler) {
    let name = scheduler.name();
    let [median, least, most] = cost(&bound(scheduler, CPUS, 200));
    println!(
        "{name:10} {CPUS} CPUs, 200 threads: {:6.2} M events/s (median of {RUNS}; {:.2} to {:.2})",
        1e3 / median,
        1e3 / most,
        1e3 / least
    );
    let growth = |what: &str, rows: [(u32, u32, u32); 4]| {
        let costs = rows.map(|(_, cpus, threads)| cost(&bound(scheduler, cpus, threads))[0]);
        let columns: Vec<String> =
            rows.iter().zip(costs).map(|((number, ..), cost)| format!("{number}: {cost:.0}")).collect();
        println!("{name:10} ns an event, {what:18} {}   (times {:.2})", columns.join("  "), costs[3] / costs[0]);
    };
    growth("by threads", [100, 1_000, 10_000, 100_000].map(|threads| (threads, CPUS, threads)));
    growth("by CPUs", [8, 64, 256, 1024].map(|cpus| (cpus, cpus, 6 * cpus)));
    let work = Some(Span::from_micros(100).into());
    let (cpu, barrier) = (
        bytes_a_thread(scheduler, |threads| JobKind::Cpu { threads, work: work.clone() }),
        bytes_a_thread(scheduler, |threads| JobKind::Barrier {
            threads,
            compute: Compute::Granularity(Granularity::Coarse),
            rounds: 1,
            waiting: "2cs+".parse().unwrap(),
        }),
    );
    println!("{name:10} bytes a thread: {cpu:.0} that computes, {barrier:.0} that waits");
}

/// Events per second of teams: fine and medium grains at 1.5 threads a CPU, and the same at 2.
fn print_barrier(scheduler: Scheduler) {
    for waiting in [WaitingRule::AlwaysBlock, WaitingRule::Adaptive] {
        for (shape, team) in [("one team", None), ("teams of 16", Some(16))] {
            let grains = [Granularity::Fine, Granularity::Medium];
            let cells = [384, 512].into_iter().flat_map(|threads| grains.map(|grain| (threads, grain)));
            let speeds: Vec<String> = cells
                .map(|(threads, grain)| {
                    let setting = teams(scheduler, threads, team.unwrap_or(threads), grain, waiting);
                    format!("{:.2}", 1e3 / cost(&setting)[0])
                })
                .collect();
            let (name, waiting) = (scheduler.name(), waiting.to_string());
            println!("{name:10} barrier, {waiting:12} {shape:11} M events/s: {}", speeds.join("  "));
        }
    }
}

fn print_arrivals(scheduler: Scheduler) {
    let (machine, setting) = arrivals(scheduler);
    let (speed, bytes) = (1e3 / cost(&(machine, setting.clone()))[0], peak(&machine, &setting));
    println!(
        "{:10} {ARRIVALS} arrivals: {speed:.2} M events/s, {:.1} MB, {:.0} bytes each",
        scheduler.name(),
        bytes / 1e6,
        bytes / f64::from(ARRIVALS)
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // All of a list, or those of it that are wanted.
    let is_wanted = |name: &str, list: &[&str]| {
        wanted.iter().all(|one| !list.contains(&one.as_str())) || wanted.iter().any(|one| one == name)
    };
    let (tables, schedulers) = (["cpu", "barrier", "arrivals", "cells"], Scheduler::ALL.map(Scheduler::name));
    for scheduler in Scheduler::ALL.into_iter().filter(|one| is_wanted(one.name(), &schedulers)) {
        for (table, print) in tables.into_iter().zip([print_cpu, print_barrier, print_arrivals]) {
            if is_wanted(table, &tables) {
                print(scheduler);
            }
        }
    }
    if is_wanted("cells", &tables) {
        let (simulated, took, events) = minute_of_cells();
        let millions = events as f64 / 1e6;
        println!(
            "cells      {simulated:.0} s of 16 cells and 8 jobs: {took:.2} s for {millions:.1} M events (goal: 10 s)"
        );
    }
}
