//! Fibers that have kernel threads, and what a runtime leaves behind.

use std::cell::RefCell;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use rowlock_fiber::{Builder, Config, Runtime, Semaphore, ThreadControlBlocks, dump, scope, sleep, spawn, yield_now};
use sys::scheduling::{Thread, nice, set_nice};
use sys::tick::SignalMask;
use testing::{expect_pass, isolated, isolated_by, run};

fn config(thread_control_blocks: ThreadControlBlocks) -> Config {
    Config { thread_control_blocks, ..Config::default() }
}

/// Waits until a thread that has been joined is gone, which takes the kernel a moment.
fn await_end(thread: Thread) {
    while fs::exists(format!("/proc/self/task/{}", thread.number())).unwrap() {
        std::thread::yield_now();
    }
}

/// The number of kernel threads, and of pages of memory that may be written to, in use or not.
fn sizes() -> (usize, usize) {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    (fs::read_dir("/proc/self/task").unwrap().count(), pages.split(' ').nth(5).unwrap().parse().unwrap())
}

#[test]
fn many_runtimes_in_a_row_add_neither_threads_nor_stacks() {
    let one = |config: &Config| {
        let start = || scope(|scope| (0..4).for_each(|_| drop(scope.spawn(yield_now))));
        Runtime::new(config.clone()).run(start).unwrap();
    };
    let all = |thread_control_blocks: ThreadControlBlocks| {
        for (workers, preemptible) in [(1, false), (1, true), (2, true)] {
            let config = Config { workers, preemptible, ..config(thread_control_blocks) };
            (0..10).for_each(|_| one(&config));
            let (threads, pages) = sizes();
            (0..100).for_each(|_| one(&config));
            while sizes().0 != threads {
                std::thread::yield_now();
            }
            let pages_after = sizes().1;
            // The stack of a worker's scheduler has 16 pages.
            assert!(pages_after < pages + 800, "{pages} pages, then {pages_after}, {config:?}");
        }
    };
    isolated_by(
        |mut test| expect_pass(&mut test),
        || {
            all(ThreadControlBlocks::Auto);
            all(ThreadControlBlocks::KernelThreads);
        },
    );
}

#[test]
fn an_orphan_with_a_kernel_thread_leaves_nothing_when_it_ends() {
    static OVER: AtomicBool = AtomicBool::new(false);
    static BEGUN: AtomicU32 = AtomicU32::new(0);

    let timers = || fs::read_to_string("/proc/self/timers").unwrap().matches("ID: ").count();
    isolated(|| {
        let (threads, before) = (sizes().0, timers());
        for _ in 0..3 {
            OVER.store(false, Relaxed);
            BEGUN.store(0, Relaxed);
            let config = Config { preemptible: true, ..config(ThreadControlBlocks::KernelThreads) };
            let first = || {
                let body = || {
                    BEGUN.fetch_add(1, Relaxed);
                    while !OVER.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                (0..3).for_each(|_| spawn(body).detach());
                while BEGUN.load(Relaxed) < 3 {
                    yield_now();
                }
                spawn(|| ()).join().unwrap();
            };
            Runtime::new(config).run(first).unwrap();
            assert!(timers() >= before + 3);
            OVER.store(true, Relaxed);
            while sizes().0 != threads {
                std::thread::yield_now();
            }
            assert_eq!(timers(), before);
        }
    });
}

#[test]
fn a_fiber_has_a_new_kernel_thread_which_is_gone_when_it_is_joined() {
    thread_local! { static USED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) } }

    let body = || {
        let before = USED.take();
        USED.set(vec![7]);
        (Thread::current(), before)
    };
    let program = || {
        for _ in 0..20 {
            let (thread, before) = spawn(body).join().unwrap();
            assert!(before.is_empty());
            await_end(thread);
        }
    };
    Runtime::new(config(ThreadControlBlocks::KernelThreads)).run(program).unwrap();
}

#[test]
fn a_destructor_of_a_thread_local_waits_in_its_fiber() {
    static DROPPED: AtomicU32 = AtomicU32::new(0);

    struct Waits(Thread);

    impl Drop for Waits {
        fn drop(&mut self) {
            let own = self.0;
            spawn(move || assert_ne!(Thread::current(), own)).join().unwrap();
            yield_now();
            assert_eq!(Thread::current(), own);
            DROPPED.fetch_add(1, Relaxed);
        }
    }

    thread_local! { static LAST: RefCell<Option<Waits>> = const { RefCell::new(None) } }

    let program = || {
        for count in 1..20 {
            let fibers = [(); 3].map(|()| spawn(|| LAST.set(Some(Waits(Thread::current())))));
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            assert_eq!(DROPPED.load(Relaxed), 3 * count);
        }
    };
    let preempted = Config { preemptible: true, ..config(ThreadControlBlocks::KernelThreads) };
    for config in [config(ThreadControlBlocks::KernelThreads), preempted] {
        DROPPED.store(0, Relaxed);
        Runtime::new(config).run(program).unwrap();
    }
}

