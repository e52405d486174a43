//! Threads that end, panic or fork while others wait.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rowlock_wait::{Barrier, Mutex};

use super::crew::{by, work};
use super::tests;
use crate::team::rules_that_block;

tests! {
    forks_disturb_no_wait => forks,
    the_child_of_a_fork_can_use_what_nobody_waited_at => child_of_a_fork,
    who_takes_the_number_of_a_thread_that_has_ended_completes_the_round => replaced,
    a_panic_between_arriving_and_completing_keeps_nobody_waiting => panics_after_its_arrival,
    a_panic_in_a_completion_lets_the_others_go => panics_in_a_completion,
    a_panic_with_a_lock_gives_it_back_to_those_who_wait => panics_with_a_lock,
}

/// Forks, has the child do something, and waits for its end.
fn fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child of a process with many threads may only do what is async-signal-safe; see to that where this is
    // called. It leaves by `_exit`.
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
            |crew| {
                while !crew.has_ended() {
                    assert!(fork(|| true));
                }
            },
        );
    }
}

/// What no thread held or waited at when its process forked is in the child as it was, for the one thread that is there.
fn child_of_a_fork() {
    for rule in rules_that_block() {
        let (alone, mutex) = (Barrier::with(1, by(rule)), Mutex::with(1, by(rule)));
        // Neither allocates nor locks anything but the mutex.
        assert!(fork(|| alone.wait().is_leader() && *mutex.lock() == 1), "{rule}");
        assert!(alone.wait().is_leader());
        assert_eq!(alone.statistics().waits, 1, "the child's are its own");
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
            // All of the others wait for one who is not there any more.
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
