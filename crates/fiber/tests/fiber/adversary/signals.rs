//! Signals of the program itself, with handlers of its own, on stacks of its own.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;

use rowlock_fiber::{ThreadControlBlocks, preemptions, spawn, yield_now};

use crate::adversary::case::{ALL, alone, hasty, hazard, hazard_until, hazard_with, thread_control_blocks};

/// Installs a handler.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: these handlers only count, on the stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Uses stack and registers, and sets `errno` and restores it, as handlers do.
extern "C" fn counts(signal: libc::c_int) {
    let room: [u64; 16] = std::array::from_fn(|i| std::hint::black_box(i as u64 * signal as u64));
    // SAFETY: each thread has one.
    unsafe {
        let before = *libc::__errno_location();
        libc::close(-1);
        *libc::__errno_location() = before;
    }
    assert!((0..).zip(&room).all(|(i, word)| *word == i * signal as u64));
    HANDLED.fetch_add(1, Relaxed);
}

/// Works on what a signal that is handled wrongly would change.
fn work(who: u64, round: u64) {
    let all: Vec<Vec<u64>> = (0..20).map(|i| vec![who << 32 | round; 1 + i * 7]).collect();
    assert_eq!(unsafe { libc::close(-1) }, -1);
    let sum: f64 = (1..200).map(|i| 1.0 / f64::from(i)).sum();
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    assert_eq!(sum.to_bits(), (1..200).fold(0.0, |sum, i| sum + 1.0 / f64::from(std::hint::black_box(i))).to_bits());
    assert!(all.iter().flatten().all(|each| *each == who << 32 | round));
}

/// Sends a signal to the whole process again and again until this is dropped.
struct Sender(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl Sender {
    fn new(signal: libc::c_int, to: Option<libc::pthread_t>) -> Sender {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !theirs.load(Relaxed) {
                // SAFETY: the thread exists, and the signal is handled.
                unsafe {
                    match to {
                        Some(thread) => libc::pthread_kill(thread, signal),
                        None => libc::kill(libc::getpid(), signal),
                    };
                }
                thread::sleep(std::time::Duration::from_micros(10));
            }
        });
        Sender(over, Some(thread))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

#[test]
fn signals_from_other_threads_are_handled_at_any_time() {
    alone(|| {
        handle(libc::SIGUSR1, counts, libc::SA_RESTART);
        handle(libc::SIGUSR2, counts, libc::SA_RESTART | libc::SA_NODEFER);
        // SAFETY: it only returns a value.
        let me = unsafe { libc::pthread_self() };
        let _senders = [Sender::new(libc::SIGUSR1, Some(me)), Sender::new(libc::SIGUSR2, None)];
        hazard_until(work, || HANDLED.load(Relaxed) > 1_000);
    });
}

/// Starts a periodic timer of the program.
fn ticks(timer: libc::c_int) {
    let time = libc::timeval { tv_sec: 0, tv_usec: 300 };
    let times = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the times are only read.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setitimer, timer, &raw const times, 0) }, 0);
}

static ON_ALTERNATE_STACK: AtomicUsize = AtomicUsize::new(0);

/// A handler on an alternate stack, which records whether it runs there.
extern "C" fn profiles(signal: libc::c_int) {
    // SAFETY: there is room for the answer.
    let stack = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack);
        stack
    };
    if stack.ss_flags & libc::SS_ONSTACK != 0 {
        ON_ALTERNATE_STACK.fetch_add(1, Relaxed);
    }
    counts(signal);
}

#[test]
fn timers_of_the_program_tick_on_any_stack() {
    if thread_control_blocks() == ThreadControlBlocks::KernelThreads {
        return eprintln!("skipped: each kernel thread has only the alternate stack of the standard library");
    }
    alone(|| {
        // The standard library's has no room for three nested handlers.
        let room = vec![0_u8; 64 << 10].leak();
        let stack = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() };
        // SAFETY: the stack exists forever.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }, 0);
        handle(libc::SIGPROF, profiles, libc::SA_RESTART | libc::SA_ONSTACK);
        handle(libc::SIGALRM, counts, libc::SA_RESTART);
        ticks(libc::ITIMER_PROF);
        ticks(libc::ITIMER_REAL);
        hazard_with(&[1], work, || ON_ALTERNATE_STACK.load(Relaxed) > 20 && HANDLED.load(Relaxed) > 50);
    });
}

#[test]
fn a_previous_handler_of_sigurg_is_still_called() {
    alone(|| {
        static SENT: AtomicU64 = AtomicU64::new(0);
        static HEARD: [AtomicU64; ALL as usize] = [const { AtomicU64::new(0) }; ALL as usize];
        extern "C" fn hears(_: libc::c_int) {
            HANDLED.fetch_add(1, SeqCst);
        }
        handle(libc::SIGURG, hears, libc::SA_RESTART);
        hazard(|who, _| {
            HEARD[who as usize].fetch_add(1, Relaxed);
            SENT.fetch_add(1, SeqCst);
            // SAFETY: it is handled.
            unsafe { libc::raise(libc::SIGURG) };
        });
        // And each tick, with which one may have come.
        assert!(HANDLED.load(SeqCst) >= SENT.load(SeqCst));
        assert!(HEARD.iter().all(|heard| heard.load(Relaxed) > 0));
    });
}

