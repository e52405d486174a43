//! The interface between the programs and a thread library: kernel threads or fibers.

use std::time::{Duration, Instant};

/// A thread library.
///
/// Shared data lives as long as the process, which measures one arm and ends. No references are
/// counted.
pub trait Library: 'static {
    /// A handle to join a thread.
    type Handle: Send + 'static;
    /// A lock around a value.
    type Lock<T: Send + 'static>: Send + Sync + 'static;

    /// Spawns a thread. An error says why there can be no more threads.
    fn spawn(function: impl FnOnce() + Send + 'static) -> Result<Self::Handle, String>;

    /// Joins a thread. An error says that it panicked.
    fn join(thread: Self::Handle) -> Result<(), String>;

    /// A lock around `value`.
    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T>;

    /// Acquires the lock and calls `then` with the value.
    fn with<T: Send + 'static, R>(lock: &Self::Lock<T>, then: impl FnOnce(&mut T) -> R) -> R;

    /// Yields the CPU.
    fn yield_now();

    /// A point in a long computation at which a fiber yields if its running time is used up. Does
    /// nothing for kernel threads, which are preempted.
    fn checkpoint();

    /// Sleeps until `time`.
    fn sleep_until(time: Instant);
}

/// Kernel threads of the standard library, with stacks of 8 MiB, the default of `pthread_create`.
/// The locks are the standard library's, which use a futex; their fast path is like that of
/// `pthread_mutex_t`.
#[derive(Clone, Copy, Debug)]
pub struct Pthreads;

/// The usual stack limit, which is the size that the C library chooses.
const STACK: usize = 8 << 20;

impl Library for Pthreads {
    type Handle = std::thread::JoinHandle<()>;
    type Lock<T: Send + 'static> = std::sync::Mutex<T>;

    fn spawn(function: impl FnOnce() + Send + 'static) -> Result<Self::Handle, String> {
        let spawned = std::thread::Builder::new().stack_size(STACK).spawn(function);
        spawned.map_err(|why| format!("there can be no more threads: {why}"))
    }

    fn join(thread: Self::Handle) -> Result<(), String> {
        thread.join().map_err(|_| "a thread panicked".to_owned())
    }

    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T> {
        std::sync::Mutex::new(value)
    }

    fn with<T: Send + 'static, R>(lock: &Self::Lock<T>, then: impl FnOnce(&mut T) -> R) -> R {
        then(&mut lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn yield_now() {
        std::thread::yield_now();
    }

    fn checkpoint() {}

    fn sleep_until(time: Instant) {
        let rest = time.saturating_duration_since(Instant::now());
        if rest > Duration::ZERO {
            std::thread::sleep(rest);
        }
    }
}

/// Rowlock's fibers.
#[derive(Clone, Copy, Debug)]
pub struct Fibers;

impl Library for Fibers {
    type Handle = fiber::JoinHandle<()>;
    type Lock<T: Send + 'static> = fiber::Mutex<T>;

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> Result<Self::Handle, String> {
        fiber::Builder::new().spawn(function).map_err(|why| why.to_string())
    }

    #[inline(always)]
    fn join(thread: Self::Handle) -> Result<(), String> {
        thread.join().map_err(|why| why.to_string())
    }

    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T> {
        fiber::Mutex::new(value)
    }

    #[inline(always)]
    fn with<T: Send + 'static, R>(lock: &Self::Lock<T>, then: impl FnOnce(&mut T) -> R) -> R {
        then(&mut lock.lock())
    }

    #[inline(always)]
    fn yield_now() {
        fiber::yield_now();
    }

    #[inline(always)]
    fn checkpoint() {
        fiber::checkpoint();
    }

    fn sleep_until(time: Instant) {
        if time > Instant::now() {
            fiber::sleep_until(time);
        }
    }
}
