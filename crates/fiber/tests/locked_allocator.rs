//! A global allocator with a lock of the standard library, which fibers hold that are interrupted
//! while they allocate. The library must still get it, wherever it allocates itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue has failed")]
#![allow(unsafe_code, reason = "the test uses an allocator of its own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{
    Builder, Config, Dump, JoinHandle, Runtime, ScriptedClock, Semaphore, ThreadControlBlocks, dump, preemptions,
    scope, sleep, sleep_until, spawn,
};
use sys::futex::{self, Scope};
use sys::scheduling::Thread;

#[path = "fiber/scripted.rs"]
mod scripted;

use scripted::TURN;

struct Locked(Mutex<()>);

#[global_allocator]
static ALLOCATOR: Locked = Locked(Mutex::new(()));

/// Allocations of this size take several running times, with the lock held.
const SLOW: usize = 4242;

const RUNNING_TIME: Span = Span::from_micros(200);

thread_local! {
    /// This thread allocates without the lock: it must serve the fibers that wait for that.
    static IS_EXEMPT: Cell<bool> = const { Cell::new(false) };
    /// The clock that a slow allocation advances by a turn, if the time is scripted.
    static CLOCK: Cell<Option<&'static ScriptedClock>> = const { Cell::new(None) };
    /// Each allocation of this thread waits here first.
    static HALTS: Cell<Option<&'static Halts>> = const { Cell::new(None) };
}

/// Where a thread waits, at a futex as for a lock, until another one lets it continue.
#[derive(Default)]
struct Halts {
    come: AtomicU32,
    gone: AtomicU32,
}

impl Halts {
    fn wait(&self) {
        let number = self.come.fetch_add(1, SeqCst) + 1;
        loop {
            let gone = self.gone.load(SeqCst);
            if gone == number {
                return;
            }
            futex::wait(&self.gone, gone, None, Scope::Process);
        }
    }

    fn is_waited_at(&self) -> bool {
        self.come.load(SeqCst) > self.gone.load(SeqCst)
    }

    fn let_go(&self) {
        self.gone.fetch_add(1, SeqCst);
        futex::wake(&self.gone, 1, Scope::Process);
    }
}

impl Locked {
    fn locked<R>(&self, then: impl FnOnce() -> R) -> R {
        let _guard = (!IS_EXEMPT.get()).then(|| self.0.lock().unwrap_or_else(PoisonError::into_inner));
        then()
    }
}

// SAFETY: it is the system's allocator, called by one thread at a time.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HALTS.get().into_iter().for_each(Halts::wait);
        self.locked(|| {
            match CLOCK.get() {
                _ if layout.size() != SLOW => (),
                Some(clock) => clock.advance(TURN),
                None => compute(4),
            }
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        self.locked(|| unsafe { System.dealloc(memory, layout) });
    }
}

/// Computes for this many running times.
fn compute(turns: u32) {
    let end = Instant::now() + Duration::from_nanos(RUNNING_TIME.as_nanos()) * turns;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Holds the lock most of the time, but not always.
fn allocate() {
    drop(black_box(Vec::<u8>::with_capacity(SLOW)));
    compute(1);
}

/// Runs a program with the real clock.
fn run(program: impl FnOnce()) {
    let rules = FeedbackRules { levels: 4, running_time: RUNNING_TIME, boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, ..Config::default() }).run(program).unwrap();
}

/// Lets this many fibers call `others` again and again while a function runs.
fn beside(many: usize, others: impl Fn() + Sync, then: impl FnOnce()) {
    let over = AtomicBool::new(false);
    scope(|scope| {
        for _ in 0..many {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    others();
                }
            });
        }
        then();
        over.store(true, Relaxed);
    });
}

fn spawn_with_size_of_its_own(size: usize) -> JoinHandle<()> {
    let function = || drop(black_box(vec![1_u8; 100]));
    Builder::new().name("of a size of its own").stack_size(size << 16).spawn(function).unwrap()
}

#[test]
fn new_fibers_and_their_stacks_get_memory() {
    run(|| {
        beside(3, allocate, || {
            for size in 1..20 {
                sleep(Duration::from_millis(1));
                spawn_with_size_of_its_own(size).join().unwrap();
            }
        });
    });
}

/// Ends the test when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Recurses to this depth, and then calls a function.
#[inline(never)]
fn climb(height: usize, at_the_top: &mut dyn FnMut()) {
    if height > 0 {
        climb(height - 1, at_the_top);
    } else {
        at_the_top();
    }
    black_box(height);
}

