//! Started fibers that move from one worker to another.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;

use rowlock_fiber::{Builder, Config, Runtime, Semaphore, channel, pin, scope, spawn, yield_now};
use rustix::thread::{Pid, gettid, sched_yield};

/// A runtime with two workers.
fn with_two(preemptible: bool) -> Runtime {
    Runtime::new(Config { workers: 2, preemptible, ..Config::default() })
}

/// Computes for some time, and reaches no safepoint.
fn compute() {
    std::hint::black_box((0..20_000).fold(0_u64, |sum, i| sum.wrapping_mul(31) ^ std::hint::black_box(i)));
}

/// Why the fibers of a crowd have stopped where they have started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// They wait, and are not preemptible.
    Waiting,
    /// They wait, and are preemptible.
    WaitingPreemptible,
    /// They were interrupted by a tick.
    Interrupted,
}

/// Lets eight fibers start and stop on the first fiber's worker, and then compute and call a
/// function again and again, until one of them has run on another worker and `enough` returns true.
fn crowd(stopped: Stopped, calls: impl Fn() + Sync, enough: impl Fn() -> bool) {
    let (began, [blocked, released, over, moved]) = (Semaphore::new(0), [(); 4].map(|()| AtomicBool::new(false)));
    let waiting = AtomicU64::new(0);
    with_two(stopped != Stopped::Waiting)
        .run(|| {
            let first = gettid();
            scope(|scope| {
                // The other worker runs nothing else meanwhile.
                let blocks = || {
                    let _pin = pin();
                    if gettid() != first {
                        blocked.store(true, Relaxed);
                        while !released.load(Relaxed) {
                            sched_yield();
                        }
                    }
                };
                while !blocked.load(Relaxed) {
                    // If it starts on this worker, it ends at once.
                    scope.spawn_with(Builder::new().preemptible(false), blocks).unwrap();
                    yield_now();
                }
                for _ in 0..8 {
                    scope.spawn(|| {
                        let thread = gettid();
                        waiting.fetch_add(1, Relaxed);
                        if stopped != Stopped::Interrupted {
                            drop(began.acquire());
                        }
                        while !over.load(Relaxed) {
                            compute();
                            calls();
                            if gettid() != thread {
                                moved.store(true, Relaxed);
                            }
                        }
                    });
                }
                while waiting.load(Relaxed) < 8 {
                    yield_now();
                }
                released.store(true, Relaxed);
                began.release(1);
                while !moved.load(Relaxed) || !enough() {
                    yield_now();
                }
                over.store(true, Relaxed);
            });
        })
        .unwrap();
}

#[test]
fn fibers_that_have_waited_on_one_worker_are_spread_over_all() {
    for stopped in [Stopped::Waiting, Stopped::WaitingPreemptible] {
        crowd(stopped, yield_now, || true);
    }
}

#[test]
fn fibers_that_a_tick_has_interrupted_are_spread_over_all() {
    crowd(Stopped::Interrupted, || (), || true);
}

