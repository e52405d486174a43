//! Ticks of threads that compute and that wait.

use std::cell::Cell;
use std::hint::spin_loop;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicPtr};
use std::thread;
use std::time::Instant;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// What the handler has seen on a thread.
#[derive(Default)]
struct Seen {
    ticks: AtomicUsize,
    yields: AtomicUsize,
    waits: AtomicUsize,
    masks: AtomicUsize,
    stack_pointer: AtomicUsize,
    on_alternate_stack: AtomicUsize,
    /// The mask that is expected, if one is.
    mask: OnceLock<SignalMask>,
    /// The next tick is to last until further ones are due, and until one of these has come while its stack is left.
    lasts: AtomicUsize,
    /// How many came before it was left.
    further: AtomicUsize,
}

unsafe fn see(word: usize, interrupted: &Interrupted) {
    // SAFETY: the words of these tests are such addresses, of what stays for ever.
    let seen = unsafe { &*std::ptr::with_exposed_provenance::<Seen>(word) };
    seen.waits.fetch_add(usize::from(interrupted.waits_for_futex()), SeqCst);
    seen.yields.fetch_add(usize::from(interrupted.has_yielded()), SeqCst);
    let differs = seen.mask.get().is_some_and(|mask| interrupted.mask() != *mask);
    seen.masks.fetch_add(usize::from(differs), SeqCst);
    seen.on_alternate_stack.fetch_add(usize::from(interrupted.is_on_alternate_stack()), SeqCst);
    seen.stack_pointer.store(interrupted.stack_pointer(), SeqCst);
    let ticks = seen.ticks.fetch_add(1, SeqCst) + 1;
    if seen.lasts.swap(0, SeqCst) > 0 {
        let began = Instant::now();
        while began.elapsed() < 5 * MILLISECOND {}
        seen.further.store(seen.ticks.load(SeqCst) - ticks, SeqCst);
        interrupted.meanwhile(|| compute_until(seen, ticks + 1));
    }
}

thread_local! {
    /// How often this thread's signals went where they went before.
    static FOREIGN: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn foreign(signal: libc::c_int) {
    assert_eq!(signal, libc::SIGURG);
    FOREIGN.set(FOREIGN.get() + 1);
}

/// A ticker for this thread, and what the handler sees. The handler is installed after one that is not ours.
fn ticker() -> (Ticker, &'static Seen) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: both handlers do nothing but count.
        unsafe {
            libc::signal(libc::SIGURG, foreign as *const () as usize);
            handle(see).unwrap();
        }
    });
    let seen = Box::leak(Box::<Seen>::default());
    (Ticker::for_this_thread((&raw const *seen).expose_provenance()).unwrap(), seen)
}

/// Computes until there have been so many ticks.
fn compute_until(seen: &Seen, ticks: usize) {
    while seen.ticks.load(SeqCst) < ticks {
        spin_loop();
    }
}

#[test]
fn code_that_computes_is_interrupted_on_its_stack_and_waits_for_nothing() {
    let (ticker, seen) = ticker();
    let local = 0_u8;
    ticker.every(Duration::ZERO, MILLISECOND);
    compute_until(seen, 3);
    ticker.stop();
    assert_eq!(seen.waits.load(SeqCst), 0);
    let distance = (&raw const local).addr().abs_diff(seen.stack_pointer.load(SeqCst));
    assert!(distance < 64 << 10, "{distance}");
}

#[test]
fn no_tick_comes_while_another_one_is_handled_unless_its_stack_is_left() {
    let (ticker, seen) = ticker();
    seen.lasts.store(1, SeqCst);
    ticker.every(Duration::ZERO, MILLISECOND);
    compute_until(seen, 3);
    ticker.stop();
    assert_eq!(seen.further.load(SeqCst), 0);
}

#[test]
fn a_ticker_ticks_for_its_own_thread_whoever_sets_it() {
    let (ticker, seen) = ticker();
    let local = 0_u8;
    thread::scope(|scope| {
        scope.spawn(|| ticker.every(MILLISECOND, MILLISECOND));
    });
    compute_until(seen, 1);
    assert!((&raw const local).addr().abs_diff(seen.stack_pointer.load(SeqCst)) < 64 << 10);
}

