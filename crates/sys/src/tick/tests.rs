//! Ticks of threads that compute and of threads that wait.

use std::cell::Cell;
use std::hint::spin_loop;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicPtr};
use std::thread;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The observations of the handler on a thread.
#[derive(Default)]
struct Seen {
    ticks: AtomicUsize,
    yields: AtomicUsize,
    waits: AtomicUsize,
    masks: AtomicUsize,
    stack_pointer: AtomicUsize,
    on_alternate_stack: AtomicUsize,
    /// The expected mask, if any.
    mask: OnceLock<SignalMask>,
    /// The next tick lasts until further ones are due by this clock, and until one of these has
    /// come while its stack is left.
    lasts: AtomicPtr<ScriptedClock>,
    /// The number of ticks before its stack was left, and before it was resumed.
    further: [AtomicUsize; 2],
}

/// # Safety
/// The word is the address of a [`Seen`] that is never freed.
unsafe fn see(word: usize, interrupted: &Interrupted) {
    // SAFETY: the caller's promise.
    let seen = unsafe { &*std::ptr::with_exposed_provenance::<Seen>(word) };
    seen.waits.fetch_add(usize::from(interrupted.is_in_futex_wait()), SeqCst);
    seen.yields.fetch_add(usize::from(interrupted.has_yielded()), SeqCst);
    let differs = seen.mask.get().is_some_and(|mask| interrupted.mask() != *mask);
    seen.masks.fetch_add(usize::from(differs), SeqCst);
    seen.on_alternate_stack.fetch_add(usize::from(interrupted.is_on_alternate_stack()), SeqCst);
    seen.stack_pointer.store(interrupted.stack_pointer(), SeqCst);
    let ticks = seen.ticks.fetch_add(1, SeqCst) + 1;
    // SAFETY: the test that has stored the clock waits for this.
    if let Some(clock) = unsafe { seen.lasts.swap(std::ptr::null_mut(), SeqCst).as_ref() } {
        (0..5).for_each(|_| clock.advance(MILLISECOND));
        seen.further[0].store(seen.ticks.load(SeqCst) - ticks, SeqCst);
        interrupted.allow_ticks_during(|| seen.further[1].store(seen.ticks.load(SeqCst) - ticks, SeqCst));
    }
}

thread_local! {
    /// The number of signals of this thread that went to the previous handler.
    static FOREIGN: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn foreign(signal: libc::c_int) {
    assert_eq!(signal, libc::SIGURG);
    FOREIGN.set(FOREIGN.get() + 1);
}

/// A ticker for this thread, and the observations of the handler.
fn ticker() -> (Ticker, &'static Seen) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: both handlers only count.
        unsafe {
            libc::signal(libc::SIGURG, foreign as *const () as usize);
            handle(see).unwrap();
        }
    });
    let seen = Box::leak(Box::<Seen>::default());
    (Ticker::for_this_thread((&raw const *seen).expose_provenance()).unwrap(), seen)
}

/// The same, with a clock by which it ticks every millisecond.
fn scripted() -> (ScriptedClock, Ticker, &'static Seen) {
    let (clock, (ticker, seen)) = (ScriptedClock::new(), ticker());
    ticker.start_by(&clock, MILLISECOND, MILLISECOND);
    (clock, ticker, seen)
}

/// Runs a test on a thread of its own.
fn alone(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().unwrap();
}

/// Advances a clock by this many milliseconds, one by one.
fn advance(clock: &ScriptedClock, milliseconds: usize) {
    (0..milliseconds).for_each(|_| clock.advance(MILLISECOND));
}

/// Computes until this many ticks have come.
fn compute_until(seen: &Seen, ticks: usize) {
    while seen.ticks.load(SeqCst) < ticks {
        spin_loop();
    }
}

#[test]
fn computing_code_is_interrupted_on_its_stack() {
    let (clock, _ticker, seen) = scripted();
    let local = 0_u8;
    advance(&clock, 3);
    assert_eq!((seen.ticks.load(SeqCst), seen.waits.load(SeqCst)), (3, 0));
    let distance = (&raw const local).addr().abs_diff(seen.stack_pointer.load(SeqCst));
    assert!(distance < 64 << 10, "{distance}");
}

