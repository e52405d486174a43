//! The event for several processes.

use std::path::Path;

use super::WaitFailure;
use super::memory::{MemoryError, ObjectKind};
use super::object::{Body, Object, common_methods};
use crate::deadline::Deadline;
use crate::protocol::raw_event::{RawEvent, Reset};
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
}

impl Event {
    /// Creates an event that is not set: see [`Mutex::create`](super::Mutex::create).
    pub fn create(path: impl AsRef<Path>, processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(Some(path.as_ref()), processes, reset as u32, |_| (), waiting).and_then(Event::on)
    }

    /// Like [`Event::create`], without a name: see [`Mutex::nameless`](super::Mutex::nameless).
    pub fn nameless(processes: u32, reset: Reset, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(None, processes, reset as u32, |_| (), waiting).and_then(Event::on)
    }

    fn on(object: Object<RawEvent>) -> Result<Event, MemoryError> {
        let reset = [Reset::Auto, Reset::Manual].into_iter().find(|&reset| reset as u32 == object.memory.detail);
        let reset = reset.ok_or(MemoryError::Foreign("its kind of reset is unknown"))?;
        Ok(Event { object, reset })
    }

    /// Sets the event. Never blocks.
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
    /// [`WaitFailure::Abandoned`] if a process has died with the event open.
    pub fn wait(&self) -> Result<(), WaitFailure> {
        self.wait_timeout(Deadline::NEVER)
    }

    /// Passes if the event lets the caller pass now. Returns whether it did. Never blocks.
    pub fn try_wait(&self) -> bool {
        self.object.body.try_wait(self.reset)
    }

    /// Like [`Event::wait`], but waits at most until the deadline.
    pub fn wait_timeout(&self, deadline: impl Into<Deadline>) -> Result<(), WaitFailure> {
        let (body, deadline) = (&self.object.body, deadline.into().0);
        let setting = body.setting(self.reset, Scope::Shared);
        if body.try_wait(self.reset) {
            return Ok(());
        }
        self.object.wait(&body.wait_state, setting, deadline).map(drop)
    }

    /// See [`Semaphore::forget_dead_processes`](super::Semaphore::forget_dead_processes).
    pub fn forget_dead_processes(&self) -> Vec<u32> {
        self.object.participants.forget()
    }
}

common_methods!(Event, "event");
