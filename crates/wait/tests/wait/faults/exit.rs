//! Threads that end, panic or fork while others wait.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rowlock_wait::{Barrier, Mutex};

use super::tests;
use super::workers::{by, work};
use crate::team::rules_that_block;

tests! {
    forks_do_not_disturb_waits => forks,
    the_child_of_a_fork_can_use_objects_without_waiters => child_of_a_fork,
    a_thread_with_the_number_of_an_ended_thread_completes_the_round => replaced,
    a_panic_between_arrival_and_completion_keeps_no_thread_waiting => panics_after_its_arrival,
    a_panic_in_a_completion_releases_the_others => panics_in_a_completion,
    a_panic_with_a_lock_releases_it_to_the_waiters => panics_with_a_lock,
}

/// Forks, runs `child` in the child, and waits for its end.
fn fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child of a process with many threads may only do what is async-signal-safe, which
    // the callers ensure. It ends by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            let code = i32::from(!child());
            // SAFETY: no preconditions.
            unsafe { libc::_exit(code) }
        }
        number => {
            let mut status = 0;
            // SAFETY: the status is written to an integer of this frame.
            while unsafe { libc::waitpid(number, &mut status, 0) } != number {}
            status == 0
        }
    }
}

fn forks() {
    for rule in rules_that_block() {
        work(
            rule,
            4,
            400,
            |_| (),
            |workers| {
                while !workers.has_ended() {
                    assert!(fork(|| true));
                }
            },
        );
    }
}

/// Objects that no thread held or used at the time of the fork are unchanged in the child.
fn child_of_a_fork() {
    for rule in rules_that_block() {
        let (alone, mutex) = (Barrier::with(1, by(rule)), Mutex::with(1, by(rule)));
        // Neither allocates nor locks anything except the mutex.
        assert!(fork(|| alone.wait().is_leader() && *mutex.lock() == 1), "{rule}");
        assert!(alone.wait().is_leader());
        assert_eq!(alone.statistics().waits, 1, "the child counts separately");
    }
}

fn replaced() {
    for rule in rules_that_block() {
        let barrier = Barrier::with(3, by(rule));
        std::thread::scope(|scope| {
            let waiters = [0, 1].map(|number| {
                let mut party = barrier.party(number);
                scope.spawn(move || {
                    party.wait();
                    party.wait();
                })
            });
            scope.spawn(|| barrier.party(2).wait()).join().unwrap();
            while barrier.statistics().waits < 5 {
                std::thread::yield_now();
            }
            // The others wait for a party whose thread has ended.
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
            assert!(barrier.party(2).wait().is_leader());
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }
}

fn panics_after_its_arrival() {
    for rule in rules_that_block() {
        let barrier = Barrier::with(3, by(rule));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| barrier.party(0).wait());
            let mut party = barrier.party(1);
            let panicked = scope.spawn(move || {
                let _arrival = party.arrive();
                resume_unwind(Box::new("on purpose"));
            });
            assert!(panicked.join().is_err());
            barrier.party(2).wait();
            waiter.join().unwrap();
        });
    }
}

fn panics_in_a_completion() {
    for rule in rules_that_block() {
        let barrier = Barrier::with(2, by(rule));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| barrier.party(0).wait());
            while barrier.statistics().waits < 1 {
                std::thread::yield_now();
            }
            let mut party = barrier.party(1);
            let result = catch_unwind(AssertUnwindSafe(|| {
                let _ = party.arrive_and(|| resume_unwind(Box::new("on purpose")));
            }));
            assert!(result.is_err());
            assert!(!waiter.join().unwrap().is_leader());
        });
    }
}

fn panics_with_a_lock() {
    for rule in rules_that_block() {
        let mutex = Mutex::with(0, by(rule));
        std::thread::scope(|scope| {
            let mut guard = mutex.lock();
            let waiters = [0, 1].map(|_| scope.spawn(|| *mutex.lock() += 1));
            while mutex.statistics().waits < 2 {
                std::thread::yield_now();
            }
            let result = catch_unwind(AssertUnwindSafe(move || {
                *guard += 1;
                resume_unwind(Box::new("on purpose"))
            }));
            assert!(result.is_err());
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
        assert_eq!(mutex.lock_timeout(Duration::ZERO).map(|guard| *guard), Ok(3));
    }
}
