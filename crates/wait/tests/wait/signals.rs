//! Semaphore, event, latch, parker and words with real threads, by every waiting rule.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::{ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{Event, Latch, Parker, Reset, Semaphore, Statistics, TimedOut, Waiting, word};

use crate::costs::by;

/// Every rule of the table, with a number of turns that takes little time even if more threads than
/// CPUs never block: then each turn may cost a timeslice.
fn rules() -> impl Iterator<Item = (Waiting, u32)> {
    WAITING.iter().map(|entry| {
        let turns = if matches!(
            entry.example,
            WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield | WaitingRule::OwnerRunning
        ) {
            10
        } else {
            500
        };
        (by(entry.example), turns)
    })
}

fn blocking() -> Waiting {
    Waiting::by(WaitingRule::AlwaysBlock)
}

#[test]
fn a_semaphore_never_admits_more_threads_than_permits() {
    const PERMITS: u32 = 2;
    for (waiting, turns) in rules() {
        let semaphore = Semaphore::with(PERMITS, waiting);
        let inside = AtomicU32::new(0);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..turns {
                        assert!(semaphore.down() < PERMITS);
                        assert!(inside.fetch_add(1, AcqRel) < PERMITS, "{waiting:?}");
                        inside.fetch_sub(1, AcqRel);
                        assert!((1..=PERMITS).contains(&semaphore.up().unwrap()));
                    }
                });
            }
        });
        assert_eq!(semaphore.value(), PERMITS);
    }
}

#[test]
fn returned_values_belong_to_their_changes() {
    const PERMITS: u32 = 3;
    let semaphore = Semaphore::with(PERMITS, blocking());
    // How often each level was crossed upwards minus downwards: an up to `v` crosses the same level
    // as a down to `v - 1`.
    let crossings = scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut crossings = [0_i32; PERMITS as usize];
                    for _ in 0..5_000 {
                        crossings[semaphore.down() as usize] -= 1;
                        crossings[semaphore.up().unwrap() as usize - 1] += 1;
                    }
                    crossings
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold([0; PERMITS as usize], |mut sum, crossings| {
            sum.iter_mut().zip(crossings).for_each(|(sum, more)| *sum += more);
            sum
        })
    });
    assert_eq!(crossings, [0; PERMITS as usize]);
}

#[test]
fn several_permits_release_several_threads() {
    for (waiting, _) in rules() {
        let semaphore = Semaphore::with(0, waiting);
        scope(|scope| {
            (0..3).for_each(|_| {
                scope.spawn(|| semaphore.down());
            });
            semaphore.up_by(3).unwrap();
        });
        assert_eq!(semaphore.value(), 0);
    }
}

#[test]
fn threads_that_give_up_lose_no_permit() {
    for (waiting, turns) in rules() {
        let semaphore = Semaphore::with(0, waiting);
        let left = AtomicU32::new(turns);
        scope(|scope| {
            for number in 0..3 {
                let (semaphore, left) = (&semaphore, &left);
                scope.spawn(move || {
                    while left.load(Relaxed) > 0 {
                        if semaphore.down_timeout(Duration::from_micros(10 * number)).is_ok() {
                            left.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
            (0..turns).for_each(|_| assert!(semaphore.up().is_ok()));
        });
        assert_eq!((semaphore.value(), left.into_inner()), (0, 0));
    }
}

#[test]
fn two_threads_alternate_by_events() {
    for (waiting, turns) in rules() {
        let events = [0, 1].map(|_| Event::with(Reset::Auto, waiting));
        let turn = AtomicU32::new(0);
        scope(|scope| {
            for me in [0, 1] {
                let (events, turn) = (&events, &turn);
                scope.spawn(move || {
                    for _ in 0..turns {
                        events[me].wait();
                        assert_eq!(turn.fetch_add(1, Relaxed) as usize % 2, me);
                        events[1 - me].set();
                    }
                });
            }
            events[0].set();
        });
        assert!(events[0].reset() && !events[1].reset());
        assert_eq!(turn.into_inner(), 2 * turns);
    }
}

#[test]
fn each_set_lets_one_thread_pass_and_none_is_lost() {
    for (waiting, turns) in rules() {
        let event = Event::with(Reset::Auto, waiting);
        let passed = AtomicU32::new(0);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..turns {
                        event.wait();
                        assert_eq!(passed.fetch_add(1, AcqRel) % 2, 0);
                        assert_eq!(passed.fetch_add(1, AcqRel) % 2, 1);
                        event.set();
                    }
                });
            }
            event.set();
        });
        assert_eq!(passed.into_inner(), 8 * turns);
        assert!(event.is_set());
    }
}

#[test]
fn a_sleeper_passes_a_set_event_even_if_it_is_reset_immediately() {
    let event = Event::with(Reset::Manual, blocking());
    scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| event.wait())).collect();
        // Set it again for the threads that were not yet waiting. How many wait is unknown.
        while !waiters.iter().all(ScopedJoinHandle::is_finished) {
            event.set();
            assert!(event.reset());
            std::thread::yield_now();
        }
    });
    assert!(!event.is_set());
}

