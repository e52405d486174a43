//! Processes: forks, executed programs, sudden ends.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use counters::WaitKind;
use libc::*;

use crate::{Shared, TEST_VARIABLE, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("the child of a fork has working locks", fork_one, |entries| assert_eq!(entries.len(), 1)),
    ("the exit of a forked child is not that of its parent", exit_in_child, |entries| assert!(!entries[0].ended)),
    ("an executed program has its own slot in the region", execute, |entries| {
        assert_eq!(entries.len(), 2);
        assert!(!entries[0].ended && entries[1].ended);
        assert_eq!(entries[0].pid, entries[1].pid);
    }),
    ("the counts of a killed process remain", end_suddenly, |entries| {
        assert!(!entries[0].ended);
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 10);
    }),
];

static MUTEX: Shared<pthread_mutex_t> = Shared::new(PTHREAD_MUTEX_INITIALIZER);

fn count(times: usize) {
    for _ in 0..times {
        // SAFETY: it is initialized, and this thread holds it in between.
        unsafe {
            assert_eq!(pthread_mutex_lock(MUTEX.get()), 0);
            assert_eq!(pthread_mutex_unlock(MUTEX.get()), 0);
        }
    }
}

fn fork_one() {
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| count(1000));
            // The mutex is free in the child, as the standard requires before a fork. SAFETY: the
            // child uses only the mutex and its own threads.
            unsafe {
                assert_eq!(pthread_mutex_lock(MUTEX.get()), 0);
                let child = fork();
                assert_eq!(pthread_mutex_unlock(MUTEX.get()), 0);
                if child == 0 {
                    count(1000);
                    _exit(7);
                }
                let mut status = 0;
                assert_eq!(waitpid(child, &raw mut status, 0), child);
                assert!(WIFEXITED(status) && WEXITSTATUS(status) == 7, "{status}");
            }
        });
    }
}

fn exit_in_child() {
    // SAFETY: the child only exits.
    unsafe {
        let child = fork();
        if child == 0 {
            exit(7);
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &raw mut status, 0), child);
        assert!(WIFEXITED(status) && WEXITSTATUS(status) == 7, "{status}");
        _exit(0);
    }
}

fn execute() {
    let other = TESTS[0].0;
    // The process must keep its environment and become the other program, so no helper is used.
    panic!("{}", Command::new(std::env::current_exe().unwrap()).env(TEST_VARIABLE, other).exec());
}

fn end_suddenly() {
    let barrier = Shared::zeroed();
    // SAFETY: it is initialized before it is used.
    unsafe {
        assert_eq!(pthread_barrier_init(barrier.get(), std::ptr::null(), 1), 0);
        (0..10).for_each(|_| assert_ne!(pthread_barrier_wait(barrier.get()), 0));
        _exit(0);
    }
}
