//! Access to a runtime for other threads: they spawn fibers there, wait for their ends, and detach
//! them.
//!
//! A runtime with one worker uses no atomic operations, so no other thread may touch its fibers.
//! Instead a thread outside sends a proxy fiber, which does what is necessary there: waits for the
//! other fiber's end, or detaches it. A fiber that has ended and whose handle is outside belongs to
//! the handle, and its outcome is taken or dropped there. Once the runtime is over, all is done
//! directly, because no worker is left.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::SpawnError;
use crate::join::{self, DETACHED, ENDED, JoinHandle, NO_JOINER};
use crate::record::{Fiber, Tier};
use crate::shared::{Core, pointer};
use crate::spawn::Builder;
use crate::waits::Woken;
use crate::worker::CurrentWorker;

/// The interval of attempts if a runtime has no room for another fiber.
const AGAIN: Duration = Duration::from_millis(1);

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
    let core = CurrentWorker::enter(|here| here.core_pointer());
    // SAFETY: the runtime has a share while its fibers run, and this adds one.
    let core = unsafe {
        Arc::increment_strong_count(core.as_ptr());
        Arc::from_raw(core.as_ptr())
    };
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
        let tier = builder.tier(self.core.config());
        let extras = builder.extras();
        // SAFETY: the record is free; the function borrows nothing, and may move to another kernel
        // thread.
        let fiber =
            self.core.add_from_outside(false, |fiber| unsafe { fiber.begin(extras, tier, function, NO_JOINER) })?;
        // SAFETY: it is the first handle, and has this type.
        Ok(unsafe { JoinHandle::new(fiber, pointer(&self.core)) })
    }

    /// Makes a blocked fiber ready, by its number and its worker's. The caller has taken it off
    /// its list.
    pub(crate) fn wake(&self, fiber: u32, worker: usize) {
        let fiber = self.core.records.get(fiber);
        fiber.woken.set(Woken::Called);
        self.core.inboxes[worker].send(fiber);
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

/// A fiber whose handle is outside, for the proxy fiber.
struct SentFiber(Fiber);

// SAFETY: it only names the fiber.
unsafe impl Send for SentFiber {}

/// Blocks the kernel thread until a fiber has ended. Returns false if it never will, because its
/// runtime is over.
#[cold]
pub(crate) fn wait_for_end(core: &Core, fiber: Fiber) -> bool {
    let has_ended = || fiber.meeting.load(Acquire) == ENDED;
    while !has_ended() {
        let completion = Arc::new(Completion::default());
        let (complete, sent) = (CompleteOnDrop(Arc::clone(&completion)), SentFiber(fiber));
        let proxy = move || {
            let (_complete, SentFiber(fiber)) = (complete, { sent });
            // It cannot wait for itself: it has no handle.
            let _ = CurrentWorker::enter(|here| join::wait_for_end(&here, fiber));
        };
        // SAFETY: the record is free; the function borrows nothing, and may move to another kernel
        // thread.
        match core.add_from_outside(true, |fiber| unsafe { fiber.begin(None, Tier::Cooperative, proxy, DETACHED) }) {
            Ok(_) => {
                completion.wait();
                if !has_ended() {
                    // The runtime ends. The fiber may still end before it is over.
                    core.wait_until_over();
                    return has_ended();
                }
            }
            Err(SpawnError::Over) => return has_ended(),
            Err(_) => std::thread::sleep(AGAIN),
        }
    }
    true
}

/// Drops the handle to a fiber.
///
/// # Safety
/// It is the only handle, and is forgotten.
#[cold]
pub(crate) unsafe fn detach(core: NonNull<Core>, fiber: Fiber) {
    if fiber.meeting.load(Acquire) != ENDED {
        // SAFETY: the handle keeps it until the record is returned.
        let shared = unsafe { core.as_ref() };
        // SAFETY: it replaces the handle that is forgotten.
        let handle = unsafe { JoinHandle::<()>::new(fiber, core) };
        let mut proxy = Some(move || drop(handle));
        let brought = shared.add_from_outside(true, |fiber| {
            if let Some(proxy) = proxy.take() {
                // SAFETY: the record is free; the function borrows nothing, and may move to another
                // kernel thread.
                unsafe { fiber.begin(None, Tier::Cooperative, proxy, DETACHED) };
            }
        });
        // A proxy that was not sent must not drop the handle here.
        std::mem::forget(proxy);
        match brought {
            Ok(_) => return,
            Err(SpawnError::Over) => (),
            // There is no room for a fiber, and perhaps never will be. So the record is lost to the
            // runtime.
            Err(_) => return,
        }
    }
    if fiber.meeting.load(Acquire) == ENDED {
        // SAFETY: it has run, and this was its only handle.
        unsafe { fiber.task.drop_outcome() };
    }
    // SAFETY: the caller's promise.
    unsafe { Core::return_record(core, fiber) };
}

/// The event that a blocked thread waits for.
#[derive(Default)]
struct Completion {
    is_done: Mutex<bool>,
    changed: Condvar,
}

impl Completion {
    fn wait(&self) {
        let mut is_done = self.is_done.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_done {
            is_done = self.changed.wait(is_done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Completes it when dropped, whatever happens to the fiber that owns it.
struct CompleteOnDrop(Arc<Completion>);

impl Drop for CompleteOnDrop {
    fn drop(&mut self) {
        *self.0.is_done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_one();
    }
}