/// Changes the blocked signals. Returns those that were blocked before.
fn mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: zeros are a set, and there is room for the one before.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        assert_eq!(libc::pthread_sigmask(how, set, &raw mut before), 0);
        before
    }
}

/// Blocks a signal that is never sent. Returns the signals that were blocked before.
fn block() -> libc::sigset_t {
    // SAFETY: zeros are a set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        mask(libc::SIG_BLOCK, &set)
    }
}

#[test]
fn a_fiber_that_blocks_signals_gets_what_an_interrupted_one_holds() {
    alone(|| {
        let (lock, over) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (Arc::clone(&lock), Arc::clone(&over));
        hasty(1)
            .run(|| {
                let owner = spawn(move || {
                    while !ends.load(Relaxed) {
                        let mut count = theirs.lock().unwrap();
                        let began = std::time::Instant::now();
                        while began.elapsed() < std::time::Duration::from_micros(300) {
                            *count += 1;
                        }
                    }
                });
                let waiter = spawn(move || {
                    for _ in 0..50 {
                        let before = block();
                        *lock.lock().unwrap() += 1;
                        mask(libc::SIG_SETMASK, &before);
                    }
                    over.store(true, Relaxed);
                });
                waiter.join().unwrap();
                owner.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn signals_that_are_blocked_for_good_keep_no_fiber_from_running() {
    alone(|| {
        hasty(1)
            .run(|| {
                // The worker has preemptible fibers already.
                spawn(|| ()).join().unwrap();
                block();
                let over = Arc::new(AtomicBool::new(false));
                let theirs = Arc::clone(&over);
                let loops = spawn(move || while !theirs.load(Relaxed) {});
                rowlock_fiber::sleep(std::time::Duration::from_millis(1));
                over.store(true, Relaxed);
                loops.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn a_fiber_that_blocks_signals_is_not_interrupted() {
    if thread_control_blocks() == ThreadControlBlocks::KernelThreads {
        return eprintln!("skipped: each kernel thread blocks its own signals, and is still interrupted");
    }
    alone(|| {
        let over = Arc::new(AtomicBool::new(false));
        let (turns, others) = (Arc::new(AtomicU64::new(0)), Arc::clone(&over));
        let counted = Arc::clone(&turns);
        hasty(1)
            .run(|| {
                let other = spawn(move || {
                    while !others.load(Relaxed) {
                        counted.fetch_add(1, Relaxed);
                    }
                });
                let careful = spawn(move || {
                    let mut rounds = 0;
                    while preemptions().masked < 50 || rounds < 50 {
                        rounds += 1;
                        let (before, began) = (block(), turns.load(Relaxed));
                        for _ in 0..200_000 {
                            assert_eq!(turns.load(Relaxed), began);
                        }
                        mask(libc::SIG_SETMASK, &before);
                        // Otherwise it would seem that they are blocked for good.
                        while turns.load(Relaxed) == began {}
                    }
                    over.store(true, Relaxed);
                });
                careful.join().unwrap();
                other.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn handlers_that_may_be_interrupted_themselves_are() {
    /// Takes as long as some ticks, with no signal blocked.
    extern "C" fn lingers(_: libc::c_int) {
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_micros(200) {}
        HANDLED.fetch_add(1, Relaxed);
    }
    alone(|| {
        handle(libc::SIGUSR2, lingers, libc::SA_RESTART | libc::SA_NODEFER);
        hazard(|who, round| {
            // SAFETY: it is handled.
            unsafe { libc::raise(libc::SIGUSR2) };
            work(who, round);
        });
    });
}

#[test]
fn no_fiber_is_interrupted_if_our_handler_starts_on_an_alternate_stack() {
    /// Does what runtimes of other languages do with all handlers, or undoes it.
    fn change(flags: libc::c_int) {
        // SAFETY: the handler stays the same.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut action), 0);
            action.sa_flags ^= flags;
            assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()), 0);
        }
    }
    alone(|| {
        let over = Arc::new(AtomicBool::new(false));
        let turns: Arc<[AtomicU64; 4]> = Arc::default();
        let loops = |who: usize| {
            let (over, turns) = (Arc::clone(&over), Arc::clone(&turns));
            move || {
                for round in 0.. {
                    let began = std::time::Instant::now();
                    while began.elapsed() < std::time::Duration::from_millis(1) {
                        work(3, round);
                    }
                    if over.load(Relaxed) {
                        return;
                    }
                    yield_now();
                    turns[who].fetch_add(1, Relaxed);
                }
            }
        };
        hasty(1)
            .run(|| {
                let fibers = [0, 1, 2, 3].map(|who| spawn(loops(who)));
                let until = |enough: &dyn Fn() -> bool| {
                    while !enough() {
                        yield_now();
                    }
                };
                until(&|| preemptions().taken > 20);
                change(libc::SA_ONSTACK);
                // Fibers that a tick reached just before, while they yielded, give way when they
                // return.
                let turns = || [0, 1, 2, 3].map(|who| turns[who].load(Relaxed));
                let began = turns();
                until(&|| turns().iter().zip(began).all(|(now, began)| *now >= began + 2));
                let before = preemptions();
                until(&|| preemptions().masked > before.masked + 20);
                assert_eq!(preemptions().taken, before.taken);
                change(libc::SA_ONSTACK);
                until(&|| preemptions().taken > before.taken + 20);
                over.store(true, Relaxed);
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            })
            .unwrap();
    });
}