#[test]
fn ticks_do_not_nest_unless_the_stack_is_left() {
    let (clock, _ticker, seen) = scripted();
    seen.lasts.store((&raw const clock).cast_mut(), SeqCst);
    clock.advance(MILLISECOND);
    assert_eq!(seen.further.each_ref().map(|further| further.load(SeqCst)), [0, 1]);
    assert_eq!((seen.ticks.load(SeqCst), clock.elapsed()), (2, 6 * MILLISECOND));
}

#[test]
fn a_ticker_interrupts_its_own_thread_even_if_another_sets_it() {
    let (clock, ticker, seen) = scripted();
    let local = 0_u8;
    thread::scope(|scope| {
        scope.spawn(|| ticker.start_by(&clock, 2 * MILLISECOND, MILLISECOND));
    });
    clock.advance(MILLISECOND);
    assert_eq!(seen.ticks.load(SeqCst), 0);
    clock.advance(MILLISECOND);
    assert_eq!(seen.ticks.load(SeqCst), 1);
    let advances = thread::spawn(move || clock.advance(MILLISECOND));
    compute_until(seen, 2);
    advances.join().unwrap();
    assert_eq!(seen.ticks.load(SeqCst), 2);
    assert!((&raw const local).addr().abs_diff(seen.stack_pointer.load(SeqCst)) < 64 << 10);
}

#[test]
fn a_stopped_ticker_does_not_tick() {
    let (clock, ticker, seen) = scripted();
    advance(&clock, 1);
    ticker.stop();
    advance(&clock, 20);
    assert_eq!(seen.ticks.load(SeqCst), 1);
    ticker.start_by(&clock, MILLISECOND, Duration::ZERO);
    advance(&clock, 20);
    assert_eq!(seen.ticks.load(SeqCst), 2, "once");
}

#[test]
fn a_scripted_ticker_ticks_once_for_several_passed_times() {
    let (clock, ticker, seen) = scripted();
    let after = |nanoseconds| {
        clock.advance(Duration::from_nanos(nanoseconds));
        seen.ticks.load(SeqCst)
    };
    assert_eq!([999_999, 1, 999_999, 1, 5_500_000, 499_999, 1].map(after), [0, 1, 1, 2, 3, 3, 4]);
    ticker.start_by(&clock, Duration::ZERO, Duration::ZERO);
    assert_eq!(seen.ticks.load(SeqCst), 5, "at once");
    clock.advance_to(clock.now() + MILLISECOND);
    clock.advance_to(clock.now() - MILLISECOND);
    assert_eq!((seen.ticks.load(SeqCst), clock.elapsed()), (5, 9 * MILLISECOND));
}

#[test]
fn a_ticker_uses_the_clock_that_set_it_last() {
    let (first, ticker, seen) = scripted();
    let second = ScriptedClock::new();
    ticker.start_by(&second, MILLISECOND, MILLISECOND);
    advance(&first, 5);
    assert_eq!(seen.ticks.load(SeqCst), 0);
    advance(&second, 5);
    assert_eq!(seen.ticks.load(SeqCst), 5);
    ticker.start(MILLISECOND, Duration::ZERO);
    advance(&second, 5);
    compute_until(seen, 6);
    ticker.start(Duration::from_secs(3_600), Duration::ZERO);
    ticker.start_by(&first, MILLISECOND, MILLISECOND);
    advance(&first, 5);
    assert_eq!(seen.ticks.load(SeqCst), 11);
    drop(ticker);
    advance(&first, 5);
    assert_eq!(seen.ticks.load(SeqCst), 11);
}

#[test]
fn timer_slack_is_limited_and_never_raised() {
    alone(|| {
        let before = Slack::of_this_thread();
        let Slack(time) = before;
        assert_eq!(before.limit_for(16 * time), before);
        let cut = before.limit_for(4 * time);
        cut.apply_to_this_thread();
        assert_eq!(Slack::of_this_thread(), Slack(time / 2));
        before.apply_to_this_thread();
        assert_eq!(Slack::of_this_thread(), before);
        before.limit_for(Duration::ZERO).apply_to_this_thread();
        assert_eq!(Slack::of_this_thread(), Slack(Duration::from_nanos(1)));
    });
}

