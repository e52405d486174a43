//! More CPUs than most machines for tests have: machines that QEMU emulates. It emulates all CPUs
//! by one thread, each for a while, so any thread may stand still anywhere for longer than its
//! timeslice.
//!
//! Teams use all objects by every rule, while their threads are moved and their process is stopped.
//! The answer to "does this thread run?" is compared with the kernel's own events.

mod running;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{available_parallelism, scope, sleep};
use std::time::Duration;

use policy::table::WAITING;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use testing::guest::with_cpus;

use crate::stress::Episodes;
use crate::team::rules_that_block;

/// The actions of a thread, and of one that never blocks. It waits for whole timeslices if it
/// shares its CPU with the thread that it waits for.
const ROUNDS: [u64; 2] = [100, 20];

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn teams_of_all_rules_finish_on_4_cpus() {
    testing::isolated_by(with_cpus(4, &[]), || run_teams(4));
}

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn teams_of_all_rules_finish_on_8_cpus() {
    testing::isolated_by(with_cpus(8, &[]), || run_teams(8));
}

/// Runs teams while their threads are moved and this process is stopped, again and again.
fn run_teams(cpus: u64) {
    assert_eq!(available_parallelism().unwrap().get() as u64, cpus);
    // It ends by itself, so that it never leaves this process stopped.
    let stops = "while [ -e $2 ]; do kill -STOP $1; sleep 0.02; kill -CONT $1; sleep 0.2; done";
    let lasts = tempfile::NamedTempFile::new().unwrap();
    let mut stopper = testing::command("sh");
    stopper.args(["-c", stops, "sh", &std::process::id().to_string()]).arg(lasts.path());
    let stopper = testing::Child::start(&mut stopper);
    let ends = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            while !ends.load(Relaxed) {
                move_threads(cpus, &mut random);
                sleep(Duration::from_millis(5));
            }
        });
        for (number, rule) in WAITING.iter().map(|entry| entry.example).enumerate() {
            let blocks = rules_that_block().any(|blocking| blocking == rule);
            for threads in [2, 3, 4, 6, 8, 12, 16].into_iter().filter(|threads| blocks || *threads <= cpus) {
                let rounds = ROUNDS[usize::from(!blocks)];
                let seed = number as u64 * 100 + threads;
                Episodes { threads, rule, cpus: None, rounds, meets: 3, yields: 50, seed }.run();
            }
        }
        ends.store(true, Relaxed);
    });
    drop(lasts);
    stopper.wait().expect_success();
}

/// Binds each thread of this process to one CPU, or to all.
fn move_threads(cpus: u64, random: &mut Xoshiro256PlusPlus) {
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let thread = thread.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let (mut set, first) = (CpuSet::new(), random.next_u64() % (2 * cpus));
        let allowed = if first < cpus { first..first + 1 } else { 0..cpus };
        allowed.for_each(|cpu| set.set(cpu as usize));
        // The thread may have ended.
        let _ = sched_setaffinity(Pid::from_raw(thread), &set);
    }
}
