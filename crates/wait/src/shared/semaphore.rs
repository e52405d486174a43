//! The semaphore for several processes.

use std::path::Path;

use super::WaitFailure;
use super::memory::{MemoryError, ObjectKind};
use super::object::{Body, Object, common_methods};
use crate::deadline::Deadline;
use crate::protocol::raw_semaphore::{Overflow, RawSemaphore};
use crate::sync::Scope;
use crate::waiting::Waiting;

/// A number of permits like [`crate::Semaphore`], for threads of all processes that have it open.
///
/// A permit has no owner: any thread may release it. If a process dies with the semaphore open, it
/// is unknown how many permits it had acquired. So waits fail until
/// [`Semaphore::forget_dead_processes`].
pub struct Semaphore {
    object: Object<RawSemaphore>,
}

impl Body for RawSemaphore {
    const KIND: ObjectKind = ObjectKind::Semaphore;
}

fn begin(permits: u32) -> impl Fn(&RawSemaphore) {
    move |semaphore| {
        // The semaphore is empty, so it has room for them.
        let _ = semaphore.up_by(permits, Scope::Shared);
    }
}

impl Semaphore {
    /// Creates a semaphore with `permits` permits: see [`Mutex::create`](super::Mutex::create).
    pub fn create(path: impl AsRef<Path>, processes: u32, permits: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(Some(path.as_ref()), processes, 0, begin(permits), waiting).and_then(Self::on)
    }

    /// Like [`Semaphore::create`], without a name: see [`Mutex::nameless`](super::Mutex::nameless).
    pub fn nameless(processes: u32, permits: u32, waiting: Waiting) -> Result<Self, MemoryError> {
        Object::create(None, processes, 0, begin(permits), waiting).and_then(Self::on)
    }

    fn on(object: Object<RawSemaphore>) -> Result<Semaphore, MemoryError> {
        Ok(Semaphore { object })
    }

    /// The current number of permits.
    pub fn value(&self) -> u32 {
        self.object.body.value()
    }

    /// Waits for a permit and acquires it. Returns the number of permits left.
    ///
    /// # Errors
    /// [`WaitFailure::Abandoned`] if a process has died with the semaphore open.
    pub fn down(&self) -> Result<u32, WaitFailure> {
        self.down_timeout(Deadline::NEVER)
    }

    /// Acquires a permit if there is one. Returns the number of permits left. Never blocks.
    pub fn try_down(&self) -> Option<u32> {
        self.object.body.try_down()
    }

    /// Like [`Semaphore::down`], but waits at most until the deadline.
    pub fn down_timeout(&self, deadline: impl Into<Deadline>) -> Result<u32, WaitFailure> {
        let (body, deadline) = (&self.object.body, deadline.into().0);
        if let Some(left) = body.try_down() {
            return Ok(left);
        }
        Ok(self.object.wait(&body.wait_state, body.permit(Scope::Shared), deadline)?.left)
    }

    /// Adds a permit. Returns the number of permits. Never blocks.
    pub fn up(&self) -> Result<u32, Overflow> {
        self.up_by(1)
    }

    /// Adds permits in one step. Returns the number of permits. Never blocks.
    pub fn up_by(&self, permits: u32) -> Result<u32, Overflow> {
        self.object.body.up_by(permits, Scope::Shared)
    }

    /// Declares the deaths of processes as handled, and returns their PIDs. Waits no longer fail
    /// because of them, and their slots are free. Of those whose slots were taken over, includes
    /// the last.
    pub fn forget_dead_processes(&self) -> Vec<u32> {
        self.object.participants.forget()
    }
}

common_methods!(Semaphore, "semaphore");