#[test]
fn the_child_of_a_fork_leaves_its_own_timers_alone() {
    let (ticker, _) = ticker();
    // SAFETY: the child makes system calls and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        ticker.start(Duration::from_secs(3_600), Duration::ZERO);
        // SAFETY: there is room for the answers; zeros are valid for the other fields of an event.
        let left = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_NONE;
            let mut timers = [0_i32; 64];
            let mut left = 0;
            // One of them has the same ID as the timer of the parent.
            for timer in &mut timers {
                libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut *timer);
            }
            ticker.start(Duration::from_secs(3_600), Duration::ZERO);
            for timer in timers {
                let mut times: libc::itimerspec = std::mem::zeroed();
                libc::syscall(libc::SYS_timer_gettime, timer, &raw mut times);
                left += times.it_value.tv_sec;
            }
            left
        };
        // SAFETY: the process ends.
        unsafe { libc::_exit(i32::from(left != 0)) };
    }
    let mut status = 0;
    // SAFETY: there is room for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// Interrupts a thread three times while it waits in this system call, and then ends the wait.
/// Returns the result of `wait`, and the observations of the handler.
fn interrupt<T: Send>(call: libc::c_long, wait: impl FnOnce() -> T + Send, end: impl FnOnce()) -> (T, &'static Seen) {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let (clock, _ticker, seen) = scripted();
            // SAFETY: it has no preconditions.
            sender.send((unsafe { libc::gettid() }, clock, seen)).unwrap();
            wait()
        });
        let (thread, clock, seen) = receiver.recv().unwrap();
        let path = format!("/proc/self/task/{thread}/syscall");
        for ticks in 0..3 {
            assert_eq!(seen.ticks.load(SeqCst), ticks);
            while !std::fs::read_to_string(&path).unwrap().starts_with(&format!("{call} ")) {
                thread::yield_now();
            }
            clock.advance(MILLISECOND);
            while seen.ticks.load(SeqCst) == ticks {
                thread::yield_now();
            }
        }
        end();
        (waiter.join().unwrap(), seen)
    })
}

#[test]
fn a_futex_wait_is_detected_and_continues() {
    let is_over = AtomicI32::new(0);
    let wait = || {
        let (wait, none) = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, std::ptr::null::<libc::timespec>());
        let mut returns = 0;
        while is_over.load(SeqCst) == 0 {
            // SAFETY: the word exists.
            unsafe { libc::syscall(libc::SYS_futex, &raw const is_over, wait, 0, none) };
            returns += 1;
        }
        returns
    };
    let end = || {
        is_over.store(1, SeqCst);
        // SAFETY: the word exists.
        unsafe { libc::syscall(libc::SYS_futex, &raw const is_over, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    };
    let (returns, seen) = interrupt(libc::SYS_futex, wait, end);
    assert_eq!((returns, seen.waits.load(SeqCst)), (1, 3), "it continues by itself");
}

#[test]
fn another_wait_is_not_a_futex_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // The second argument looks like `FUTEX_WAIT`.
    // SAFETY: the kernel accepts null if the address of the peer is not needed.
    let wait = || unsafe { libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut()) };
    let end = || drop(UnixStream::connect(&path).unwrap());
    let (accepted, seen) = interrupt(libc::SYS_accept, wait, end);
    // SAFETY: no other code uses it.
    assert_eq!((accepted >= 0, unsafe { libc::close(accepted) }), (true, 0), "it continues by itself");
    assert_eq!((seen.ticks.load(SeqCst), seen.waits.load(SeqCst)), (3, 0));
}

