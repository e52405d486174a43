//! Fibers that are interrupted anywhere.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{
    Activity, Builder, Config, JoinError, RunError, Runtime, StackError, ThreadControlBlocks, channel, dump,
    preemptions, remote, scope, sleep, spawn, yield_now,
};
use sys::scheduling::Thread;
use sys::tick::Slack;

use crate::at_drop::AtDrop;
use crate::scripted::{self, KernelLock, TURN};

/// A runtime that uses the real clock.
fn runtime(thread_control_blocks: ThreadControlBlocks) -> Runtime {
    let rules =
        FeedbackRules { levels: 4, running_time: Span::from_micros(200), boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, thread_control_blocks, ..Config::default() })
}

/// Runs each of these tests with the best kind of preemption here, and with kernel threads, which
/// work everywhere.
macro_rules! tests {
    ($($name:ident,)*) => {
        mod by_the_best_means {
            $(#[test] fn $name() { super::$name(super::ThreadControlBlocks::Auto) })*
        }
        mod by_kernel_threads {
            $(#[test] fn $name() { super::$name(super::ThreadControlBlocks::KernelThreads) })*
        }
    };
}
pub(crate) use tests;

tests! {
    a_fiber_that_reaches_no_safepoint_is_preempted,
    fibers_of_one_level_take_turns_that_end_with_ticks,
    a_thread_outside_can_advance_the_clock,
    a_sleeper_wakes_beside_an_endless_loop,
    a_runtime_ends_while_a_fiber_loops,
    memory_is_allocated_everywhere,
    a_workers_first_preemptible_fiber_can_come_from_outside,
    a_running_time_shorter_than_a_tick_keeps_no_fiber_from_running,
    a_dump_reads_nothing_of_an_orphaned_fiber,
    a_fiber_that_is_not_preemptible_gets_a_lock_that_an_interrupted_one_holds,
    a_fiber_that_is_not_preemptible_and_yields_its_cpu_lets_an_interrupted_one_run,
    a_runtime_is_refused_within_another_one,
    an_orphaned_fiber_unwinds_when_it_calls_the_library,
    the_smallest_stack_suffices_to_start,
    a_preemptible_fiber_without_a_stack_drops_its_function,
    sleeps_in_the_kernel_end_although_ticks_are_closer_than_the_timer_slack,
    an_orphaned_fiber_does_not_leave_its_scope_before_its_borrowers,
}

fn a_fiber_that_reaches_no_safepoint_is_preempted(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 4, Boost::Never);
    let (over, clock) = (Arc::new(AtomicBool::new(false)), scripted.clock.clone());
    let loops = Arc::clone(&over);
    let counts = scripted.run(|| {
        let fiber = spawn(move || {
            let mut rounds = 0;
            while !loops.load(Relaxed) {
                clock.advance(TURN / 4);
                rounds += 1;
            }
            rounds
        });
        let other = spawn(move || over.store(true, Relaxed));
        let rounds = fiber.join().unwrap();
        other.join().unwrap();
        (rounds, preemptions().taken)
    });
    assert_eq!(counts.unwrap(), (4, 1));
}

fn fibers_of_one_level_take_turns_that_end_with_ticks(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 1, Boost::Never);
    let order = Mutex::new(String::new());
    let taken = scripted.run(|| {
        scope(|scope| {
            for name in ['a', 'b', 'c'] {
                let (order, clock) = (&order, &scripted.clock);
                scope.spawn(move || {
                    for _ in 0..4 {
                        order.lock().unwrap().push(name);
                        clock.advance(TURN / 2);
                    }
                });
            }
        });
        preemptions().taken
    });
    // Each of the six turns ends with a tick: a fiber that has had its last one needs another turn
    // to return.
    assert_eq!((order.into_inner().unwrap().as_str(), taken.unwrap()), ("aabbccaabbcc", 6));
    assert_eq!(scripted.clock.elapsed(), 6 * TURN);
}

