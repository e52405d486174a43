//! The mutex for several processes. `robust.md` in this crate's folder describes its protocol.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::memory::{MemoryError, ObjectKind};
use super::object::{Body, Object, common_methods};
use crate::deadline::Deadline;
use crate::protocol::robust::{Integrity, LockAttempt, OwnerId, RobustLock};
use crate::protocol::wait_state::WaitState;
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
pub struct Mutex {
    object: Object<MutexBody>,
}

/// The content of the memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct MutexBody {
    lock: RobustLock,
    /// The process that died last while it held the lock.
    died: AtomicU32,
    wait_state: WaitState,
}

impl Body for MutexBody {
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
        Object::create(Some(path.as_ref()), processes, 0, |_| (), waiting).and_then(Self::on)
    }

    /// Creates a mutex without a name. Other processes inherit or receive its file and open it by
    /// `from_fd`. The file's length is sealed. It is closed on exec.
    pub fn nameless(processes: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(None, processes, 0, |_| (), waiting).and_then(Self::on)
    }

    fn on(object: Object<MutexBody>) -> Result<Mutex, MemoryError> {
        Ok(Mutex { object })
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
        let Object { body, waiting, .. } = &self.object;
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
            return Ok(self.guard(attempt.integrity)?);
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
        self.object.body.lock.try_acquire(self.own()).map(|found| self.guard(found)).transpose()
    }

    /// Acquires the mutex of a dead owner. Returns whether it did.
    fn take_over(&self) -> bool {
        let Object { body, participants, .. } = &self.object;
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
        if guard.damaged { Err(OwnerDied { pid: self.object.body.died.load(Relaxed), guard }) } else { Ok(guard) }
    }

    fn own(&self) -> OwnerId {
        OwnerId(self.object.participants.own)
    }
}

common_methods!(Mutex, "mutex");

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
        self.mutex.object.body.lock.release(self.mutex.own(), self.damaged, Scope::Shared);
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
