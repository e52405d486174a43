//! Signals while threads wait.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rowlock_wait::{Event, Reset, Semaphore, TimedOut};

use super::tests;
use super::workers::{by, own_id, work};
use crate::team::rules_that_block;

tests! {
    many_signals_do_not_disturb_waits => || send_many(0),
    many_signals_that_restart_calls_do_not_disturb_waits => || send_many(libc::SA_RESTART),
    a_signal_ends_no_wait => || ends_no_wait(0),
    a_signal_that_restarts_calls_ends_no_wait => || ends_no_wait(libc::SA_RESTART),
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Relaxed);
}

/// Counts SIGUSR1 from now on.
fn handle(flags: libc::c_int) {
    // SAFETY: all zeros are a valid `sigaction`: no flags, no masked signals. The handler only
    // increments an atomic counter.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as libc::sighandler_t;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Sends SIGUSR1 to a thread of this process, if it still exists.
fn signal(thread: i32) {
    // SAFETY: the kernel takes three numbers, and rejects the ID of a thread that does not exist.
    unsafe {
        libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1);
    }
}

fn send_many(flags: libc::c_int) {
    handle(flags);
    for rule in rules_that_block() {
        work(
            rule,
            4,
            400,
            |_| (),
            |workers| {
                while !workers.has_ended() {
                    workers.threads().for_each(signal);
                    std::thread::yield_now();
                }
            },
        );
    }
    assert!(HANDLED.load(Relaxed) > 0);
}

/// Threads that wait for events that do not occur continue to wait through a hundred signals each,
/// and give up at their deadline and not before.
fn ends_no_wait(flags: libc::c_int) {
    handle(flags);
    for rule in rules_that_block() {
        let (semaphore, event) = (Semaphore::with(0, by(rule)), Event::with(Reset::Auto, by(rule)));
        let (number, messages) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                number.send(own_id()).unwrap();
                assert_eq!(semaphore.down(), 0);
                let deadline = Instant::now() + Duration::from_millis(20);
                let result = event.wait_timeout(deadline);
                assert_eq!((result, Instant::now() >= deadline), (Err(TimedOut), true));
                number.send(0).unwrap();
            });
            let thread = messages.recv().unwrap();
            let before = HANDLED.load(Relaxed);
            while HANDLED.load(Relaxed) < before + 100 {
                signal(thread);
                std::thread::yield_now();
            }
            assert!(!waiter.is_finished() && semaphore.statistics().waits <= 1);
            semaphore.up().unwrap();
            while messages.try_recv().is_err() {
                signal(thread);
                std::thread::yield_now();
            }
            waiter.join().unwrap();
        });
    }
}
