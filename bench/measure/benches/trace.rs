//! Events per second of the simulator while it writes a trace: `cargo bench -p
//! rowlock-bench-measure --bench trace`; with `-- 1`, one run of each.
//!
//! 32 CPUs and 200 CPU-bound threads under round robin, as in the benchmark of the engine, and many
//! barrier jobs that block, whose events are mainly phases and wakeups. Each runs without a trace,
//! with a discarded one, and with one in a file. The machine should be idle otherwise. Quote the
//! median of several runs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::io::{Write, sink};
use std::time::Instant;

use measure::trace::end_of_simulation;
use measure::trace::simulated::SimulationTracer;
use policy::Span;
use scenario::draw::Stream;
use scenario::result::Outcome;
use scenario::{Compute, Distribution, Job, JobKind, Machine, MachineKeys, Scheduler, Setting};
use trace::file::TraceFile;

const CPUS: u32 = 32;
const RUNS: usize = 5;

fn job(name: String, copies: u32, kind: JobKind) -> Job {
    Job::new(name, copies, kind)
}

fn cpu_bound() -> Vec<Job> {
    let mut stream = Stream::named(1, "offsets", 0);
    let offset = |n| {
        let work = Some(Span::from_nanos(1 + stream.below(100_000)));
        job(format!("offset.{n}"), 1, JobKind::Cpu { threads: 1, work: work.map(Distribution::from) })
    };
    let mut jobs: Vec<Job> = (0..CPUS).map(offset).collect();
    jobs.push(job("bound".to_owned(), 1, JobKind::Cpu { threads: 200, work: Some(Span::from_millis(500).into()) }));
    jobs
}

fn blocking() -> Vec<Job> {
    let compute = Compute::Drawn(Distribution::Normal { mean: Span::from_micros(50), sd: Span::from_micros(5) });
    let waiting = "always-block".parse().unwrap();
    vec![job("team".to_owned(), 20, JobKind::Barrier { threads: 10, compute, rounds: 2_000, waiting })]
}

fn traced(machine: &Machine, setting: &Setting, to: impl Write) -> Outcome {
    let mut observer = SimulationTracer::new(to, setting, CPUS);
    let outcome = sim::run_observed(machine, setting, 1, &mut observer).unwrap();
    observer.finish(end_of_simulation(setting, machine.step, 1, &outcome)).unwrap();
    outcome
}

fn main() {
    let runs = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(RUNS);
    let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(CPUS) };
    let folder = tempfile::tempdir().unwrap();
    for (name, jobs) in [("CPU-bound", cpu_bound()), ("blocking", blocking())] {
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let mut bytes_per_event = 0.0;
        let mut in_file = || {
            let path = folder.path().join("out.pftrace");
            let file = TraceFile::create(&path).unwrap();
            let outcome = traced(&machine, &setting, file.writer().unwrap());
            file.keep().unwrap();
            bytes_per_event = path.metadata().unwrap().len() as f64 / outcome.machine.events.unwrap() as f64;
            outcome
        };
        let ways: [(&str, &mut dyn FnMut() -> Outcome); 3] = [
            ("no trace", &mut || sim::run(&machine, &setting, 1).unwrap()),
            ("a discarded trace", &mut || traced(&machine, &setting, sink())),
            ("a trace in a file", &mut in_file),
        ];
        for (how, run) in ways {
            let mut rates: Vec<f64> = (0..runs)
                .map(|_| {
                    let started = Instant::now();
                    let outcome = run();
                    outcome.machine.events.unwrap() as f64 / started.elapsed().as_secs_f64() / 1e6
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            println!("{name:10} {how:20} {:6.2} M events/s (median of {runs})", rates[runs / 2]);
        }
        println!("{name:10} {bytes_per_event:.1} bytes an event");
    }
}
