//! The mutex among processes. Its protocol is told in `robust.md`, in this crate's folder.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, time};

use policy::Instant;

use super::memory::{MemoryError, ObjectKind};
use super::object::{self, Object, WithLivenessCheck};
use crate::deadline;
use crate::protocol::robust::{Integrity, LockAttempt, OwnerId, RobustLock};
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::Scope;
use crate::waiting::Waiting;

/// One thread at a time, of all processes that have it open, has it. What it guards, in whatever memory they share, is up
/// to them.
///
/// When a process dies that has it, the next to lock it is told so and decides what becomes of what it guards:
/// [`OwnerDied`]. It is the process that has the mutex: what a thread leaves locked for good, by forgetting its guard, stays so as
/// long as its process lives.
///
/// In the child of a fork, the mutex and the guards are the parent's, and whatever the child does with them is as if the parent did it:
/// it opens the mutex for itself, and ends by `_exit` or `exec` if the parent had a guard.
pub struct Mutex(Object<MutexBody>);

/// What is in the memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct MutexBody {
    lock: RobustLock,
    /// The process that died last while it had the lock.
    died: AtomicU32,
    wait_state: WaitState,
}

impl object::Body for MutexBody {
    const KIND: ObjectKind = ObjectKind::Mutex;

    /// An owner's place says whether it lives: also when it has closed the mutex without giving it back, as after forgetting a guard.
    fn is_reusable(&self, place: u32) -> bool {
        self.lock.state().owner() != Some(OwnerId(place))
    }
}

impl Mutex {
    /// Makes a mutex for so many processes at a time under a path where nothing is yet, best below `/dev/shm`.
    /// Its owner alone can open it, until the file's permissions are changed.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn create(path: impl AsRef<Path>, processes: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(path.as_ref(), processes, 0, |_| (), waiting).map(Self)
    }

    /// Makes a mutex without a name, for this process and those that inherit or are sent its file and open it by
    /// `from_fd`. Nobody can change the file's length. It is closed on exec, unless it is told otherwise.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn nameless(processes: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::nameless(processes, 0, |_| (), waiting).map(Self)
    }

    /// Opens the mutex under a path, and takes one of its places for processes until it is dropped. How its threads wait is
    /// for each process to say.
    ///
    /// # Errors
    /// [`MemoryError`], where there is none, or it has no place left.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::open(path.as_ref(), waiting).map(Self)
    }

    /// Opens the mutex in an open file, as [`Mutex::open`].
    ///
    /// # Errors
    /// As [`Mutex::open`].
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::from_fd(file, waiting).map(Self)
    }

    /// Waits until the mutex is free and takes it. It is given back when the guard is dropped.
    ///
    /// # Errors
    /// [`OwnerDied`], with the mutex, when a process has died that had it.
    pub fn lock(&self) -> Result<Guard<'_>, OwnerDied<'_>> {
        loop {
            match self.lock_by(None) {
                Ok(guard) => return Ok(guard),
                Err(LockError::OwnerDied(died)) => return Err(died),
                // Without a deadline there is none to pass.
                Err(LockError::TimedOut) => {}
            }
        }
    }

    /// As [`Mutex::lock`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// [`LockError`]. A mutex that is free is taken however late it is.
    pub fn lock_until(&self, deadline: time::Instant) -> Result<Guard<'_>, LockError<'_>> {
        self.lock_by(Some(deadline::at(deadline)))
    }

    /// As [`Mutex::lock_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Mutex::lock_until`].
    pub fn lock_timeout(&self, timeout: time::Duration) -> Result<Guard<'_>, LockError<'_>> {
        self.lock_by(Some(deadline::after(timeout)))
    }

    /// Takes the mutex if it is free. Never blocks.
    ///
    /// # Errors
    /// [`OwnerDied`], with the mutex, when a process has died that had it and it has been given back since. It is not looked
    /// whether an owner lives; [`Mutex::lock_until`] does that.
    pub fn try_lock(&self) -> Result<Option<Guard<'_>>, OwnerDied<'_>> {
        self.0.body.lock.try_acquire(self.own()).map(|found| self.taken(found)).transpose()
    }

    fn lock_by(&self, deadline: Option<Instant>) -> Result<Guard<'_>, LockError<'_>> {
        let Object { body, waiting, .. } = &self.0;
        if let Some(found) = body.lock.try_acquire(self.own()) {
            return Ok(self.taken(found)?);
        }
        let mut taken_over = false;
        let attempt = LockAttempt::new(&body.lock, self.own(), Scope::Shared);
        let mut attempt = WithLivenessCheck::new(attempt, || {
            taken_over = self.take_over();
            !taken_over
        });
        let result = body.wait_state.wait(&mut attempt, *waiting, deadline);
        let attempt = attempt.awaited;
        if result.is_ok() {
            return Ok(self.taken(attempt.integrity())?);
        }
        if taken_over || self.take_over() {
            return Ok(self.taken(Integrity::Damaged)?);
        }
        attempt.give_up();
        Err(LockError::TimedOut)
    }

    /// Takes the mutex from its owner, if that has died.
    fn take_over(&self) -> bool {
        let Object { body, participants, .. } = &self.0;
        let seen = body.lock.state();
        let Some(owner) = seen.owner() else { return false };
        let Some(died) = participants.lost_at(owner.0) else { return false };
        let taken = body.lock.take_over(seen, self.own());
        if taken {
            body.died.store(died, Relaxed);
        }
        taken
    }

    fn taken(&self, found: Integrity) -> Result<Guard<'_>, OwnerDied<'_>> {
        let guard = Guard { mutex: self, damaged: found == Integrity::Damaged };
        if guard.damaged { Err(OwnerDied { pid: self.0.body.died.load(Relaxed), guard }) } else { Ok(guard) }
    }

    fn own(&self) -> OwnerId {
        OwnerId(self.0.participants.own())
    }

    /// What waiting has come to so far, that of all processes. Only who finds the mutex held waits.
    pub fn statistics(&self) -> Statistics {
        self.0.body.wait_state.statistics()
    }
}

