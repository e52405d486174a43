//! The mutex for several processes. `robust.md` in this crate's folder describes its protocol.

use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::memory::{MemoryError, ObjectKind};
use super::object::{self, Object};
use crate::deadline::Deadline;
use crate::protocol::robust::{Integrity, LockAttempt, OwnerId, RobustLock};
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::Scope;
use crate::waiting::Waiting;

/// A mutex for the threads of all processes that have it open, and choose what it guards.
///
/// If a process dies while it holds the mutex, the next thread to lock it gets an error and repairs
/// what it guards: [`OwnerDied`]. The process holds the mutex: if a thread leaves it locked by
/// forgetting its guard, it stays locked as long as its process lives.
///
/// In the child of a fork the mutex and the guards belong to the parent, and the actions of the
/// child count as the parent's. So it opens the mutex itself, and ends by `_exit` or `exec` if
/// there was a guard.
pub struct Mutex(Object<MutexBody>);

/// The content of the memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct MutexBody {
    lock: RobustLock,
    /// The process that died last while it held the lock.
    died: AtomicU32,
    wait_state: WaitState,
}

impl object::Body for MutexBody {
    const KIND: ObjectKind = ObjectKind::Mutex;

    /// The slot of an owner tells whether it is alive, even after it has closed the mutex without
    /// releasing it, as after forgetting a guard.
    fn is_reusable(&self, place: u32) -> bool {
        self.lock.state().owner() != Some(OwnerId(place))
    }
}

impl Mutex {
    /// Creates a mutex for up to `processes` processes at a time under a new path, preferably below
    /// `/dev/shm`. Only the owner can open it, unless the file's permissions are changed.
    pub fn create(path: impl AsRef<Path>, processes: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(Some(path.as_ref()), processes, 0, |_| (), waiting).map(Self)
    }

    /// Creates a mutex without a name. Other processes inherit or receive its file and open it by
    /// `from_fd`. The file's length is sealed. It is closed on exec.
    pub fn nameless(processes: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(None, processes, 0, |_| (), waiting).map(Self)
    }

    /// Opens the mutex at a path, and claims one of its process slots. Each process chooses how to
    /// wait.
    ///
    /// # Errors
    /// [`MemoryError`] if there is no mutex, or no slot is free.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::open(path.as_ref(), waiting).map(Self)
    }

    /// Like [`Mutex::open`], in an open file.
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::from_fd(file, waiting).map(Self)
    }

    /// Waits until the mutex is free and acquires it. Dropping the guard releases it.
    ///
    /// # Errors
    /// [`OwnerDied`], which holds the mutex, if a process has died while it held the mutex.
    pub fn lock(&self) -> Result<Guard<'_>, OwnerDied<'_>> {
        loop {
            match self.lock_timeout(Deadline::NEVER) {
                Ok(guard) => return Ok(guard),
                Err(LockError::OwnerDied(died)) => return Err(died),
                // There is no deadline.
                Err(LockError::TimedOut) => {}
            }
        }
    }

    /// Like [`Mutex::lock`], but waits at most until the deadline.
    ///
    /// # Errors
    /// [`LockError`]. A free mutex is acquired even after the deadline.
    pub fn lock_timeout(&self, deadline: impl Into<Deadline>) -> Result<Guard<'_>, LockError<'_>> {
        let deadline = deadline.into().0;
        let Object { body, waiting, .. } = &self.0;
        if let Some(found) = body.lock.try_acquire(self.own()) {
            return Ok(self.guard(found)?);
        }
        let taken_over = Cell::new(false);
        let is_possible = || {
            taken_over.set(self.take_over());
            !taken_over.get()
        };
        let mut attempt = LockAttempt::new(&body.lock, self.own(), Scope::Shared);
        let result = body.wait_state.wait_while_possible(&mut attempt, *waiting, deadline, Some(&is_possible));
        if result.is_ok() {
            return Ok(self.guard(attempt.integrity())?);
        }
        if taken_over.get() || self.take_over() {
            return Ok(self.guard(Integrity::Damaged)?);
        }
        attempt.give_up();
        Err(LockError::TimedOut)
    }

    /// Acquires the mutex if it is free. Never blocks.
    ///
    /// # Errors
    /// [`OwnerDied`], which holds the mutex, if a process has died while it held the mutex and the
    /// mutex has been released since. Does not check whether an owner is alive.
    pub fn try_lock(&self) -> Result<Option<Guard<'_>>, OwnerDied<'_>> {
        self.0.body.lock.try_acquire(self.own()).map(|found| self.guard(found)).transpose()
    }

    /// Acquires the mutex of a dead owner. Returns whether it did.
    fn take_over(&self) -> bool {
        let Object { body, participants, .. } = &self.0;
        let seen = body.lock.state();
        let Some(owner) = seen.owner() else { return false };
        let Some(died) = participants.lost_at(owner.0) else { return false };
        let acquired = body.lock.take_over(seen, self.own());
        if acquired {
            body.died.store(died, Relaxed);
        }
        acquired
    }

    fn guard(&self, found: Integrity) -> Result<Guard<'_>, OwnerDied<'_>> {
        let guard = Guard { mutex: self, damaged: found == Integrity::Damaged };
        if guard.damaged { Err(OwnerDied { pid: self.0.body.died.load(Relaxed), guard }) } else { Ok(guard) }
    }

    fn own(&self) -> OwnerId {
        OwnerId(self.0.participants.own)
    }

    /// The counts of all waits of all processes. A lock that succeeds immediately is not a wait.
    pub fn statistics(&self) -> Statistics {
        self.0.body.wait_state.statistics()
    }
}

/// The file of the mutex.
impl AsFd for Mutex {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.memory.file.as_fd()
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("shared::Mutex").field("waiting", &self.0.waiting).finish_non_exhaustive()
    }
}

/// Holds the mutex until dropped.
#[must_use = "the mutex is released as soon as its guard is dropped"]
#[derive(Debug)]
pub struct Guard<'m> {
    mutex: &'m Mutex,
    /// Whether no thread has declared yet that the guarded data is consistent.
    damaged: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.mutex.0.body.lock.release(self.mutex.own(), self.damaged, Scope::Shared);
    }
}

/// A process has died while it held the mutex, so the data may be inconsistent. The caller has it.
///
/// A caller that can repair the data does so and then calls [`OwnerDied::recover`]. If this is
/// dropped instead, the next thread to lock the mutex gets the same error.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} has died while it held the mutex: the guarded data may be inconsistent and must be repaired")]
pub struct OwnerDied<'m> {
    pid: u32,
    guard: Guard<'m>,
}

impl<'m> OwnerDied<'m> {
    /// The process that died last.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Declares that the guarded data is consistent again. Then it is a mutex like any other.
    pub fn recover(mut self) -> Guard<'m> {
        self.guard.damaged = false;
        self.guard
    }
}

/// The reason why the mutex was not simply acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError<'m> {
    /// The deadline has passed, and a living process holds the mutex.
    #[error("the mutex was not free before the deadline")]
    TimedOut,
    /// The mutex was acquired, but an owner has died.
    #[error("{0}")]
    OwnerDied(OwnerDied<'m>),
}

impl<'m> From<OwnerDied<'m>> for LockError<'m> {
    fn from(died: OwnerDied<'m>) -> LockError<'m> {
        LockError::OwnerDied(died)
    }
}
