//! Events per second of the engine on one core: `cargo bench -p rowlock-sim`.
//!
//! 32 CPUs and 200 CPU-bound threads, for linux-2.4 also 1600. 32 more threads with a random first computation of less than
//! a quantum (or tick) start on the CPUs beside them and end, so that no two CPUs' slices are aligned. The figure is that of
//! the engine as users run it, with all its accounts. CPU time counts, which a busy machine lengthens much less than wall-clock
//! time; the median of several runs is quoted.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its figures, or has failed")]

use policy::Span;
use scenario::draw::Stream;
use scenario::{Job, Kind, Machine, MachineKeys, Scheduler, Setting};

const CPUS: u32 = 32;
const RUNS: usize = 7;

fn cpu_job(name: String, threads: u32, work: Span) -> Job {
    Job { name, copies: 1, kind: Kind::Cpu { threads, work: Some(work) } }
}

/// The CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let (rr, linux_2_4, eevdf) = (Scheduler::Rr, Scheduler::Linux24, Scheduler::Eevdf);
    for (scheduler, threads, work, offset) in [
        (rr, 200, Span::from_millis(500), 100_000),
        (linux_2_4, 200, Span::from_millis(1_000), 200_000),
        (linux_2_4, 1_600, Span::from_millis(125), 200_000),
        (eevdf, 200, Span::from_millis(20_000), 4_000_000),
    ] {
        let mut stream = Stream::named(1, "offsets", 0);
        let mut jobs: Vec<Job> =
            (0..CPUS).map(|n| cpu_job(format!("offset.{n}"), 1, Span::from_nanos(1 + stream.below(offset)))).collect();
        jobs.push(cpu_job("bound".to_owned(), threads, work));
        let setting = Setting { machine: MachineKeys::default(), jobs, keep_running: false };
        let keys = MachineKeys { scheduler: Some(scheduler), ..MachineKeys::default() };
        let machine = keys.complete(&Machine::with_cpus(CPUS));
        let mut rates: Vec<f64> = (0..RUNS)
            .map(|run| {
                let started = cpu_time();
                let outcome = rowlock_sim::run(&machine, &setting, run as u64).unwrap();
                outcome.machine.events.unwrap() as f64 / (cpu_time() - started)
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let [low, median, high] = [0, RUNS / 2, RUNS - 1].map(|n| rates[n] / 1e6);
        println!(
            "{:10} {threads:4} threads {median:6.2} M events/s (median of {RUNS}; {low:.2} to {high:.2})",
            scheduler.name()
        );
    }
}
