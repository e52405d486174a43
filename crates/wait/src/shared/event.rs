//! The event for several processes.

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

/// An event like [`crate::Event`], for threads of all processes that have it open.
///
/// A process that dies with the event open may be the one that would have set it. So waits fail
/// after some time, until [`Event::forget_dead_processes`] is called.
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
    /// Creates an event for up to `processes` processes at a time under a new path, preferably
    /// below `/dev/shm`. It is not set. Only the owner can open it, unless the file's permissions
    /// are changed.
    ///
    /// # Errors
    /// [`MemoryError`] if it cannot be created.
    pub fn create(path: impl AsRef<Path>, processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(path.as_ref(), processes, detail(reset), |_| (), waiting).and_then(Event::on)
    }

    /// Creates an event without a name. Other processes inherit or receive its file and open it by
    /// `from_fd`. The file's length is sealed. It is closed on exec, unless that is changed.
    ///
    /// # Errors
    /// [`MemoryError`] if it cannot be created.
    pub fn nameless(processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::nameless(processes, detail(reset), |_| (), waiting).and_then(Event::on)
    }

    /// Opens the event at a path, and claims one of its process slots until dropped. Each process
    /// chooses how its own threads wait.
    ///
    /// # Errors
    /// [`MemoryError`] if there is no event, or no slot is free.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::open(path.as_ref(), waiting).and_then(Event::on)
    }

    /// Opens the event in an open file. See [`Event::open`].
    ///
    /// # Errors
    /// See [`Event::open`].
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::from_fd(file, waiting).and_then(Event::on)
    }

    fn on(object: Object<RawEvent>) -> Result<Event, MemoryError> {
        let reset = [Reset::Auto, Reset::Manual].into_iter().find(|&reset| detail(reset) == object.memory.detail());
        let reset = reset.ok_or(MemoryError::Foreign("its kind of reset is unknown"))?;
        Ok(Event { object, reset })
    }

    /// Sets the event, which lets one thread pass if it is an auto-reset event, else all. Never
    /// blocks.
    pub fn set(&self) {
        self.object.body.set(self.reset, Scope::Shared);
    }

    /// Resets the event. Returns whether it was set. Never blocks.
    pub fn reset(&self) -> bool {
        self.object.body.reset()
    }

    /// Whether the event is set now.
    pub fn is_set(&self) -> bool {
        self.object.body.is_set()
    }

    /// Waits until the event lets the caller pass.
    ///
    /// # Errors
    /// [`WaitFailure::Abandoned`] if it did not for some time and a process has died with the event
    /// open.
    pub fn wait(&self) -> Result<(), WaitFailure> {
        self.wait_by(None)
    }

    /// Passes if the event lets the caller pass now. Returns whether it did. Never blocks.
    pub fn try_wait(&self) -> bool {
        self.object.body.try_wait(self.reset)
    }

    /// Like [`Event::wait`], but waits at most until the deadline.
    ///
    /// # Errors
    /// [`WaitFailure`].
    pub fn wait_until(&self, deadline: time::Instant) -> Result<(), WaitFailure> {
        self.wait_by(Some(deadline::at(deadline)))
    }

    /// Like [`Event::wait_until`], with a timeout that begins now.
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

    /// See [`Semaphore::forget_dead_processes`](super::Semaphore::forget_dead_processes).
    pub fn forget_dead_processes(&self) -> Vec<u32> {
        self.object.participants.forget()
    }

    /// The counts of all waits of all processes so far.
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

/// The file of the event.
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
