//! Fibers that are interrupted anywhere.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use policy::Span;
use policy::feedback::{Boost, Rules};
use rowlock_fiber::{
    Builder, Config, Doing, JoinError, PreemptBy, RunError, Runtime, StackError, channel, dump, preemptions, remote,
    scope, sleep, spawn, yield_now,
};
use sys::scheduling::Thread;
use sys::tick::{SignalMask, Slack};

fn runtime(preempt_by: PreemptBy) -> Runtime {
    let rules = Rules { levels: 4, running_time: Span::from_micros(200), boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, preempt_by, ..Config::default() })
}

/// Each of these tests with what is best here, and with what there is everywhere.
macro_rules! tests {
    ($($name:ident,)*) => {
        mod by_the_best_means {
            $(#[test] fn $name() { super::$name(super::PreemptBy::Auto) })*
        }
        mod by_kernel_threads {
            $(#[test] fn $name() { super::$name(super::PreemptBy::KernelThreads) })*
        }
    };
}

tests! {
    a_fiber_that_comes_to_no_point_gives_way,
    a_sleeper_wakes_beside_an_endless_loop,
    a_runtime_ends_while_a_fiber_loops,
    memory_is_allocated_everywhere,
    a_workers_first_one_comes_from_outside,
    a_running_time_that_is_shorter_than_a_tick_keeps_nobody_from_running,
    nothing_is_looked_at_of_one_that_goes_on_elsewhere,
    who_is_not_preemptible_waits_for_a_lock_that_an_interrupted_one_has,
    who_is_not_preemptible_and_yields_its_cpu_waits_for_what_an_interrupted_one_is_about_to_do,
    a_runtime_is_refused_within_another_one,
    one_that_was_left_over_unwinds_where_it_comes_to_the_library,
    the_smallest_stack_suffices_to_begin,
    one_that_cannot_have_its_stack_drops_its_function,
    who_sleeps_in_the_kernel_wakes_up_though_interrupted_more_often_than_the_kernel_is_punctual,
    who_goes_on_elsewhere_does_not_leave_its_scope_before_those_who_borrow,
    one_of_a_low_level_goes_on_elsewhere_when_its_runtime_ends,
    many_that_take_their_time_all_end_with_their_runtime,
}

fn a_fiber_that_comes_to_no_point_gives_way(by: PreemptBy) {
    let over = Arc::new(AtomicBool::new(false));
    let loops = Arc::clone(&over);
    runtime(by)
        .run(|| {
            let fiber = spawn(move || while !loops.load(Relaxed) {});
            let other = spawn(move || over.store(true, Relaxed));
            fiber.join().unwrap();
            other.join().unwrap();
        })
        .unwrap();
}

fn a_sleeper_wakes_beside_an_endless_loop(by: PreemptBy) {
    let over = Arc::new(AtomicBool::new(false));
    let loops = Arc::clone(&over);
    let taken = runtime(by)
        .run(|| {
            let fiber = spawn(move || while !loops.load(Relaxed) {});
            for _ in 0..10 {
                sleep(Duration::from_millis(1));
            }
            // Where the machine stopped for as long as it was to sleep, it did not.
            while preemptions().taken < 10 {
                sleep(Duration::from_millis(1));
            }
            over.store(true, Relaxed);
            fiber.join().unwrap();
            preemptions().taken
        })
        .unwrap();
    assert!(taken >= 10, "{taken}");
}

fn a_runtime_ends_while_a_fiber_loops(by: PreemptBy) {
    runtime(by)
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

fn memory_is_allocated_everywhere(by: PreemptBy) {
    let over = Arc::new(AtomicBool::new(false));
    runtime(by)
        .run(|| {
            let work = |byte: u8, over: Arc<AtomicBool>| {
                move || {
                    let mut rounds = 0_u64;
                    while !over.load(Relaxed) {
                        let all: Vec<Vec<u8>> = (0..20).map(|i| vec![byte; 16 + 37 * i]).collect();
                        assert!(all.iter().all(|vec| vec.iter().all(|is| *is == byte)));
                        rounds += 1;
                    }
                    rounds
                }
            };
            let fibers: Vec<_> = (0..8).map(|byte| spawn(work(byte, Arc::clone(&over)))).collect();
            sleep(Duration::from_secs(1));
            over.store(true, Relaxed);
            for fiber in fibers {
                assert!(fiber.join().unwrap() > 0);
            }
            eprintln!("{:?}", preemptions());
        })
        .unwrap();
}

fn a_workers_first_one_comes_from_outside(by: PreemptBy) {
    thread_local! { static MARK: Cell<u32> = const { Cell::new(0) } }
    runtime(by)
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

fn nothing_is_looked_at_of_one_that_goes_on_elsewhere(by: PreemptBy) {
    struct AtEnd(Arc<AtomicBool>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let looper = loop {
                let all = dump().fibers;
                let looper = all.into_iter().find(|fiber| fiber.label.number == 1 || fiber.label.name.is_some());
                let looper = looper.unwrap();
                if looper.doing == Doing::Running {
                    break looper;
                }
                yield_now();
            };
            self.0.store(true, Relaxed);
            assert!(looper.backtrace.is_none(), "{looper}");
        }
    }

    let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (loops, at_end) = (Arc::clone(&over), AtEnd(Arc::clone(&seen)));
    runtime(by)
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

fn a_running_time_that_is_shorter_than_a_tick_keeps_nobody_from_running(by: PreemptBy) {
    let rules = Rules { levels: 4, running_time: Span::from_nanos(1), boost: Boost::Never };
    let runtime = Runtime::new(Config { rules, preemptible: true, preempt_by: by, ..Config::default() });
    runtime
        .run(|| {
            let count = || (0..10_000).map(std::hint::black_box).sum::<u64>();
            let fibers: Vec<_> = (0..3).map(|_| spawn(count)).collect();
            assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 49_995_000));
        })
        .unwrap();
}

fn who_is_not_preemptible_waits_for_a_lock_that_an_interrupted_one_has(by: PreemptBy) {
    let lock = Arc::new(Mutex::new(()));
    let waits = Arc::new(AtomicBool::new(false));
    let lent = runtime(by)
        .run(|| {
            let (theirs, is_waited_for) = (Arc::clone(&lock), Arc::clone(&waits));
            let owner = spawn(move || {
                let _guard = theirs.lock().unwrap();
                while !is_waited_for.load(Relaxed) {}
                // It goes on only in the other's place.
                (0..100_000).for_each(|_| std::hint::spin_loop());
            });
            let waiter = Builder::new().preemptible(false).spawn(move || {
                while lock.try_lock().is_ok() {
                    yield_now();
                }
                waits.store(true, Relaxed);
                drop(lock.lock().unwrap());
            });
            waiter.unwrap().join().unwrap();
            owner.join().unwrap();
            preemptions().lent
        })
        .unwrap();
    assert!(lent > 0);
}

fn who_is_not_preemptible_and_yields_its_cpu_waits_for_what_an_interrupted_one_is_about_to_do(by: PreemptBy) {
    let [begun, looks, done] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let lent = runtime(by)
        .run(|| {
            let theirs = [&begun, &looks, &done].map(Arc::clone);
            let fiber = spawn(move || {
                let [begun, looks, done] = theirs;
                begun.store(true, Relaxed);
                while !looks.load(Relaxed) {}
                // It goes on only in the other's place.
                done.store(true, Relaxed);
            });
            while !begun.load(Relaxed) {
                yield_now();
            }
            looks.store(true, Relaxed);
            while !done.load(Relaxed) {
                std::thread::yield_now();
            }
            fiber.join().unwrap();
            preemptions().lent
        })
        .unwrap();
    assert!(lent > 0);
}

fn a_runtime_is_refused_within_another_one(by: PreemptBy) {
    let within = || matches!(Runtime::default().run(|| ()), Err(RunError::Inside));
    let refused = runtime(by).run(|| spawn(within).join().unwrap()).unwrap();
    assert!(refused);
}

fn one_that_was_left_over_unwinds_where_it_comes_to_the_library(by: PreemptBy) {
    struct Tells(Arc<AtomicBool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let [over, begun, unwound] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    runtime(by)
        .run(|| {
            let tells = Tells(Arc::clone(&unwound));
            let (over, begins) = (Arc::clone(&over), Arc::clone(&begun));
            spawn(move || {
                let _tells = tells;
                begins.store(true, Relaxed);
                while !over.load(Relaxed) {}
                yield_now();
                unreachable!("there is no library for it any more");
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
#[allow(unsafe_code)] // Signals are blocked by the C library.
fn signals_that_one_left_blocked_are_not_so_for_the_next_on_its_kernel_thread() {
    runtime(PreemptBy::KernelThreads)
        .run(|| {
            let before = spawn(SignalMask::of_this_thread).join().unwrap();
            let block = || {
                // SAFETY: zeros are a set, to which a signal is added, and no room is asked for.
                unsafe {
                    let mut user: libc::sigset_t = std::mem::zeroed();
                    libc::sigaddset(&raw mut user, libc::SIGUSR1);
                    libc::pthread_sigmask(libc::SIG_BLOCK, &raw const user, std::ptr::null_mut());
                }
                (Thread::current(), SignalMask::of_this_thread())
            };
            let (thread, blocked) = spawn(block).join().unwrap();
            let next = spawn(|| (Thread::current(), SignalMask::of_this_thread())).join().unwrap();
            assert_ne!(blocked, before);
            assert_eq!(next, (thread, before));
        })
        .unwrap();
}

#[test]
fn each_has_a_kernel_thread_of_its_own_and_they_run_one_at_a_time() {
    let over = Arc::new(AtomicBool::new(false));
    let runs = |thread: &Thread| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.number())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('R')
    };
    runtime(PreemptBy::KernelThreads)
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
            // Whoever has handed over may take a little while to fall asleep.
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

fn the_smallest_stack_suffices_to_begin(by: PreemptBy) {
    let config = Config { preemptible: true, preempt_by: by, stack_size: 1, ..Config::default() };
    assert_eq!(Runtime::new(config).run(|| spawn(|| 7).join().unwrap()).unwrap(), 7);
}

fn one_that_cannot_have_its_stack_drops_its_function(by: PreemptBy) {
    let thing = Arc::new(());
    let theirs = Arc::clone(&thing);
    runtime(by)
        .run(|| {
            let refused = Builder::new().stack_size(usize::MAX).spawn(move || drop(theirs)).unwrap();
            assert!(matches!(refused.join(), Err(JoinError::NoStack(StackError::TooLarge { .. }))));
        })
        .unwrap();
    assert_eq!(Arc::strong_count(&thing), 1);
}

fn who_sleeps_in_the_kernel_wakes_up_though_interrupted_more_often_than_the_kernel_is_punctual(preempt_by: PreemptBy) {
    let before = Slack::of_this_thread();
    let rules = Rules { levels: 4, running_time: Span::from_micros(40), boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, preempt_by, ..Config::default() })
        .run(|| {
            let sleepers = [(); 4].map(|()| spawn(|| std::thread::sleep(Duration::from_millis(1))));
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        })
        .unwrap();
    assert_eq!(Slack::of_this_thread(), before);
}

/// Says that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn who_goes_on_elsewhere_does_not_leave_its_scope_before_those_who_borrow(by: PreemptBy) {
    let [begun, done, dropped] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let (begins, does, drops) = (Arc::clone(&begun), Arc::clone(&done), Arc::clone(&dropped));
    runtime(by)
        .run(|| {
            let parent = move || {
                let mut borrowed = (0_u64, Dropped(drops));
                scope(|scope| {
                    scope.spawn(|| {
                        loop {
                            borrowed.0 = std::hint::black_box(borrowed.0 + 1);
                        }
                    });
                    begins.store(true, Relaxed);
                    // As long as a runtime has patience with it.
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(2_100) {}
                    does.store(true, Relaxed);
                });
            };
            spawn(parent).detach();
            while !begun.load(Relaxed) {
                sleep(Duration::from_millis(1));
            }
        })
        .unwrap();
    while !done.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(!dropped.load(Relaxed), "its fiber writes to what was dropped");
}

fn one_of_a_low_level_goes_on_elsewhere_when_its_runtime_ends(preempt_by: PreemptBy) {
    let rules = Rules { levels: 2, running_time: Span::from_millis(1_000), boost: Boost::Never };
    let rounds = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&rounds);
    Runtime::new(Config { rules, preemptible: true, preempt_by, ..Config::default() })
        .run(|| {
            spawn(move || {
                loop {
                    theirs.fetch_add(1, Relaxed);
                }
            })
            .detach();
            // By then it has come down, and this one has not.
            sleep(Duration::from_millis(1_200));
        })
        .unwrap();
    let by_then = rounds.load(Relaxed);
    while rounds.load(Relaxed) == by_then {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn many_that_take_their_time_all_end_with_their_runtime(by: PreemptBy) {
    const MANY: u64 = 200;
    /// Who ends, and how much it has to do before: each more than the one before it, so that one ends every few milliseconds.
    struct Slow(Arc<[AtomicU64; 2]>, u64);
    impl Drop for Slow {
        fn drop(&mut self) {
            assert_ne!((0..3_000 * self.1).map(std::hint::black_box).sum::<u64>(), 0);
            // By blocks, who goes on elsewhere is on a kernel thread that is made for it.
            let is_elsewhere = rustix::thread::name().is_ok_and(|name| name.as_c_str() == c"rowlock-exile");
            self.0[usize::from(is_elsewhere)].fetch_add(1, Relaxed);
        }
    }
    let ended: Arc<[AtomicU64; 2]> = Arc::default();
    runtime(by)
        .run(|| {
            for number in 0..MANY {
                let slow = Slow(Arc::clone(&ended), number + 1);
                let waits = move || {
                    let _slow = slow;
                    sleep(Duration::from_secs(1_000));
                };
                spawn(waits).detach();
            }
            // All have begun.
            sleep(Duration::from_millis(1));
            yield_now();
        })
        .unwrap();
    // Where the machine stops, or is very busy, some have had their time, and go on elsewhere.
    assert!(ended[0].load(Relaxed) >= MANY / 2, "{ended:?}");
    while ended.iter().map(|ended| ended.load(Relaxed)).sum::<u64>() < MANY {
        std::thread::sleep(Duration::from_millis(1));
    }
}
