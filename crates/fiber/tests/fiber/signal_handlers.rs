//! Handlers and masks of the program: code that may not let other fibers run in calls of the C
//! library. Each test is the first in its process that uses signals.

#![allow(unsafe_code, reason = "it calls the C library")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Config, Runtime};

/// Whether another fiber runs during a function.
fn lets_others_run(function: impl FnOnce()) -> bool {
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    let other = loop {
        HAS_RUN.store(false, Relaxed);
        let other = fiber::spawn(|| HAS_RUN.store(true, Relaxed));
        if !HAS_RUN.load(Relaxed) {
            break other;
        }
        // The turn of this fiber was over when it spawned the other one.
        other.join().unwrap();
    };
    function();
    let has_run = HAS_RUN.load(Relaxed);
    other.join().unwrap();
    has_run
}

fn nap() {
    sleep(Duration::from_millis(1));
}

/// Runs a function in a fiber that a runtime has started.
fn in_fiber(function: impl FnOnce() + Send + 'static) {
    fiber::run(|| fiber::spawn(function).join().unwrap());
}

type ChangeMask = unsafe extern "C" fn(libc::c_int, *const libc::sigset_t, *mut libc::sigset_t) -> libc::c_int;

fn expect_no_others_with_a_blocked_signal(change: ChangeMask) {
    in_fiber(move || {
        let change = |how| {
            // SAFETY: zeros are a set.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGUSR1);
                assert_eq!(change(how, &raw const set, std::ptr::null_mut()), 0);
            }
        };
        assert!(lets_others_run(nap));
        change(libc::SIG_BLOCK);
        assert!(!lets_others_run(nap));
        change(libc::SIG_UNBLOCK);
        assert!(lets_others_run(nap));
    });
}

#[test]
fn a_fiber_that_blocks_a_signal_by_pthread_sigmask_sleeps_alone() {
    testing::isolated(|| expect_no_others_with_a_blocked_signal(libc::pthread_sigmask));
}

#[test]
fn a_fiber_that_blocks_a_signal_by_sigprocmask_sleeps_alone() {
    testing::isolated(|| expect_no_others_with_a_blocked_signal(libc::sigprocmask));
}

static HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn handler(_: libc::c_int) {
    nap();
    HANDLED.store(true, Relaxed);
}

fn expect_no_others_in_a_handler(install: impl FnOnce() + Send + 'static) {
    in_fiber(move || {
        install();
        assert!(!lets_others_run(|| {
            // SAFETY: the handler sleeps.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
            assert!(HANDLED.load(Relaxed));
        }));
        assert!(lets_others_run(nap));
    });
}

#[test]
fn a_handler_that_sigaction_has_installed_sleeps_alone() {
    testing::isolated(|| {
        expect_no_others_in_a_handler(|| {
            // SAFETY: the handler sleeps.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
            }
        });
    });
}

#[test]
fn a_handler_that_signal_has_installed_sleeps_alone() {
    testing::isolated(|| {
        expect_no_others_in_a_handler(|| {
            // SAFETY: the handler sleeps.
            assert_ne!(unsafe { libc::signal(libc::SIGUSR1, handler as *const () as usize) }, libc::SIG_ERR);
        });
    });
}

/// Blocks a signal without the C library, which is not seen. So a wait shows whether fibers ask.
fn expect_that_none_asks(config: Config) {
    let run = Runtime::new(config).run(|| {
        let waits = || {
            let mask = 1_u64 << (libc::SIGUSR1 - 1);
            let none = std::ptr::null_mut::<u64>();
            // SAFETY: it changes only the mask.
            unsafe {
                let change = |how: libc::c_int| {
                    libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, none, size_of::<u64>())
                };
                assert_eq!(change(libc::SIG_BLOCK), 0);
                assert!(lets_others_run(nap));
                assert_eq!(change(libc::SIG_UNBLOCK), 0);
            }
        };
        fiber::spawn(waits).join().unwrap();
    });
    assert!(run.is_ok());
}

#[test]
fn a_runtime_uses_no_signals_by_which_its_fibers_would_have_to_ask_at_each_wait() {
    testing::isolated(|| expect_that_none_asks(Config::default()));
}

#[test]
fn a_runtime_with_ticks_uses_no_other_signals() {
    testing::isolated(|| expect_that_none_asks(Config { preemptible: true, ..Config::default() }));
}
