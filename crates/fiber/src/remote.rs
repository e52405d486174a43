//! Spawning fibers from other threads.

use std::sync::Arc;

use crate::current_worker::CurrentWorker;
use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::record::NO_JOINER;
use crate::shared::{Core, pointer};
use crate::spawn::Builder;

/// Spawns fibers in a runtime from other threads; see [`remote`].
///
/// As long as a `Remote` exists, it is no deadlock if all fibers wait: something may still come.
pub struct Remote {
    core: Arc<Core>,
}

/// A [`Remote`] to the calling fiber's runtime.
///
/// ```
/// let sum = rowlock_fiber::run(|| {
///     let remote = rowlock_fiber::remote();
///     let thread = std::thread::spawn(move || remote.spawn(|| 6 * 7).unwrap().join().unwrap());
///     while !thread.is_finished() {
///         rowlock_fiber::yield_now();
///     }
///     thread.join().unwrap()
/// });
/// assert_eq!(sum, 42);
/// ```
///
/// # Panics
/// If called outside a runtime.
pub fn remote() -> Remote {
    let core = CurrentWorker::enter(|here| here.core_pointer);
    // SAFETY: the runtime has a share while its fibers run.
    let core = unsafe { Core::share(core) };
    core.add_expected();
    Remote { core }
}

impl Remote {
    /// Spawns a fiber, as [`spawn`](crate::spawn) does in the runtime itself. It has been sent when
    /// this returns, and wakes an idle worker.
    ///
    /// # Errors
    /// If the runtime is [over](SpawnError::Over), or has no room for another fiber.
    pub fn spawn<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        self.spawn_with(Builder::new(), function)
    }

    /// Like [`Builder::spawn`].
    ///
    /// # Errors
    /// As for [`spawn`](Remote::spawn).
    pub fn spawn_with<T: Send + 'static>(
        &self,
        builder: Builder,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let tier = self.core.config.tier(builder.tier);
        let extras = builder.extras();
        // SAFETY: the record is free; the function borrows nothing, and may move to another kernel
        // thread.
        let fiber = self.core.add_from_outside(|fiber| unsafe { fiber.begin(extras, tier, function, NO_JOINER) })?;
        // SAFETY: it is the first handle, and has this type.
        Ok(unsafe { JoinHandle::new(fiber, pointer(&self.core)) })
    }

    /// Whether the runtime is over, or about to end.
    pub fn is_over(&self) -> bool {
        self.core.is_shutting_down()
    }
}

impl Clone for Remote {
    fn clone(&self) -> Remote {
        self.core.add_expected();
        Remote { core: Arc::clone(&self.core) }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.core.remove_expected();
    }
}