#[test]
fn a_fiber_that_is_moved_by_a_tick_has_the_alternate_stack_of_its_kernel_thread() {
    let (main, looked) = (AtomicU64::new(0), AtomicU64::new(0));
    // Of the thread that looks first, and of the other.
    let stacks = [(); 2].map(|()| AtomicUsize::new(0));
    // Reaches no safepoint.
    let looks = || {
        let (thread, stack) = (gettid(), alternate_stack());
        if gettid() == thread {
            let number = thread.as_raw_nonzero().get() as u64;
            let first = main.compare_exchange(0, number, Relaxed, Relaxed).unwrap_or_else(|first| first);
            let expected = &stacks[usize::from(first != 0 && first != number)];
            let is_new = expected.compare_exchange(0, stack, Relaxed, Relaxed).is_ok();
            assert!(is_new || expected.load(Relaxed) == stack, "the thread's stack has changed");
            looked.fetch_add(1, Relaxed);
        }
    };
    crowd(Stopped::Interrupted, looks, || looked.load(Relaxed) > 1_000 && stacks[1].load(Relaxed) > 0);
    assert_ne!(stacks[0].load(Relaxed), stacks[1].load(Relaxed), "each thread has its own");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the test looks at registers")]
fn a_fiber_that_is_moved_by_a_tick_keeps_all_registers_even_if_its_old_thread_has_used_tiles() {
    use std::arch::asm;

    /// Lets the calling kernel thread use the tiles of AMX, if there are some. The kernel saves
    /// more for it from then on.
    fn use_tiles() {
        const REQUEST: libc::c_int = 0x1023;
        const TILES: libc::c_ulong = 18;
        let mut shape = [0_u8; 64];
        (shape[0], shape[16], shape[48]) = (1, 1, 1);
        // SAFETY: the call only permits the process to use them, and the shape is valid.
        unsafe {
            if libc::syscall(libc::SYS_arch_prctl, REQUEST, TILES) == 0 {
                asm!("ldtilecfg [{}]", "tilezero tmm0", "tilerelease", in(reg) shape.as_ptr());
            }
        }
    }

    if !is_x86_feature_detected!("avx2") {
        return eprintln!("left out: the processor has no AVX2");
    }
    // In a process of its own: other threads could use tiles, too.
    testing::isolated(|| {
        let (used, looked, elsewhere) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let main = AtomicU64::new(0);
        // Reaches no safepoint.
        let looks = || {
            let thread = gettid().as_raw_nonzero().get() as u64;
            let first = main.compare_exchange(0, thread, Relaxed, Relaxed).unwrap_or_else(|first| first);
            if first == thread || first == 0 {
                if !used.swap(true, Relaxed) {
                    use_tiles();
                }
            } else {
                elsewhere.fetch_add(1, Relaxed);
            }
            let (pattern, mut seen) = ([0x5a_u8; 32], [0_u8; 32]);
            // SAFETY: the memory is as large as the register.
            unsafe {
                asm!(
                    "vmovdqu ymm15, [{pattern}]",
                    "2:",
                    "dec {count}",
                    "jnz 2b",
                    "vmovdqu [{seen}], ymm15",
                    "vzeroupper",
                    pattern = in(reg) pattern.as_ptr(),
                    seen = in(reg) seen.as_mut_ptr(),
                    count = inout(reg) 200_000_u64 => _,
                    out("xmm15") _,
                );
            }
            assert_eq!(seen, pattern);
            looked.fetch_add(1, Relaxed);
        };
        crowd(Stopped::Interrupted, looks, || looked.load(Relaxed) > 1_000 && elsewhere.load(Relaxed) > 10);
    });
}

/// The address of the calling thread's alternate signal stack.
#[allow(unsafe_code, reason = "the standard library does not tell it")]
fn alternate_stack() -> usize {
    // SAFETY: there is room for a stack.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut stack), 0);
        stack.ss_sp.addr()
    }
}

#[test]
fn a_pinned_fiber_stays_on_its_kernel_thread() {
    let rounds = AtomicU64::new(0);
    let stays = || {
        let pinned = pin();
        let nested = pin();
        let thread = gettid();
        for _ in 0..20 {
            yield_now();
            compute();
            assert_eq!(gettid(), thread);
        }
        rounds.fetch_add(1, Relaxed);
        drop((nested, pinned));
        // Here it may move.
        yield_now();
    };
    crowd(Stopped::WaitingPreemptible, stays, || rounds.load(Relaxed) > 100);
}

#[test]
fn what_belongs_to_a_thread_goes_along() {
    std::thread_local! { static MINE: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) }; }
    let next = AtomicU64::new(0);
    let belongs = || {
        let me = thread::current().id();
        let number = next.fetch_add(1, Relaxed);
        MINE.with_borrow_mut(|mine| {
            mine.push(number);
            yield_now();
            assert_eq!(mine.pop(), Some(number));
        });
        assert_eq!(thread::current().id(), me);
        // A standard mutex belongs to the fiber that has locked it.
        let std = std::sync::Mutex::new(0);
        let guard = std.lock().unwrap();
        yield_now();
        assert!(std.try_lock().is_err());
        drop(guard);
    };
    crowd(Stopped::WaitingPreemptible, belongs, || next.load(Relaxed) > 200);
}

#[test]
fn two_fibers_that_hand_over_to_each_other_come_to_one_worker() {
    let together = Arc::new(AtomicBool::new(false));
    with_two(false)
        .run(|| {
            let ((ping, pinged), (pong, ponged)) = (channel::<Pid>(1), channel::<Pid>(1));
            let (one, other) = (Arc::clone(&together), Arc::clone(&together));
            let first = spawn(move || {
                // Many times in a row, so that it is no coincidence.
                let mut times = 0;
                while times < 1_000 {
                    ping.send(gettid()).unwrap();
                    times = if ponged.recv().unwrap() == gettid() { times + 1 } else { 0 };
                }
                one.store(true, Relaxed);
            });
            let second = spawn(move || {
                while let Ok(thread) = pinged.recv() {
                    let _ = pong.send(if thread == gettid() { thread } else { gettid() });
                }
                assert!(other.load(Relaxed));
            });
            first.join().unwrap();
            second.join().unwrap();
        })
        .unwrap();
}