#[test]
fn a_ticker_that_was_stopped_ticks_no_more() {
    let (ticker, seen) = ticker();
    ticker.every(MILLISECOND, MILLISECOND);
    compute_until(seen, 1);
    ticker.stop();
    // What was under way comes at the latest on return from a call.
    thread::yield_now();
    let ticks = seen.ticks.load(SeqCst);
    thread::sleep(20 * MILLISECOND);
    assert_eq!(seen.ticks.load(SeqCst), ticks);
    ticker.every(MILLISECOND, Duration::ZERO);
    compute_until(seen, ticks + 1);
    thread::sleep(20 * MILLISECOND);
    assert_eq!(seen.ticks.load(SeqCst), ticks + 1, "once");
}

#[test]
fn a_thread_is_as_punctual_as_it_is_told_to_be_and_no_less_than_before() {
    thread::spawn(|| {
        let before = Slack::of_this_thread();
        let Slack(time) = before;
        assert_eq!(before.at_intervals_of(16 * time), before);
        let cut = before.at_intervals_of(4 * time);
        cut.becomes_this_threads();
        assert_eq!(Slack::of_this_thread(), Slack(time / 2));
        before.becomes_this_threads();
        assert_eq!(Slack::of_this_thread(), before);
        before.at_intervals_of(Duration::ZERO).becomes_this_threads();
        assert_eq!(Slack::of_this_thread(), Slack(Duration::from_nanos(1)));
    })
    .join()
    .unwrap();
}

#[test]
fn the_child_of_a_fork_leaves_its_own_timers_alone() {
    let (ticker, _) = ticker();
    // SAFETY: the child makes system calls and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        ticker.every(Duration::from_secs(3_600), Duration::ZERO);
        // SAFETY: there is room for the answers; zeros are an event's fields that do not matter.
        let left = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_NONE;
            let mut timers = [0_i32; 64];
            let mut left = 0;
            // One of them has the number that the parent's has.
            for timer in &mut timers {
                libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut *timer);
            }
            ticker.every(Duration::from_secs(3_600), Duration::ZERO);
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

/// Has this thread interrupted until `is_seen`, or so often that it never will be, or until it has ended. Then `release` lets it end.
fn watch<T>(
    thread: thread::ScopedJoinHandle<'_, T>,
    seen: &Seen,
    is_seen: impl Fn() -> bool,
    release: impl FnOnce(),
) -> T {
    while !is_seen() && seen.ticks.load(SeqCst) < 10_000 && !thread.is_finished() {
        thread::sleep(MILLISECOND);
    }
    release();
    thread.join().unwrap()
}

#[test]
fn a_wait_at_a_futex_is_seen_and_goes_on() {
    let is_over = AtomicI32::new(0);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (ticker, seen) = ticker();
            ticker.every(MILLISECOND, MILLISECOND);
            sender.send(seen).unwrap();
            let (wait, none) = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, std::ptr::null::<libc::timespec>());
            let mut returns = 0;
            while is_over.load(SeqCst) == 0 {
                // SAFETY: the word is there.
                unsafe { libc::syscall(libc::SYS_futex, &raw const is_over, wait, 0, none) };
                returns += 1;
            }
            returns
        });
        let seen = receiver.recv().unwrap();
        let release = || {
            is_over.store(1, SeqCst);
            // SAFETY: the word is there.
            unsafe {
                libc::syscall(libc::SYS_futex, &raw const is_over, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
            };
        };
        let returns = watch(thread, seen, || seen.waits.load(SeqCst) >= 3, release);
        assert!(seen.waits.load(SeqCst) >= 3);
        assert!(returns <= 1, "it goes on by itself");
    });
}

#[test]
fn a_wait_for_something_else_is_none_at_a_futex() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (ticker, seen) = ticker();
            sender.send(seen).unwrap();
            ticker.every(MILLISECOND, MILLISECOND);
            // The second argument looks like `FUTEX_WAIT`.
            // SAFETY: the kernel is not to tell whose connection it is.
            unsafe { libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut()) }
        });
        let seen = receiver.recv().unwrap();
        let release = || drop(UnixStream::connect(&path).unwrap());
        let accepted = watch(thread, seen, || seen.ticks.load(SeqCst) >= 10, release);
        // SAFETY: it is nobody else's.
        assert_eq!((accepted >= 0, unsafe { libc::close(accepted) }), (true, 0), "it goes on by itself");
        assert_eq!(seen.waits.load(SeqCst), 0);
    });
}