#[test]
fn all_pass_a_latch_after_the_last_count_and_none_before() {
    for (waiting, turns) in rules() {
        for _ in 0..turns.min(50) {
            let latch = Latch::with(3, waiting);
            let arrived = AtomicU32::new(0);
            scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        arrived.fetch_add(1, Relaxed);
                        latch.arrive_and_wait();
                        assert_eq!(arrived.load(Relaxed), 3);
                    });
                }
                latch.wait();
                assert_eq!(arrived.load(Relaxed), 3);
            });
            assert!(latch.is_open());
        }
    }
}

#[test]
fn a_parked_thread_resumes_when_unparked() {
    for (waiting, turns) in rules() {
        let parkers = [0, 1].map(|_| Parker::with(waiting));
        let [first, second] = [0, 1].map(|number: usize| parkers[number].unparker());
        first.unpark();
        let turn = AtomicU32::new(0);
        scope(|scope| {
            let others = [second, first];
            for (me, (parker, other)) in (0..).zip(parkers.into_iter().zip(others)) {
                let turn = &turn;
                scope.spawn(move || {
                    for _ in 0..turns {
                        parker.park();
                        assert_eq!(turn.fetch_add(1, Relaxed) % 2, me);
                        other.unpark();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 2 * turns);
    }
}

#[test]
fn two_threads_take_turns_by_a_word() {
    for (waiting, turns) in rules() {
        let word = AtomicU32::new(0);
        scope(|scope| {
            for me in [0, 1] {
                let word = &word;
                scope.spawn(move || {
                    for turn in 0..turns {
                        let mine = 2 * turn + me;
                        let mut seen = word.load(Acquire);
                        while seen != mine {
                            seen = word::wait(word, seen, &waiting);
                        }
                        word.store(mine + 1, Release);
                        word::wake_one(word);
                    }
                });
            }
        });
        assert_eq!(word.into_inner(), 2 * turns);
    }
}

#[test]
fn a_wakeup_without_a_change_ends_no_wait() {
    let word = AtomicU32::new(0);
    scope(|scope| {
        let waiter = scope.spawn(|| word::wait(&word, 0, &blocking()));
        let mut woken = 0;
        while woken < 3 {
            woken += sys::futex::wake(&word, 1, sys::futex::Scope::Process);
            std::thread::yield_now();
        }
        assert!(!waiter.is_finished());
        word.store(5, Release);
        word::wake_all(&word);
        assert_eq!(waiter.join().unwrap(), 5);
    });
    // The change may have come before it slept again.
    assert!(word::statistics().blocks >= 3);
}

#[test]
fn a_timed_wait_ends_with_its_event() {
    let far = || Instant::now() + Duration::from_secs(1 << 30);
    let (semaphore, latch, parker) = (Semaphore::new(0), Latch::new(1), Parker::new());
    let events = [Reset::Auto, Reset::Manual].map(Event::new);
    let word = AtomicU32::new(0);
    let unparker = parker.unparker();
    scope(|scope| {
        scope.spawn(|| {
            assert_eq!(semaphore.down_timeout(far()), Ok(0));
            assert_eq!(latch.wait_timeout(Duration::MAX), Ok(()));
            events.iter().for_each(|event| assert_eq!(event.wait_timeout(far()), Ok(())));
            assert_eq!(word::wait_timeout(&word, 0, far(), &Waiting::ADAPTIVE), Ok(1));
        });
        scope.spawn(move || assert_eq!(parker.park_timeout(Duration::MAX), Ok(())));
        semaphore.up().unwrap();
        latch.count_down();
        events.iter().for_each(Event::set);
        unparker.unpark();
        word.store(1, Release);
        word::wake_all(&word);
    });
}

#[test]
fn statistics_add_up_for_every_rule() {
    for entry in WAITING {
        let event = Event::with(Reset::Auto, by(entry.example));
        (0..3).for_each(|_| assert_eq!(event.wait_timeout(Duration::from_micros(20)), Err(TimedOut)));
        let Statistics { waits, spins, successful_spins, yields, blocks, .. } = event.statistics();
        assert_eq!((waits, successful_spins), (3, 0), "{}", entry.form);
        // The deadline may pass during a check, which is none of them.
        assert!(spins + yields + blocks >= 3 || entry.example == WaitingRule::OwnerRunning, "{}", entry.form);
        match entry.example {
            WaitingRule::AlwaysBlock => assert_eq!((spins, yields), (0, 0)),
            WaitingRule::AlwaysSpin => assert_eq!((spins, yields, blocks), (3, 0, 0)),
            WaitingRule::AlwaysYield => assert_eq!((spins, blocks), (0, 0)),
            _ => {}
        }
    }
}
