#![doc = include_str!("../../mutex.md")]

use std::fmt;

use crate::deadline::{Deadline, TimedOut};
use crate::objects::guarded::{Exclusive, Guard, Guarded, MutexLock};
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A value to which one thread at a time has access.
///
/// Like [`std::sync::Mutex`], but a waiting rule decides how threads wait, and their waits are
/// counted. Without contention it costs no more than any other mutex: only a thread that finds it
/// held asks the rule and counts.
///
/// There is no poisoning: if a thread panics while it holds the mutex, the mutex is released as at
/// any other end of its guard. Most callers have no use for the panic of another thread, and all
/// would have to unwrap. A value that may be left inconsistent should record that itself.
///
/// The order of acquisition is unspecified: a thread that arrives at a release acquires the mutex
/// even if others sleep. No thread is passed over forever, since from time to time the thread that
/// has slept longest is woken nevertheless.
///
/// ```
/// # use rowlock_wait::Mutex;
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// std::thread::scope(|scope| {
///     for number in 1..=4 {
///         scope.spawn(move || *TOTAL.lock() += number);
///     }
/// });
/// assert_eq!(*TOTAL.lock(), 10);
/// ```
///
/// A mutex is `Sync` if its value is `Send`:
///
/// ```compile_fail,E0277
/// # use std::rc::Rc;
/// # use rowlock_wait::Mutex;
/// fn share(_: impl Sync) {}
/// share(Mutex::new(Rc::new(1)));
/// ```
///
/// A thread that locks a mutex that it already holds waits forever.
pub struct Mutex<T: ?Sized>(pub(crate) Guarded<MutexLock, T>);

impl<T> Mutex<T> {
    sync::const_fn! {
        /// A free mutex, for threads that wait by the adaptive rule.
        pub fn new(value: T) -> Mutex<T> {
            Mutex::with(value, Waiting::ADAPTIVE)
        }

        /// A free mutex, for threads that wait like this.
        pub fn with(value: T, waiting: Waiting) -> Mutex<T> {
            Mutex(Guarded::new(MutexLock::new(waiting), value))
        }
    }

    /// Consumes the mutex and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and acquires it. Dropping the guard releases it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Guard::acquire(&self.0)
    }

    /// Acquires the mutex if it is free. Never blocks.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Guard::try_acquire(&self.0)
    }

    /// Like [`Mutex::lock`], but waits at most until the deadline. A free mutex is acquired even
    /// after the deadline.
    pub fn lock_timeout(&self, deadline: impl Into<Deadline>) -> Result<MutexGuard<'_, T>, TimedOut> {
        self.try_lock().map_or_else(|| Guard::acquire_until(&self.0, deadline.into()), Ok)
    }

    /// The value, without locking: the mutable borrow excludes all other threads.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Whether the mutex is held now. The answer may be out of date immediately.
    pub fn is_locked(&self) -> bool {
        self.0.lock.raw.is_locked()
    }

    /// The counts of all waits so far. A lock that succeeds immediately is not a wait.
    pub fn statistics(&self) -> Statistics {
        self.0.lock.raw.wait_state.statistics()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutex = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(value) => mutex.field("value", &&*value),
            None => mutex.field("value", &format_args!("<locked>")),
        };
        mutex.field("waiting", &self.0.lock.waiting).finish_non_exhaustive()
    }
}

/// Holds a mutex until dropped, and gives access to its value.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # use rowlock_wait::Mutex;
/// fn send(_: impl Send) {}
/// let mutex = Mutex::new(1);
/// send(mutex.lock());
/// ```
///
/// It is `Sync` if its value is:
///
/// ```compile_fail,E0277
/// # use std::cell::Cell;
/// # use rowlock_wait::Mutex;
/// fn share(_: impl Sync) {}
/// let mutex = Mutex::new(Cell::new(1));
/// share(mutex.lock());
/// ```
///
/// The value cannot be borrowed for longer than the guard:
///
/// ```compile_fail,E0597
/// # use rowlock_wait::Mutex;
/// let mutex = Mutex::new(1);
/// let kept: &mut i32 = {
///     let mut guard = mutex.lock();
///     &mut guard
/// };
/// *kept = 2;
/// ```
pub type MutexGuard<'a, T> = Guard<'a, MutexLock, T, Exclusive>;