fn a_thread_outside_can_advance_the_clock(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 1, Boost::Never);
    let [begun, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (begins, loops) = (Arc::clone(&begun), Arc::clone(&over));
    let clock = scripted.clock.clone();
    let outside = std::thread::spawn(move || {
        while !begun.load(Relaxed) {
            std::thread::yield_now();
        }
        clock.advance(TURN);
    });
    let taken = scripted.run(|| {
        let fiber = spawn(move || {
            begins.store(true, Relaxed);
            while !loops.load(Relaxed) {}
        });
        // It runs only after the other one was interrupted.
        spawn(move || over.store(true, Relaxed)).join().unwrap();
        fiber.join().unwrap();
        preemptions().taken
    });
    outside.join().unwrap();
    assert_eq!(taken.unwrap(), 1);
}

fn a_sleeper_wakes_beside_an_endless_loop(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 4, Boost::Every(Span::from_millis(50)));
    let (over, clock) = (Arc::new(AtomicBool::new(false)), scripted.clock.clone());
    let loops = Arc::clone(&over);
    let taken = scripted.run(|| {
        let fiber = spawn(move || {
            while !loops.load(Relaxed) {
                clock.advance(TURN / 4);
            }
        });
        for _ in 0..10 {
            // Three running times pass, and no tick comes before the sleep is over.
            sleep(3 * TURN);
        }
        over.store(true, Relaxed);
        fiber.join().unwrap();
        preemptions().taken
    });
    assert_eq!((taken.unwrap(), scripted.clock.elapsed()), (10, 30 * TURN));
}

fn a_runtime_ends_while_a_fiber_loops(blocks: ThreadControlBlocks) {
    runtime(blocks)
        .run(|| {
            Builder::new()
                .spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                })
                .unwrap();
            sleep(Duration::from_millis(1));
        })
        .unwrap();
}

fn memory_is_allocated_everywhere(blocks: ThreadControlBlocks) {
    const ENOUGH: u64 = 200;
    let rounds: Arc<[AtomicU64; 8]> = Arc::default();
    runtime(blocks)
        .run(|| {
            let work = |byte: u8| {
                let rounds = Arc::clone(&rounds);
                move || {
                    while rounds.iter().any(|rounds| rounds.load(Relaxed) < ENOUGH) {
                        let all: Vec<Vec<u8>> = (0..20).map(|i| vec![byte; 16 + 37 * i]).collect();
                        assert!(all.iter().all(|vec| vec.iter().all(|is| *is == byte)));
                        rounds[usize::from(byte)].fetch_add(1, Relaxed);
                    }
                }
            };
            let fibers: Vec<_> = (0..8).map(|byte| spawn(work(byte))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        })
        .unwrap();
}

fn a_workers_first_preemptible_fiber_can_come_from_outside(blocks: ThreadControlBlocks) {
    thread_local! { static MARK: Cell<u32> = const { Cell::new(0) } }
    runtime(blocks)
        .run(|| {
            MARK.set(1);
            let remote = remote();
            let outside = std::thread::spawn(move || {
                let look = || {
                    yield_now();
                    MARK.get()
                };
                remote.spawn(look).unwrap().join().unwrap()
            });
            while !outside.is_finished() {
                sleep(Duration::from_micros(100));
            }
            assert_eq!(outside.join().unwrap(), 0, "it has thread-locals of its own");
        })
        .unwrap();
}

fn a_dump_reads_nothing_of_an_orphaned_fiber(blocks: ThreadControlBlocks) {
    let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (loops, sees) = (Arc::clone(&over), Arc::clone(&seen));
    let at_end = AtDrop(move || {
        let looper = loop {
            let all = dump().fibers;
            let looper = all.into_iter().find(|fiber| fiber.label.number == 1 || fiber.label.name.is_some());
            let looper = looper.unwrap();
            if looper.activity == Activity::Running {
                break looper;
            }
            yield_now();
        };
        sees.store(true, Relaxed);
        assert!(looper.backtrace.is_none(), "{looper}");
    });
    runtime(blocks)
        .run(|| {
            Builder::new().name("looper").spawn(move || while !loops.load(Relaxed) {}).unwrap();
            let waits = Builder::new().preemptible(false).spawn(move || {
                let _at_end = at_end;
                loop {
                    sleep(Duration::from_secs(1));
                }
            });
            waits.unwrap();
            sleep(Duration::from_millis(1));
        })
        .unwrap();
    over.store(true, Relaxed);
    assert!(seen.load(Relaxed));
}

fn a_running_time_shorter_than_a_tick_keeps_no_fiber_from_running(blocks: ThreadControlBlocks) {
    let rules = FeedbackRules { levels: 4, running_time: Span::from_nanos(1), boost: Boost::Never };
    let runtime = Runtime::new(Config { rules, preemptible: true, thread_control_blocks: blocks, ..Config::default() });
    runtime
        .run(|| {
            let count = || (0..10_000).map(std::hint::black_box).sum::<u64>();
            let fibers: Vec<_> = (0..3).map(|_| spawn(count)).collect();
            assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 49_995_000));
        })
        .unwrap();
}