#[test]
#[allow(unsafe_code)] // Signals are blocked by the C library, and sharing fibers are unsafe.
fn a_fiber_starts_with_the_signals_of_its_worker() {
    let block = || {
        let before = SignalMask::of_this_thread();
        // SAFETY: zeros are a set, to which a signal is added, and the old set is not returned.
        unsafe {
            let mut user: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut user, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const user, std::ptr::null_mut());
        }
        assert_ne!(SignalMask::of_this_thread(), before);
        (before, spawn(SignalMask::of_this_thread).join().unwrap())
    };
    Runtime::new(config(ThreadControlBlocks::KernelThreads))
        .run(|| {
            let (before, theirs) = spawn(block).join().unwrap();
            assert_eq!(theirs, before);
        })
        .unwrap();
}

#[test]
fn a_kernel_thread_inherits_nothing_from_another_fiber() {
    let own = || nice(Thread::current()).unwrap();
    Runtime::new(config(ThreadControlBlocks::KernelThreads))
        .run(|| {
            let before = own();
            let theirs = spawn(move || {
                set_nice(Thread::current(), before + 3).unwrap();
                spawn(own).join().unwrap()
            });
            assert_eq!(theirs.join().unwrap(), before);
        })
        .unwrap();
}

#[test]
#[allow(unsafe_code)] // Sharing fibers are unsafe.
fn a_sharing_fiber_has_a_kernel_thread_too() {
    let program = || {
        let own = Thread::current();
        let thread = || {
            let thread = Thread::current();
            yield_now();
            assert_eq!(Thread::current(), thread);
            thread
        };
        // SAFETY: nothing is borrowed while it yields.
        let threads = [(); 3].map(|()| unsafe { Builder::new().spawn_sharing(thread) }.unwrap());
        let threads = threads.map(|fiber| fiber.join().unwrap());
        assert!(!threads.contains(&own) && threads[0] != threads[1]);
        threads.into_iter().for_each(await_end);
    };
    Runtime::new(config(ThreadControlBlocks::KernelThreads)).run(program).unwrap();
}

#[inline(never)]
fn waits_deep_inside(begun: &AtomicBool, gate: &Semaphore) {
    begun.store(true, Relaxed);
    gate.acquire().forget();
}

#[inline(never)]
fn computes_deep_inside(begun: &AtomicBool, over: &AtomicBool) {
    begun.store(true, Relaxed);
    while !over.load(Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_dump_shows_where_fibers_are_and_how_much_stack_they_have_used() {
    let ([begun, waiting, over], gate) = ([(); 3].map(|()| AtomicBool::new(false)), Semaphore::new(0));
    let config = Config { preemptible: true, ..config(ThreadControlBlocks::KernelThreads) };
    let first = || {
        scope(|scope| {
            scope.spawn(|| computes_deep_inside(&begun, &over));
            scope.spawn(|| waits_deep_inside(&waiting, &gate));
            while !begun.load(Relaxed) || !waiting.load(Relaxed) {
                sleep(Duration::from_millis(1));
            }
            let dump = dump();
            over.store(true, Relaxed);
            gate.release(1);
            for (fiber, function) in dump.fibers[1..].iter().zip(["computes_deep_inside", "waits_deep_inside"]) {
                let (stack, trace) = (fiber.stack.unwrap(), fiber.backtrace.as_ref().unwrap().to_string());
                assert!(trace.contains(function), "{trace}");
                assert!((4 << 10..=stack.size).contains(&stack.high_water), "{stack:?}");
            }
        });
    };
    Runtime::new(config).run(first).unwrap();
}

#[test]
fn a_fiber_that_overflows_its_stack_is_named() {
    #[inline(never)]
    fn dive(depth: u64) -> u64 {
        let here = [depth; 16];
        let here = std::hint::black_box(&here);
        if depth == 0 { 0 } else { dive(depth - 1) + here[7] }
    }
    let expect = |mut test| {
        _ = run(&mut test).expect_signal(libc::SIGABRT).expect_stderr(" `parser` has overflowed its stack of 64 KiB: ");
    };
    let body = || {
        let parser = || Builder::new().name("parser").spawn(|| dive(u64::MAX)).unwrap().join().unwrap();
        Runtime::new(config(ThreadControlBlocks::KernelThreads)).run(parser).unwrap();
    };
    isolated_by(expect, body);
}

#[test]
fn a_stack_that_is_too_large_is_refused() {
    isolated_by(
        |mut test| expect_pass(&mut test),
        || {
            for thread_control_blocks in [ThreadControlBlocks::Auto, ThreadControlBlocks::KernelThreads] {
                let config = Config { stack_size: usize::MAX, ..config(thread_control_blocks) };
                let error = Runtime::new(config).run(|| spawn(|| ()).join().unwrap_err()).unwrap();
                assert!(error.to_string().contains("the largest stack has"), "{error}");
            }
        },
    );
}
