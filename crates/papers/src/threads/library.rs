//! What a program needs of a thread library, so that the same program runs with threads of the kernel and with fibers.

use std::time::{Duration, Instant};

/// A thread library.
///
/// What its threads share lives as long as the process, which measures one thing and ends: nothing is counted by reference.
pub trait Library: 'static {
    /// The right to wait for a thread's end.
    type Handle: Send + 'static;
    /// What guards a value.
    type Lock<T: Send + 'static>: Send + Sync + 'static;

    /// A new thread.
    ///
    /// # Errors
    /// When there can be no more; in words.
    fn spawn(function: impl FnOnce() + Send + 'static) -> Result<Self::Handle, String>;

    /// Waits for a thread's end.
    ///
    /// # Errors
    /// When it panicked; in words.
    fn join(thread: Self::Handle) -> Result<(), String>;

    /// A value that one thread at a time may use.
    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T>;

    /// Uses it, when nobody else does.
    fn with<T: Send + 'static, R>(lock: &Self::Lock<T>, then: impl FnOnce(&mut T) -> R) -> R;

    /// Lets others run.
    fn yield_now();

    /// Where long computations let others run if they have used up their time; nothing to threads that the kernel preempts.
    fn checkpoint();

    /// Rests until then.
    fn sleep_until(time: Instant);
}

/// The kernel's threads, through the standard library: stacks of 8 MiB, as `pthread_create` makes them unless told otherwise. The locks are the standard
/// library's, on a futex, of which the fast path is as that of `pthread_mutex_t`.
#[derive(Clone, Copy, Debug)]
pub struct Pthreads;

/// The usual limit of a stack, and so what the C library gives a thread.
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
        then(&mut lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
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