#[test]
fn a_yield_is_detected() {
    alone(|| {
        let (ticker, seen) = ticker();
        ticker.start(MILLISECOND, MILLISECOND);
        compute_until(seen, 3);
        assert_eq!(seen.yields.load(SeqCst), 0);
        while seen.yields.load(SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(seen.waits.load(SeqCst), 0);
    });
}

#[test]
fn blocked_signals_are_reported() {
    alone(|| {
        let (clock, _ticker, seen) = scripted();
        seen.mask.set(SignalMask::of_this_thread()).unwrap();
        advance(&clock, 3);
        assert_eq!((seen.ticks.load(SeqCst), seen.masks.load(SeqCst)), (3, 0));
        SignalMask(1 << (libc::SIGUSR1 - 1)).change(libc::SIG_BLOCK);
        advance(&clock, 3);
        assert_eq!((seen.ticks.load(SeqCst), seen.masks.load(SeqCst)), (6, 3));
    });
}

#[test]
fn a_tick_on_the_alternate_stack_is_detected() {
    static CLOCK: AtomicPtr<ScriptedClock> = AtomicPtr::new(std::ptr::null_mut());
    extern "C" fn compute(_: libc::c_int) {
        // SAFETY: it was set before the signal is raised.
        advance(unsafe { &*CLOCK.load(SeqCst) }, 3);
    }

    alone(|| {
        let (clock, _ticker, seen) = scripted();
        CLOCK.store((&raw const clock).cast_mut(), SeqCst);
        let room = vec![0_u8; 256 << 10].leak();
        // SAFETY: the stack is leaked, and the handler only advances a clock.
        unsafe {
            let stack = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() };
            assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = compute as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
            advance(&clock, 3);
            assert_eq!(seen.on_alternate_stack.load(SeqCst), 0);
            libc::raise(libc::SIGUSR2);
        }
        assert_eq!((seen.ticks.load(SeqCst), seen.on_alternate_stack.load(SeqCst)), (6, 3));
    });
}

#[test]
fn a_mask_is_restored() {
    let before = SignalMask::of_this_thread();
    SignalMask(1 << (libc::SIGUSR2 - 1)).change(libc::SIG_BLOCK);
    assert_ne!(SignalMask::of_this_thread(), before);
    before.apply_to_this_thread();
    assert_eq!(SignalMask::of_this_thread(), before);
}

#[test]
fn other_signals_go_to_the_previous_handler() {
    let (_ticker, seen) = ticker();
    // SAFETY: a handler is installed.
    unsafe { libc::raise(libc::SIGURG) };
    assert_eq!((FOREIGN.get(), seen.ticks.load(SeqCst)), (1, 0));
}

#[test]
fn a_signal_merged_with_a_tick_is_not_lost() {
    let (ticker, seen) = ticker();
    allow(libc::SIG_BLOCK);
    ticker.start(Duration::ZERO, Duration::ZERO);
    // SAFETY: the set is written before it is read, and the signal is handled.
    unsafe {
        let mut pending = std::mem::zeroed();
        while libc::sigismember(&raw const pending, libc::SIGURG) == 0 {
            libc::sigpending(&raw mut pending);
        }
        libc::raise(libc::SIGURG);
    }
    allow(libc::SIG_UNBLOCK);
    assert_eq!((FOREIGN.get(), seen.ticks.load(SeqCst)), (1, 1));
}

#[test]
fn a_ticker_is_distinguished_from_others_and_deleted_ones() {
    let (ticker, _) = ticker();
    let (mark, slot) = (ticker.mark, ticker.mark % SLOTS.len());
    assert_eq!(word_of(mark), Some(SLOTS[slot].word.load(SeqCst)));
    assert_eq!([slot, mark_of(slot), (&raw const ticker).addr()].map(word_of), [None; 3]);
    drop(ticker);
    assert_eq!([mark, FREE].map(word_of), [None; 2]);
}

#[test]
fn errno_is_preserved() {
    let (ticker, seen) = ticker();
    // SAFETY: the variable belongs to this thread.
    unsafe { *libc::__errno_location() = 77 };
    ticker.start(Duration::MAX, Duration::MAX);
    ticker.start(MILLISECOND, MILLISECOND);
    compute_until(seen, 1);
    ticker.stop();
    let clock = ScriptedClock::new();
    ticker.start_by(&clock, MILLISECOND, MILLISECOND);
    clock.advance(MILLISECOND);
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 77);
}
