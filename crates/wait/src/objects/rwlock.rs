#![doc = include_str!("../../rwlock.md")]

use std::fmt;

use crate::deadline::{Deadline, TimedOut};
use crate::objects::guarded::{Exclusive, Guard, Guarded, ReaderWriterLock, Shared};
use crate::protocol::raw_rwlock::RawRwLock;
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A value that several threads read at the same time, or one thread changes.
///
/// Like [`std::sync::RwLock`], but a waiting rule decides how threads wait, and their waits are
/// counted. There is no poisoning, as for a [`Mutex`](crate::Mutex).
///
/// A waiting writer lets no more readers in, so it waits only for those inside. A stream of readers
/// cannot starve it, nor can writers starve readers, since they take turns. So a thread that reads,
/// and reads again while a writer waits, waits for itself forever.
///
/// ```
/// # use rowlock_wait::RwLock;
/// let table = RwLock::new(vec![1, 2, 3]);
/// std::thread::scope(|scope| {
///     scope.spawn(|| table.write().push(4));
///     scope.spawn(|| assert!(table.read().starts_with(&[1, 2, 3])));
/// });
/// assert_eq!(table.read().len(), 4);
/// ```
///
/// It is `Sync` if its value is both `Send` and `Sync`:
///
/// ```compile_fail,E0277
/// # use std::cell::Cell;
/// # use rowlock_wait::RwLock;
/// fn share(_: impl Sync) {}
/// share(RwLock::new(Cell::new(1)));
/// ```
pub struct RwLock<T: ?Sized>(pub(crate) Guarded<ReaderWriterLock, T>);

impl<T> RwLock<T> {
    sync::const_fn! {
        /// A free lock, for threads that wait by the adaptive rule.
        pub fn new(value: T) -> RwLock<T> {
            RwLock::with(value, Waiting::ADAPTIVE)
        }

        /// A free lock, for threads that wait like this.
        pub fn with(value: T, waiting: Waiting) -> RwLock<T> {
            RwLock(Guarded::new(ReaderWriterLock { waiting, raw: RawRwLock::new() }, value))
        }
    }

    /// Consumes the lock and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds the lock or waits for it, and acquires it as a reader.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        Guard::acquire(&self.0)
    }

    /// Acquires the lock as a reader unless a writer holds it or waits for it. Never blocks.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        Guard::try_acquire(&self.0)
    }

    /// Like [`RwLock::read`], but waits at most until the deadline. A lock that admits readers is
    /// acquired even after the deadline.
    pub fn read_timeout(&self, deadline: impl Into<Deadline>) -> Result<RwLockReadGuard<'_, T>, TimedOut> {
        Guard::acquire_until(&self.0, deadline.into())
    }

    /// Waits until the lock is free and acquires it as a writer. Dropping the guard releases it.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        Guard::acquire(&self.0)
    }

    /// Acquires the lock as a writer if it is free. Never blocks.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        Guard::try_acquire(&self.0)
    }

    /// Like [`RwLock::write`], but waits at most until the deadline. A free lock is acquired even
    /// after the deadline.
    pub fn write_timeout(&self, deadline: impl Into<Deadline>) -> Result<RwLockWriteGuard<'_, T>, TimedOut> {
        Guard::acquire_until(&self.0, deadline.into())
    }

    /// The value, without locking: the mutable borrow excludes all other threads.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Whether a reader holds the lock now. The answer may be out of date immediately.
    pub fn is_read_locked(&self) -> bool {
        self.0.lock.raw.has_readers()
    }

    /// Whether a writer holds the lock now. The answer may be out of date immediately.
    pub fn is_write_locked(&self) -> bool {
        self.0.lock.raw.has_writer()
    }

    /// The counts of all waits so far. A lock that succeeds immediately is not a wait. A writer may
    /// wait twice, for other writers and for readers.
    pub fn statistics(&self) -> Statistics {
        self.0.lock.raw.statistics()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("RwLock");
        match self.try_read() {
            Some(value) => lock.field("value", &&*value),
            None => lock.field("value", &format_args!("<locked>")),
        };
        lock.field("waiting", &self.0.lock.waiting).finish_non_exhaustive()
    }
}

/// Holds a lock as a reader until dropped, and gives shared access to its value.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # use rowlock_wait::RwLock;
/// fn send(_: impl Send) {}
/// let lock = RwLock::new(1);
/// send(lock.read());
/// ```
///
/// It only reads:
///
/// ```compile_fail,E0594
/// # use rowlock_wait::RwLock;
/// let lock = RwLock::new(1);
/// *lock.read() = 2;
/// ```
pub type RwLockReadGuard<'a, T> = Guard<'a, ReaderWriterLock, T, Shared>;

/// Holds a lock as a writer until dropped, and gives access to its value.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # use rowlock_wait::RwLock;
/// fn send(_: impl Send) {}
/// let lock = RwLock::new(1);
/// send(lock.write());
/// ```
pub type RwLockWriteGuard<'a, T> = Guard<'a, ReaderWriterLock, T, Exclusive>;
