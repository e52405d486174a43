//! Events per second of the engine on one core, by scheduler: `cargo bench -p rowlock-bench-sim`, with names of schedulers behind `--` for some
//! of them only.
//!
//! CPU-bound threads on CPUs that switch again and again. As many more threads as there are CPUs have a random first computation of less
//! than a turn, start on the CPUs beside the others and end, so that no two CPUs' turns are aligned. The figures are those of the engine as
//! users run it, with all its accounts. CPU time counts, which a busy machine lengthens much less than wall-clock time; the median of
//! several runs is quoted.
//!
//! For each scheduler: 32 CPUs and 200 threads; what an event costs with more and more threads, and with more and more CPUs that have six
//! threads each; and what memory a thread takes at the highest, threads that meet at a barrier included, as the allocator sees it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its figures, or has failed")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use policy::Span;
use scenario::draw::Stream;
use scenario::{Compute, Granularity, Job, JobKind, Machine, MachineKeys, Scheduler, Setting};

const CPUS: u32 = 32;
const RUNS: usize = 5;
/// So many switches are timed in each run, at least.
const SWITCHES: u64 = 2_000_000;

/// Counts what is allocated, and how much that was at the highest.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does everything; what is counted besides changes nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HIGHEST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller has promised.
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

/// A machine, and about how long a thread has a CPU on it when others wait. A thread under `fifo` has it until its work is done.
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
    // Who is never interrupted is not there for long: more of them.
    let copies = if scheduler == Scheduler::Fifo { turns.min(u64::from(1_000_000 / threads)) as u32 } else { 1 };
    let mut stream = Stream::named(1, "offsets", 0);
    let cpu = |name: String, copies, threads, work: Span| {
        Job::new(name, copies, JobKind::Cpu { threads, work: Some(work.into()) })
    };
    let mut jobs: Vec<Job> = (0..cpus)
        .map(|n| cpu(format!("offset.{n}"), 1, 1, Span::from_nanos(1 + stream.below(turn.as_nanos()))))
        .collect();
    jobs.push(cpu("bound".to_owned(), copies, threads, work));
    (machine, Setting { machine: MachineKeys::default(), jobs, keep_running: false })
}

/// The cost of an event in nanoseconds: median, least, most.
fn cost(scheduler: Scheduler, cpus: u32, threads: u32) -> [f64; 3] {
    let (machine, setting) = bound(scheduler, cpus, threads);
    let mut costs: Vec<f64> = (0..RUNS)
        .map(|run| {
            let started = cpu_time();
            let outcome = rowlock_sim::run(&machine, &setting, run as u64).unwrap();
            1e9 * (cpu_time() - started) / outcome.machine.events.unwrap() as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    [RUNS / 2, 0, RUNS - 1].map(|n| costs[n])
}

/// The bytes that a run takes at the highest for each thread more.
fn bytes_a_thread(scheduler: Scheduler, kind: impl Fn(u32) -> JobKind) -> f64 {
    let (machine, _) = machine(scheduler, CPUS);
    let [few, many] = [10_000, 60_000].map(|threads| {
        let job = Job::new("bound", 1, kind(threads));
        let setting = Setting { machine: MachineKeys::default(), jobs: vec![job], keep_running: false };
        let before = NOW.load(Relaxed);
        HIGHEST.store(before, Relaxed);
        rowlock_sim::run(&machine, &setting, 1).unwrap();
        (HIGHEST.load(Relaxed) - before) as f64
    });
    (many - few) / 50_000.0
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let schedulers = Scheduler::ALL.into_iter();
    for scheduler in schedulers.filter(|one| wanted.is_empty() || wanted.iter().any(|name| name == one.name())) {
        let name = scheduler.name();
        let [median, least, most] = cost(scheduler, CPUS, 200);
        println!(
            "{name:10} {CPUS} CPUs, 200 threads: {:6.2} M events/s (median of {RUNS}; {:.2} to {:.2})",
            1e3 / median,
            1e3 / most,
            1e3 / least
        );
        let growth = |what: &str, rows: [(u32, u32, u32); 4]| {
            let costs = rows.map(|(_, cpus, threads)| cost(scheduler, cpus, threads)[0]);
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
}