fn a_fiber_that_is_not_preemptible_gets_a_lock_that_an_interrupted_one_holds(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 4, Boost::Never);
    let lock = Arc::new(KernelLock::default());
    let (waits, clock) = (Arc::new(AtomicBool::new(false)), scripted.clock.clone());
    let (theirs, is_waited_for) = (Arc::clone(&lock), Arc::clone(&waits));
    let (worker, advances, sees) = (Thread::current(), clock.clone(), Arc::clone(&waits));
    let outside = std::thread::spawn(move || {
        while !sees.load(Relaxed) {
            std::thread::yield_now();
        }
        scripted::await_futex(worker);
        // The running fiber is not preemptible: it is checked now and then.
        advances.advance(10 * TURN);
    });
    let counts = scripted.run(|| {
        let owner = spawn(move || {
            let _guard = theirs.lock();
            clock.advance(TURN);
            // It continues only on the other's timeslice.
            assert!(is_waited_for.load(Relaxed));
        });
        let waiter = Builder::new().preemptible(false).spawn(move || {
            assert!(lock.try_lock().is_none());
            waits.store(true, Relaxed);
            drop(lock.lock());
        });
        waiter.unwrap().join().unwrap();
        owner.join().unwrap();
        (preemptions().taken, preemptions().donated)
    });
    outside.join().unwrap();
    assert_eq!(counts.unwrap(), (1, 1));
}

fn a_fiber_that_is_not_preemptible_and_yields_its_cpu_lets_an_interrupted_one_run(blocks: ThreadControlBlocks) {
    let [begun, looks, done] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let donated = runtime(blocks)
        .run(|| {
            let theirs = [&begun, &looks, &done].map(Arc::clone);
            let fiber = spawn(move || {
                let [begun, looks, done] = theirs;
                begun.store(true, Relaxed);
                while !looks.load(Relaxed) {}
                // It continues only on the other's timeslice.
                done.store(true, Relaxed);
            });
            while !begun.load(Relaxed) {
                yield_now();
            }
            let polls = move || {
                looks.store(true, Relaxed);
                while !done.load(Relaxed) {
                    scripted::yield_unnoticed();
                }
            };
            Builder::new().preemptible(false).spawn(polls).unwrap().join().unwrap();
            fiber.join().unwrap();
            preemptions().donated
        })
        .unwrap();
    assert!(donated > 0);
}

fn a_runtime_is_refused_within_another_one(blocks: ThreadControlBlocks) {
    let within = || matches!(Runtime::default().run(|| ()), Err(RunError::Inside));
    let refused = runtime(blocks).run(|| spawn(within).join().unwrap()).unwrap();
    assert!(refused);
}

