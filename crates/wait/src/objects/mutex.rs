#![doc = include_str!("../../mutex.md")]

use std::ops::{Deref, DerefMut};
use std::{fmt, time};

use policy::Instant;

use crate::deadline::{self, TimedOut};
use crate::objects::guarded::{Exclusive, Guarded};
use crate::protocol::raw_mutex::RawMutex;
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A value that one thread at a time gets at.
///
/// As [`std::sync::Mutex`], but how a thread waits is decided by a waiting rule, and what that came to is counted. A mutex
/// that nobody waits for costs no more than any other: a rule is asked and something counted only by who finds it held.
///
/// There is no poisoning: if a thread panics while it holds the mutex, the mutex is given back as by any other end of its guard. Most
/// who lock have no use for the news that some other thread has panicked, and all would have to unwrap it; a value that
/// can be left half changed is better told from a whole one by the value itself.
///
/// Threads get the mutex in no particular order: one that comes as it is given back takes it, though others sleep. Nobody is passed over
/// for ever, since every now and then the one that has slept longest is woken all the same.
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
/// A mutex can be shared if its value can be sent:
///
/// ```compile_fail,E0277
/// # use std::rc::Rc;
/// # use rowlock_wait::Mutex;
/// fn share(_: impl Sync) {}
/// share(Mutex::new(Rc::new(1)));
/// ```
///
/// A thread that waits for a mutex that it holds itself waits for ever.
pub struct Mutex<T: ?Sized>(pub(crate) Guarded<Lock, T>);

/// A mutex without its value.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lock {
    waiting: Waiting,
    /// Whether the rule wants to know where the owner is.
    publishes_owner: bool,
    raw: RawMutex,
}

impl Lock {
    sync::const_fn! {
        fn new(waiting: Waiting) -> Lock {
            Lock { waiting, publishes_owner: waiting.inputs().owner, raw: RawMutex::new() }
        }
    }

    #[inline]
    pub(crate) fn lock(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        self.raw.lock(&self.waiting, deadline)?;
        self.taken();
        Ok(())
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        let taken = self.raw.try_lock();
        if taken {
            self.taken();
        }
        taken
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        self.raw.unlock();
    }

    #[inline]
    fn taken(&self) {
        if self.publishes_owner {
            self.raw.publish_owner();
        }
    }
}

impl<T> Mutex<T> {
    sync::const_fn! {
        /// A free mutex, for threads that wait by the adaptive rule.
        pub fn new(value: T) -> Mutex<T> {
            Mutex::with(value, Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// A free mutex, for threads that wait like this.
        pub fn with(value: T, waiting: Waiting) -> Mutex<T> {
            Mutex(Guarded::new(Lock::new(waiting), value))
        }
    }

    /// The value, which nobody else can get at any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and takes it. It is given back when the guard is dropped.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.exclusive_in_time())
    }

    /// Takes the mutex if it is free. Never blocks.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_exclusive().map(MutexGuard)
    }

    /// As [`Mutex::lock`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed. A mutex that is free is taken however late it is.
    pub fn lock_until(&self, deadline: time::Instant) -> Result<MutexGuard<'_, T>, TimedOut> {
        self.try_lock().map_or_else(|| self.0.exclusive(Some(deadline::at(deadline))).map(MutexGuard), Ok)
    }

    /// As [`Mutex::lock_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Mutex::lock_until`].
    pub fn lock_timeout(&self, timeout: time::Duration) -> Result<MutexGuard<'_, T>, TimedOut> {
        self.try_lock().map_or_else(|| self.0.exclusive(Some(deadline::after(timeout))).map(MutexGuard), Ok)
    }

    /// The value, without locking: nobody else can have the mutex while the caller borrows it like this.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Whether somebody has the mutex at this moment. When the caller looks at the answer it may be otherwise.
    pub fn is_locked(&self) -> bool {
        self.0.lock().raw.is_locked()
    }

    /// What waiting has come to so far. Only who finds the mutex held waits; a lock that succeeds at once is not counted.
    pub fn statistics(&self) -> Statistics {
        self.0.lock().raw.statistics()
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
        mutex.field("waiting", &self.0.lock().waiting).finish_non_exhaustive()
    }
}

/// Has a mutex until it is dropped, and gets at its value.
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
/// It can be shared if its value can:
///
/// ```compile_fail,E0277
/// # use std::cell::Cell;
/// # use rowlock_wait::Mutex;
/// fn share(_: impl Sync) {}
/// let mutex = Mutex::new(Cell::new(1));
/// share(mutex.lock());
/// ```
///
/// The value cannot be kept beyond it:
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
#[must_use = "the mutex is given back as soon as its guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized>(pub(crate) Exclusive<'a, Lock, T>);

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Gives the mutex back for as long as `meanwhile` takes, and then waits for it again.
    pub(crate) fn unlocked<R>(self, meanwhile: impl FnOnce() -> R) -> (MutexGuard<'a, T>, R) {
        let guarded = self.0.guarded();
        drop(self);
        let result = meanwhile();
        (MutexGuard(guarded.exclusive_in_time()), result)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