#[test]
fn a_dump_is_right_although_fibers_run_while_it_waits_for_memory() {
    static BEGAN: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
    }

    /// Climbs, and writes words that are not addresses where the stack was.
    fn climb_and_fill() {
        if !HAS_BEGUN.replace(true) {
            BEGAN.fetch_add(1, Relaxed);
        }
        climb(20, &mut || compute(1));
        black_box(&[1_usize; 4096]);
    }

    run(|| {
        let over = AtomicBool::new(false);
        let mut seen = Vec::new();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(Relaxed) {
                    allocate();
                    // On a busy machine, too, the fiber gets the lock soon.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            beside(3, climb_and_fill, || {
                // Before that there is nothing of theirs to see.
                while BEGAN.load(Relaxed) < 3 {
                    sleep(Duration::from_millis(1));
                }
                for _ in 0..60 {
                    sleep(Duration::from_millis(1));
                    seen.push(dump());
                }
            });
            over.store(true, Relaxed);
        });
        for fiber in seen.iter().flat_map(|seen| &seen.fibers) {
            let trace = fiber.backtrace.as_ref().unwrap();
            assert!(trace.to_string().contains("locked_allocator.rs"), "{trace}");
        }
        // The three, and the one that looks.
        assert!(seen.iter().all(|seen| seen.fibers.len() == 4));
    });
}