fn an_orphaned_fiber_unwinds_when_it_calls_the_library(blocks: ThreadControlBlocks) {
    let [over, begun, unwound] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    runtime(blocks)
        .run(|| {
            let (over, begins, unwinds) = (Arc::clone(&over), Arc::clone(&begun), Arc::clone(&unwound));
            spawn(move || {
                let _tells = AtDrop(|| unwinds.store(true, Relaxed));
                begins.store(true, Relaxed);
                while !over.load(Relaxed) {}
                yield_now();
                unreachable!("an orphaned fiber cannot use the library");
            });
            while !begun.load(Relaxed) {
                yield_now();
            }
        })
        .unwrap();
    assert!(!unwound.load(Relaxed));
    over.store(true, Relaxed);
    while !unwound.load(Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn each_fiber_has_a_kernel_thread_and_one_runs_at_a_time() {
    let over = Arc::new(AtomicBool::new(false));
    let runs = |thread: &Thread| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.number())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('R')
    };
    runtime(ThreadControlBlocks::KernelThreads)
        .run(|| {
            let (sender, begun) = channel(4);
            let fibers: Vec<_> = (0..4)
                .map(|_| {
                    let (sender, over) = (sender.clone(), Arc::clone(&over));
                    spawn(move || {
                        let thread = Thread::current();
                        sender.send(thread).unwrap();
                        while !over.load(Relaxed) {}
                        assert_eq!(Thread::current(), thread);
                    })
                })
                .collect();
            let mut threads: Vec<_> = (0..4).map(|_| begun.recv().unwrap()).collect();
            // A thread that has handed over may take a moment to fall asleep.
            while threads.iter().any(runs) {}
            over.store(true, Relaxed);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            threads.push(Thread::current());
            threads.sort_unstable_by_key(|thread| thread.number());
            threads.dedup();
            assert_eq!(threads.len(), 5);
        })
        .unwrap();
}

fn the_smallest_stack_suffices_to_start(blocks: ThreadControlBlocks) {
    let config = Config { preemptible: true, thread_control_blocks: blocks, stack_size: 1, ..Config::default() };
    assert_eq!(Runtime::new(config).run(|| spawn(|| 7).join().unwrap()).unwrap(), 7);
}

fn a_preemptible_fiber_without_a_stack_drops_its_function(blocks: ThreadControlBlocks) {
    let thing = Arc::new(());
    let theirs = Arc::clone(&thing);
    runtime(blocks)
        .run(|| {
            let refused = Builder::new().stack_size(usize::MAX).spawn(move || drop(theirs)).unwrap();
            assert!(matches!(refused.join(), Err(JoinError::NoStack(StackError::TooLarge { .. }))));
        })
        .unwrap();
    assert_eq!(Arc::strong_count(&thing), 1);
}

fn sleeps_in_the_kernel_end_although_ticks_are_closer_than_the_timer_slack(thread_control_blocks: ThreadControlBlocks) {
    let before = Slack::of_this_thread();
    let rules =
        FeedbackRules { levels: 4, running_time: Span::from_micros(40), boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, thread_control_blocks, ..Config::default() })
        .run(|| {
            let sleepers = [(); 4].map(|()| spawn(|| std::thread::sleep(Duration::from_millis(1))));
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        })
        .unwrap();
    assert_eq!(Slack::of_this_thread(), before);
}

fn an_orphaned_fiber_does_not_leave_its_scope_before_its_borrowers(blocks: ThreadControlBlocks) {
    let scripted = scripted::runtime(blocks, 4, Boost::Never);
    let [begun, over, dropped] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let (begins, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let (is_over, clock) = (Arc::clone(&over), scripted.clock.clone());
    let (tell, told) = std::sync::mpsc::channel();
    scripted
        .run(|| {
            let parent = move || {
                let mut borrowed = (0_u64, AtDrop(|| drops.store(true, Relaxed)));
                scope(|scope| {
                    scope.spawn(|| {
                        while !scripted::is_orphaned() {
                            borrowed.0 = std::hint::black_box(borrowed.0 + 1);
                            clock.advance(TURN);
                        }
                        loop {
                            std::thread::park();
                        }
                    });
                    begins.store(true, Relaxed);
                    while !scripted::is_orphaned() {
                        clock.advance(TURN);
                    }
                    while !is_over.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    tell.send(Thread::current()).unwrap();
                });
            };
            spawn(parent).detach();
            while !begun.load(Relaxed) {
                yield_now();
            }
        })
        .unwrap();
    over.store(true, Relaxed);
    scripted::await_futex(told.recv().unwrap());
    assert!(!dropped.load(Relaxed), "its fiber writes to a dropped value");
}
