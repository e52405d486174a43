//! Whether a thread runs: what a waiting thread finds out, against the kernel's events of context
//! switches.

use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{available_parallelism, park, sleep, spawn};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};
use rustix::time::{ClockId, clock_gettime};
use sys::thread_clock::ThreadClock;
use testing::guest::with_cpus;
use testing::switches::{Recording, Way};

/// How often each thread is looked at.
const ROUNDS: usize = 600;

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn the_kernel_agrees_on_who_runs_on_4_cpus() {
    testing::isolated_by(with_cpus(4, &[]), || compare(4));
}

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn the_kernel_agrees_on_who_runs_on_8_cpus() {
    testing::isolated_by(with_cpus(8, &[]), || compare(8));
}

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn the_kernel_agrees_on_who_runs_in_another_namespace_of_processes() {
    testing::isolated_by(with_cpus(4, &["unshare", "-p", "-f"]), || {
        assert_ne!(number(), rustix::thread::gettid().as_raw_pid().unsigned_abs(), "it has another number here");
        compare(4);
    });
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The number of the calling thread in the outermost namespace, whose /proc this is.
fn number() -> u32 {
    let path = fs::read_link("/proc/thread-self").unwrap();
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn bind(cpus: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).unwrap();
}

/// What a thread does between two notes of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Computes,
    Yields,
    Sleeps,
    Moves,
    Parks,
}

impl Work {
    fn step(self, step: usize, cpus: usize) {
        match self {
            Work::Computes => {}
            Work::Yields => sched_yield(),
            Work::Sleeps if step.is_multiple_of(1_000) => sleep(Duration::from_millis(1)),
            Work::Moves if step.is_multiple_of(1_000) => bind([step / 1_000 % cpus]),
            Work::Sleeps | Work::Moves => {}
            Work::Parks => park(),
        }
    }
}

/// A thread that is looked at.
struct Subject {
    name: String,
    number: u32,
    clock: ThreadClock,
    /// When it last noted that it runs, in nanoseconds.
    seen: Arc<AtomicU64>,
}

impl Subject {
    /// Starts a thread that works on these CPUs as soon as the gate opens.
    fn start(work: Work, allowed: Vec<usize>, cpus: usize, gate: &Arc<Barrier>) -> Subject {
        let name = format!("{work:?} on {allowed:?}");
        let (seen, gate, (sender, receiver)) = (Arc::new(AtomicU64::new(0)), gate.clone(), mpsc::channel());
        let noted = seen.clone();
        spawn(move || {
            bind(allowed);
            sender.send((number(), ThreadClock::own().unwrap())).unwrap();
            gate.wait();
            for step in 1.. {
                noted.store(now().as_nanos() as u64, Relaxed);
                work.step(step, cpus);
            }
        });
        let (number, clock) = receiver.recv().unwrap();
        Subject { name, number, clock, seen }
    }
}

/// A look at a thread.
#[derive(Debug)]
struct Look {
    subject: usize,
    /// When the thread last noted that it runs.
    seen: Duration,
    from: Duration,
    until: Duration,
    answer: Option<bool>,
}

/// Looks at threads from the first CPU, and expects that no answer contradicts the kernel.
fn compare(cpus: usize) {
    assert_eq!(available_parallelism().unwrap().get(), cpus);
    let last = cpus - 1;
    let all = || (0..cpus).collect::<Vec<usize>>();
    // One has a CPU for itself, and one each shares that of others and that of the looking thread.
    let mut works = vec![(Work::Computes, vec![1]), (Work::Computes, vec![last]), (Work::Computes, vec![0])];
    works.extend([Work::Yields, Work::Sleeps].map(|work| (work, vec![last])));
    works.extend([Work::Sleeps, Work::Moves, Work::Parks].map(|work| (work, all())));
    works.extend((2..last).map(|cpu| (Work::Computes, vec![cpu])));
    let gate = Arc::new(Barrier::new(works.len() + 1));
    let subjects: Vec<Subject> =
        works.into_iter().map(|(work, allowed)| Subject::start(work, allowed, cpus, &gate)).collect();
    let numbers: Vec<u32> = subjects.iter().map(|subject| subject.number).collect();
    let recording = Recording::start(&numbers).unwrap();
    bind([0]);
    gate.wait();
    let mut looks = Vec::new();
    for round in 0..ROUNDS {
        for (number, subject) in subjects.iter().enumerate() {
            let seen = Duration::from_nanos(subject.seen.load(Relaxed));
            let from = now();
            let answer = subject.clock.is_running();
            looks.push(Look { subject: number, seen, from, until: now(), answer });
        }
        // While this thread sleeps, others run.
        if round.is_multiple_of(3) {
            sleep(Duration::from_micros(round as u64 % 400));
        }
    }
    let switches = recording.finish().unwrap();
    // On a CPU throughout, off throughout, and changed or unknown; each with the answers that it
    // runs and that it does not.
    let mut table = format!("{:24} {:>20} {:>20} {:>20}\n", "runs / does not run", "on", "off", "changed");
    let (mut rights, mut contradictions) = ([0; 2], String::new());
    for (number, subject) in subjects.iter().enumerate() {
        let mut counts = [[0; 2]; 3];
        for look in looks.iter().filter(|look| look.subject == number) {
            let runs = look.answer.expect("the clock of a thread that lives");
            // An event comes shortly before the CPU begins to run the thread, and shortly after the
            // thread has begun to block.
            let truth = match switches.around(subject.number, look.from, look.until) {
                Some((last, _)) if last.way != Way::To => 1,
                Some((last, next)) if last.at < look.seen && next.is_none_or(|next| next.way == Way::FromReady) => 0,
                _ => 2,
            };
            counts[truth][usize::from(!runs)] += 1;
            if (truth, runs) == (0, false) || (truth, runs) == (1, true) {
                let all = switches.of(subject.number);
                let next = all.partition_point(|switch| switch.at <= look.from);
                let near = &all[next.saturating_sub(2)..all.len().min(next + 2)];
                writeln!(contradictions, "{}: {runs} in {look:?}, near {near:?}", subject.name).unwrap();
            }
        }
        write!(table, "{:24}", subject.name).unwrap();
        counts.iter().for_each(|[yes, no]| write!(table, " {:>20}", format!("{yes} / {no}")).unwrap());
        table.push('\n');
        rights = [rights[0] + counts[0][0], rights[1] + counts[1][1]];
    }
    eprintln!("{table}");
    assert!(contradictions.is_empty(), "answers that contradict the kernel:\n{contradictions}");
    assert!(rights.into_iter().all(|right| right > ROUNDS / 10), "too few answers to compare");
}