#[test]
fn who_lets_others_run_is_seen() {
    thread::spawn(|| {
        let (ticker, seen) = ticker();
        ticker.every(MILLISECOND, MILLISECOND);
        compute_until(seen, 3);
        assert_eq!(seen.yields.load(SeqCst), 0);
        while seen.yields.load(SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(seen.waits.load(SeqCst), 0);
    })
    .join()
    .unwrap();
}

/// What another thread blocks is nothing to the others.
#[test]
fn blocked_signals_are_seen() {
    thread::spawn(|| {
        let (ticker, seen) = ticker();
        seen.mask.set(SignalMask::of_this_thread()).unwrap();
        ticker.every(MILLISECOND, MILLISECOND);
        compute_until(seen, 3);
        assert_eq!(seen.masks.load(SeqCst), 0);
        // SAFETY: the set is written before it is read.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        let ticks = seen.ticks.load(SeqCst);
        compute_until(seen, ticks + 3);
        assert!(seen.masks.load(SeqCst) > 0);
    })
    .join()
    .unwrap();
}

#[test]
fn a_tick_in_a_handler_on_the_alternate_stack_is_seen_as_such() {
    static SEEN: AtomicPtr<Seen> = AtomicPtr::new(std::ptr::null_mut());
    extern "C" fn compute(_: libc::c_int) {
        // SAFETY: it was set before the signal is raised.
        let seen = unsafe { &*SEEN.load(SeqCst) };
        let ticks = seen.ticks.load(SeqCst);
        compute_until(seen, ticks + 3);
    }

    thread::spawn(|| {
        let (ticker, seen) = ticker();
        SEEN.store(std::ptr::from_ref(seen).cast_mut(), SeqCst);
        let room = vec![0_u8; 256 << 10].leak();
        // SAFETY: the stack is there for ever, and the handler only counts.
        unsafe {
            let stack = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() };
            assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = compute as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
            ticker.every(MILLISECOND, MILLISECOND);
            compute_until(seen, 3);
            assert_eq!(seen.on_alternate_stack.load(SeqCst), 0);
            libc::raise(libc::SIGUSR2);
        }
        assert!(seen.on_alternate_stack.load(SeqCst) > 0);
    })
    .join()
    .unwrap();
}

#[test]
fn a_mask_is_put_back() {
    let before = SignalMask::of_this_thread();
    // SAFETY: zeros are a set, to which a signal is added; no room is asked for.
    unsafe {
        let mut user: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut user, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const user, std::ptr::null_mut());
    }
    assert_ne!(SignalMask::of_this_thread(), before);
    before.becomes_this_threads();
    assert_eq!(SignalMask::of_this_thread(), before);
}

#[test]
fn signals_that_are_no_ticks_go_where_they_went_before() {
    let (_ticker, seen) = ticker();
    // SAFETY: it is handled by now.
    unsafe { libc::raise(libc::SIGURG) };
    assert_eq!((FOREIGN.get(), seen.ticks.load(SeqCst)), (1, 0));
}

#[test]
fn a_signal_that_came_together_with_a_tick_is_not_lost() {
    let (ticker, seen) = ticker();
    allow(libc::SIG_BLOCK);
    ticker.every(Duration::ZERO, Duration::ZERO);
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
fn a_ticker_is_told_from_others_and_from_what_was_there_before() {
    let (ticker, _) = ticker();
    let (mark, slot) = (ticker.mark, ticker.mark % SLOTS.len());
    assert_eq!(word_of(mark), Some(SLOTS[slot].word.load(SeqCst)));
    assert_eq!([slot, mark_of(slot), (&raw const ticker).addr()].map(word_of), [None; 3]);
    drop(ticker);
    assert_eq!([mark, FREE].map(word_of), [None; 2]);
}

#[test]
fn errno_is_left_alone() {
    let (ticker, seen) = ticker();
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = 77 };
    ticker.every(Duration::MAX, Duration::MAX);
    ticker.every(MILLISECOND, MILLISECOND);
    compute_until(seen, 1);
    ticker.stop();
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 77);
}