#[test]
fn a_dump_shows_where_a_fiber_went_while_it_waited_for_memory() {
    // In a process with other tests, these hold the lock at times.
    testing::isolated(|| {
        const HEIGHTS: [usize; 2] = [20, 2];

        let scripted = scripted::runtime(ThreadControlBlocks::Auto, 4, Boost::Never);
        let (worker, clock) = (Thread::current(), &scripted.clock);
        let halts: &'static Halts = Box::leak(Box::default());
        // How often the fiber has reached a top, and how often it may leave one.
        let (tops, moves) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        let [is_exempt, over] = &[(); 2].map(|()| AtomicBool::new(false));
        let climbs = || {
            for height in HEIGHTS.into_iter().cycle().take_while(|_| !over.load(Relaxed)) {
                climb(height, &mut || {
                    let top = tops.fetch_add(1, SeqCst) + 1;
                    if top == 1 {
                        // The other fiber continues.
                        clock.advance(TURN);
                    }
                    while moves.load(SeqCst) < top && !over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                // Words that are not addresses, where the stack was.
                black_box(&[1_usize; 4096]);
            }
        };
        std::thread::scope(|threads| {
            let _over = Over(over);
            threads.spawn(|| {
                IS_EXEMPT.set(true);
                is_exempt.store(true, Relaxed);
                while !over.load(Relaxed) {
                    if halts.is_waited_at() {
                        scripted::await_futex(worker);
                        let top = moves.fetch_add(1, SeqCst) + 1;
                        // The fiber runs on the timeslice of the one that waits, until it is at the
                        // next top.
                        clock.advance(10 * TURN);
                        while tops.load(SeqCst) == top {
                            std::thread::yield_now();
                        }
                        clock.advance(10 * TURN);
                        halts.let_go();
                    }
                    std::thread::yield_now();
                }
            });
            while !is_exempt.load(Relaxed) {
                std::thread::yield_now();
            }
            let seen = scripted.run(|| {
                scope(|scope| {
                    scope.spawn(climbs);
                    rowlock_fiber::yield_now();
                    HALTS.set(Some(halts));
                    // Another allocation before the last one: so it is seen at both heights,
                    // whether the number of allocations in a dump is even or odd.
                    let seen = [0, 0, 1].map(|more| {
                        (0..more).for_each(|_| drop(black_box(Box::new(more))));
                        dump()
                    });
                    HALTS.set(None);
                    over.store(true, Relaxed);
                    seen
                })
            });
            let steps = |dump: &Dump| {
                let trace = dump.fibers[1].backtrace.as_ref().unwrap().to_string();
                trace.lines().filter(|line| line.ends_with("::climb")).count()
            };
            let seen: BTreeSet<usize> = seen.unwrap().iter().map(steps).collect();
            assert_eq!(seen, HEIGHTS.map(|height| height + 1).into());
        });
    });
}

#[test]
fn the_library_donates_its_timeslice_to_an_interrupted_owner_of_the_allocators_lock() {
    // In a process with other tests, these hold the lock at times.
    testing::isolated(|| {
        let scripted = scripted::runtime(ThreadControlBlocks::Auto, 4, Boost::Never);
        let (worker, [is_exempt, has_unlocked]) =
            (Thread::current(), [(); 2].map(|()| Arc::new(AtomicBool::new(false))));
        let clock: &'static ScriptedClock = Box::leak(Box::new(scripted.clock.clone()));
        let donated = std::thread::scope(|threads| {
            threads.spawn(|| {
                IS_EXEMPT.set(true);
                is_exempt.store(true, Relaxed);
                scripted::advance_at(clock, worker, &ALLOCATOR.0, &has_unlocked);
            });
            while !is_exempt.load(Relaxed) {
                std::thread::yield_now();
            }
            scripted.run(|| {
                let unlocks = Arc::clone(&has_unlocked);
                let allocates = spawn(move || {
                    CLOCK.set(Some(clock));
                    let memory = black_box(Vec::<u8>::with_capacity(SLOW));
                    unlocks.store(true, Relaxed);
                    CLOCK.set(None);
                    drop(memory);
                });
                // It is interrupted in the middle of that.
                rowlock_fiber::yield_now();
                assert!(ALLOCATOR.0.try_lock().is_err());
                // The library allocates for its first timer.
                let sleeps = || sleep(TURN);
                Builder::new().preemptible(false).spawn(sleeps).unwrap().join().unwrap();
                allocates.join().unwrap();
                preemptions().donated
            })
        });
        assert_eq!(donated.unwrap(), 1);
    });
}

#[test]
fn interrupted_owners_of_the_allocators_lock_move_while_both_workers_need_it() {
    const MOVES: usize = 20;

    // In a process with other tests, these hold the lock at times.
    testing::isolated(|| {
        let rules = FeedbackRules { levels: 4, running_time: RUNNING_TIME, boost: Boost::Every(Span::from_millis(10)) };
        let config = Config { rules, preemptible: true, workers: 2, ..Config::default() };
        let moves = AtomicUsize::new(0);
        Runtime::new(config)
            .run(|| {
                // A worker has nothing to do at the end of each round.
                while moves.load(Relaxed) < MOVES {
                    scope(|scope| {
                        for turns in 1..6 {
                            let moves = &moves;
                            scope.spawn(move || {
                                let mut last = Thread::current();
                                for _ in 0..turns {
                                    allocate();
                                    let now = Thread::current();
                                    moves.fetch_add(usize::from(now != last), Relaxed);
                                    last = now;
                                }
                            });
                            let sleeps = || {
                                sleep(Duration::from_micros(300));
                                drop(black_box(vec![1_u8; 100]));
                            };
                            scope.spawn_with(Builder::new().preemptible(false), sleeps).unwrap();
                        }
                    });
                    sleep(Duration::from_millis(1));
                }
            })
            .unwrap();
    });
}

#[test]
#[cfg(target_env = "gnu")]
fn thread_control_blocks_are_made_while_other_fibers_hold_a_lock_that_they_need() {
    /// Holds the allocator's lock for long, to return the pages of many pieces in the memory of the
    /// kernel thread that has allocated them.
    fn trim() {
        // SAFETY: it has no preconditions.
        unsafe { libc::malloc_trim(0) };
        compute(1);
    }

    run(|| {
        let pieces: Vec<Vec<u8>> = (0..4_000).map(|_| Vec::with_capacity(3 << 12)).collect();
        let kept: Vec<_> = pieces.into_iter().enumerate().filter(|(index, _)| index % 2 == 0).collect();
        let over = Arc::new(Semaphore::new(0));
        beside(1, trim, || {
            for _ in 0..40 {
                // Each keeps its stack, so the next one has none yet. Nothing else is allocated for
                // it.
                let over = Arc::clone(&over);
                spawn(move || drop(over.acquire())).detach();
                sleep(Duration::from_millis(1));
            }
        });
        over.release(1);
        drop(kept);
    });
}

#[test]
fn a_tick_that_wakes_many_fibers_gets_memory() {
    for _ in 0..20 {
        run(|| {
            let time = Instant::now() + Duration::from_millis(10);
            let sleeper = || Builder::new().preemptible(false).spawn(move || sleep_until(time)).unwrap();
            let sleepers: Vec<_> = (0..300).map(|_| sleeper()).collect();
            beside(1, allocate, || sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap()));
        });
    }
}

#[test]
fn kernel_threads_for_orphaned_fibers_get_memory_when_the_runtime_ends() {
    for _ in 0..2 {
        let over = Arc::new(AtomicBool::new(false));
        run(|| {
            let over = Arc::clone(&over);
            let allocates = move || {
                while !over.load(Relaxed) {
                    allocate();
                }
            };
            spawn(allocates).detach();
            sleep(Duration::from_millis(1));
        });
        over.store(true, Relaxed);
    }
}
