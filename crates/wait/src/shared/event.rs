//! The event among processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fmt, time};

use policy::Instant;

use super::WaitFailure;
use super::memory::{MemoryError, ObjectKind};
use super::object::{Body, Object, WithLivenessCheck};
use crate::deadline;
use crate::protocol::raw_event::{RawEvent, Reset};
use crate::statistics::Statistics;
use crate::sync::Scope;
use crate::waiting::Waiting;

/// Something has happened, as [`crate::Event`], for threads of all processes that have it open.
///
/// When a process dies that has the event open, it may be the one that would have set it; so those who wait in vain are told, until
/// somebody calls [`Event::forget_dead_processes`].
pub struct Event {
    object: Object<RawEvent>,
    reset: Reset,
}

impl Body for RawEvent {
    const KIND: ObjectKind = ObjectKind::Event;

    fn is_reusable(&self, _: u32) -> bool {
        true
    }
}

impl Event {
    /// Makes an event for so many processes at a time under a path where nothing is yet, best below `/dev/shm`, not set.
    /// Its owner alone can open it, until the file's permissions are changed.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn create(path: impl AsRef<Path>, processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(path.as_ref(), processes, detail(reset), |_| (), waiting).and_then(Event::on)
    }

    /// Makes an event without a name, for this process and those that inherit or are sent its file and open it by
    /// `from_fd`. Nobody can change the file's length. It is closed on exec, unless it is told otherwise.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn nameless(processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::nameless(processes, detail(reset), |_| (), waiting).and_then(Event::on)
    }

    /// Opens the event under a path, and takes one of its places for processes until it is dropped. How its threads wait is
    /// for each process to say.
    ///
    /// # Errors
    /// [`MemoryError`], where there is none, or it has no place left.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::open(path.as_ref(), waiting).and_then(Event::on)
    }

    /// Opens the event in an open file, as [`Event::open`].
    ///
    /// # Errors
    /// As [`Event::open`].
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::from_fd(file, waiting).and_then(Event::on)
    }

    fn on(object: Object<RawEvent>) -> Result<Event, MemoryError> {
        let reset = [Reset::Auto, Reset::Manual].into_iter().find(|&reset| detail(reset) == object.memory.detail());
        let reset = reset.ok_or(MemoryError::Foreign("it is an event that is reset in no known way"))?;
        Ok(Event { object, reset })
    }

    /// Sets the event: at one that resets itself lets one thread pass, else all. Never blocks.
    pub fn set(&self) {
        self.object.body.set(self.reset, Scope::Shared);
    }

    /// Makes it an event that is not set, and returns whether it was. Never blocks.
    pub fn reset(&self) -> bool {
        self.object.body.reset()
    }

    /// Whether it is set at this moment.
    pub fn is_set(&self) -> bool {
        self.object.body.is_set()
    }

    /// Waits until the event lets the caller pass.
    ///
    /// # Errors
    /// [`WaitFailure::Abandoned`], when it did not for some time and a process has died that had the event open.
    pub fn wait(&self) -> Result<(), WaitFailure> {
        self.wait_by(None)
    }

    /// Passes, if the event lets the caller do so now, and returns whether it did. Never blocks.
    pub fn try_wait(&self) -> bool {
        self.object.body.try_wait(self.reset)
    }

    /// As [`Event::wait`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// [`WaitFailure`].
    pub fn wait_until(&self, deadline: time::Instant) -> Result<(), WaitFailure> {
        self.wait_by(Some(deadline::at(deadline)))
    }

    /// As [`Event::wait_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// [`WaitFailure`].
    pub fn wait_timeout(&self, timeout: time::Duration) -> Result<(), WaitFailure> {
        self.wait_by(Some(deadline::after(timeout)))
    }

    fn wait_by(&self, deadline: Option<Instant>) -> Result<(), WaitFailure> {
        let Object { body, participants, waiting, .. } = &self.object;
        let setting = body.setting(self.reset, Scope::Shared);
        if body.try_wait(self.reset) {
            return Ok(());
        }
        let mut lost = None;
        let mut setting = WithLivenessCheck::new(setting, || {
            lost = participants.lost();
            lost.is_none()
        });
        let result = body.wait_state.wait(&mut setting, *waiting, deadline);
        result.map_err(|_| WaitFailure::by(lost.or_else(|| participants.lost())))
    }

    /// As [`Semaphore::forget_dead_processes`](super::Semaphore::forget_dead_processes).
    pub fn forget_dead_processes(&self) -> Vec<u32> {
        self.object.participants.forget()
    }

    /// What waiting has come to so far, that of all processes.
    pub fn statistics(&self) -> Statistics {
        self.object.body.statistics()
    }
}

fn detail(reset: Reset) -> u32 {
    match reset {
        Reset::Auto => 0,
        Reset::Manual => 1,
    }
}

/// The file that it is in.
impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.object.memory.as_fd()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("shared::Event").field("waiting", &self.object.waiting).finish_non_exhaustive()
    }
}
