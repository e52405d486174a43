//! The semaphore among processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fmt, time};

use policy::Instant;

use super::WaitFailure;
use super::memory::{MemoryError, ObjectKind};
use super::object::{Body, Object, WithLivenessCheck};
use crate::deadline;
use crate::protocol::raw_semaphore::{Overflow, RawSemaphore};
use crate::statistics::Statistics;
use crate::sync::Scope;
use crate::waiting::Waiting;

/// A number of permits, as [`crate::Semaphore`], for threads of all processes that have it open.
///
/// A permit is nobody's: whoever has taken one may give it back or not, and so may anybody else. When a process dies that
/// has the semaphore open, nobody can tell how many permits it has taken with it, so those who wait in vain are told, until somebody
/// calls [`Semaphore::forget_dead_processes`].
pub struct Semaphore(Object<RawSemaphore>);

impl Body for RawSemaphore {
    const KIND: ObjectKind = ObjectKind::Semaphore;

    fn is_reusable(&self, _: u32) -> bool {
        true
    }
}

fn begin(permits: u32) -> impl Fn(&RawSemaphore) {
    move |semaphore| {
        // There were none, so there is room for them.
        let _ = semaphore.up_by(permits, Scope::Shared);
    }
}

impl Semaphore {
    /// Makes a semaphore for so many processes at a time under a path where nothing is yet, best below `/dev/shm`, with so many permits.
    /// Its owner alone can open it, until the file's permissions are changed.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn create(path: impl AsRef<Path>, processes: u32, permits: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(path.as_ref(), processes, 0, begin(permits), waiting).map(Self)
    }

    /// Makes a semaphore without a name, for this process and those that inherit or are sent its file and open it by
    /// `from_fd`. Nobody can change the file's length. It is closed on exec, unless it is told otherwise.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn nameless(processes: u32, permits: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::nameless(processes, 0, begin(permits), waiting).map(Self)
    }

    /// Opens the semaphore under a path, and takes one of its places for processes until it is dropped. How its threads wait is
    /// for each process to say.
    ///
    /// # Errors
    /// [`MemoryError`], where there is none, or it has no place left.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::open(path.as_ref(), waiting).map(Self)
    }

    /// Opens the semaphore in an open file, as [`Semaphore::open`].
    ///
    /// # Errors
    /// As [`Semaphore::open`].
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::from_fd(file, waiting).map(Self)
    }

    /// How many permits there are at this moment.
    pub fn value(&self) -> u32 {
        self.0.body.value()
    }

    /// Takes a permit, as soon as there is one, and returns how many are left.
    ///
    /// # Errors
    /// [`WaitFailure::Abandoned`], when there was none for some time and a process has died that had the semaphore open.
    pub fn down(&self) -> Result<u32, WaitFailure> {
        self.down_by(None)
    }

    /// Takes a permit if there is one, and returns how many are left. Never blocks.
    pub fn try_down(&self) -> Option<u32> {
        self.0.body.try_down()
    }

    /// As [`Semaphore::down`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// [`WaitFailure`].
    pub fn down_until(&self, deadline: time::Instant) -> Result<u32, WaitFailure> {
        self.down_by(Some(deadline::at(deadline)))
    }

    /// As [`Semaphore::down_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// [`WaitFailure`].
    pub fn down_timeout(&self, timeout: time::Duration) -> Result<u32, WaitFailure> {
        self.down_by(Some(deadline::after(timeout)))
    }

    fn down_by(&self, deadline: Option<Instant>) -> Result<u32, WaitFailure> {
        let Object { body, participants, waiting, .. } = &self.0;
        if let Some(left) = body.try_down() {
            return Ok(left);
        }
        let mut lost = None;
        let mut permit = WithLivenessCheck::new(body.permit(Scope::Shared), || {
            lost = participants.lost();
            lost.is_none()
        });
        match body.wait_state.wait(&mut permit, *waiting, deadline) {
            Ok(()) => Ok(permit.awaited.left),
            Err(_) => Err(WaitFailure::by(lost.or_else(|| participants.lost()))),
        }
    }

    /// Adds a permit, and returns how many there are then. Never blocks.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn up(&self) -> Result<u32, Overflow> {
        self.up_by(1)
    }

    /// Adds so many permits at once, and returns how many there are then. Never blocks.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn up_by(&self, permits: u32) -> Result<u32, Overflow> {
        self.0.body.up_by(permits, Scope::Shared)
    }

    /// Says that what became of the processes that have died is settled, and returns their numbers: from now on nobody is
    /// told of them, and their places are free. Of those whose places others have taken since, only the last is named.
    pub fn forget_dead_processes(&self) -> Vec<u32> {
        self.0.participants.forget()
    }

    /// What waiting has come to so far, that of all processes.
    pub fn statistics(&self) -> Statistics {
        self.0.body.statistics()
    }
}

/// The file that it is in.
impl AsFd for Semaphore {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.memory.as_fd()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("shared::Semaphore").field("waiting", &self.0.waiting).finish_non_exhaustive()
    }
}