/// The file that it is in.
impl AsFd for Mutex {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.memory.as_fd()
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("shared::Mutex").field("waiting", &self.0.waiting).finish_non_exhaustive()
    }
}

/// Has the mutex until it is dropped.
#[must_use = "the mutex is given back as soon as its guard is dropped"]
#[derive(Debug)]
pub struct Guard<'m> {
    mutex: &'m Mutex,
    /// Nobody has said yet that what the mutex guards is whole.
    damaged: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.mutex.0.body.lock.release(self.mutex.own(), self.damaged, Scope::Shared);
    }
}

/// A process has died while it had the mutex, so what the mutex guards may be half changed. The caller has the mutex now.
///
/// Who can make it whole again does so and then calls [`OwnerDied::recover`]. If this is dropped instead, the mutex is given
/// back as it is, and the next to lock it is told the same.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} has died while it had the mutex: what that guards may be half changed, and is to be made whole")]
pub struct OwnerDied<'m> {
    pid: u32,
    guard: Guard<'m>,
}

impl<'m> OwnerDied<'m> {
    /// The process that died; the last, if there were several.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Says that what the mutex guards is whole again; from now on it is a mutex like any other.
    pub fn recover(mut self) -> Guard<'m> {
        self.guard.damaged = false;
        self.guard
    }
}

/// Why the mutex was not simply taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError<'m> {
    /// The deadline has passed, and somebody who lives has the mutex.
    #[error("the mutex was not free before the deadline")]
    TimedOut,
    /// The mutex was taken, but an owner has died.
    #[error("{0}")]
    OwnerDied(OwnerDied<'m>),
}

impl<'m> From<OwnerDied<'m>> for LockError<'m> {
    fn from(died: OwnerDied<'m>) -> LockError<'m> {
        LockError::OwnerDied(died)
    }
}
