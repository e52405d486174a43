//! What threads that run no fibers of a runtime may do with it: make fibers there, wait for their ends, and let them go.
//!
//! A runtime with one worker uses no atomic operations, so nobody else may touch what its fibers do. Whoever is outside sends a fiber of its own instead, which does there what
//! is to be done: waits for the other one's end, or detaches it. A fiber that has ended and whose handle is outside is nobody else's, and what
//! came of it is taken or dropped where the handle is. Once the runtime is over, all is done directly, as nobody is left.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::SpawnError;
use crate::join::{self, DETACHED, ENDED, JoinHandle, NO_JOINER};
use crate::record::Fiber;
use crate::shared::{Core, pointer};
use crate::spawn::Builder;
use crate::worker::Here;

/// How often a runtime that has no room for one more fiber is asked again.
const AGAIN: Duration = Duration::from_millis(1);

/// By which other threads make fibers in a runtime; see [`remote`].
///
/// As long as there is one, that all fibers wait is no deadlock: something may come of it.
pub struct Remote {
    core: Arc<Core>,
}

/// A [`Remote`] to the runtime of the fiber that asks.
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
/// Where no runtime runs.
pub fn remote() -> Remote {
    let core = Here::enter(|here| here.core_pointer());
    // SAFETY: the runtime has a share while its fibers run, and this is one more.
    let core = unsafe {
        Arc::increment_strong_count(core.as_ptr());
        Arc::from_raw(core.as_ptr())
    };
    core.add_expected();
    Remote { core }
}

impl Remote {
    /// Makes a fiber, as [`spawn`](crate::spawn) does in the runtime itself. It is on its way when this returns; a worker that has nothing to do is awakened for it.
    ///
    /// # Errors
    /// When the runtime is [over](SpawnError::Over), and when it has no room for another fiber.
    pub fn spawn<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        self.spawn_with(Builder::new(), function)
    }

    /// As [`Builder::spawn`] does.
    ///
    /// # Errors
    /// As [`spawn`](Remote::spawn).
    pub fn spawn_with<T: Send + 'static>(
        &self,
        builder: Builder,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let is_preemptible = builder.is_preemptible(self.core.config());
        if is_preemptible {
            self.core.config().preempt_by.kind()?;
        }
        let extras = builder.extras();
        // SAFETY: it is nobody's; the function borrows nothing, and may go to another kernel thread.
        let fiber = self
            .core
            .add_from_outside(false, |fiber| unsafe { fiber.begin(extras, is_preemptible, function, NO_JOINER) })?;
        // SAFETY: it is the first handle, and this is the type.
        Ok(unsafe { JoinHandle::new(fiber, pointer(&self.core)) })
    }

    /// Whether the runtime is over, or about to be.
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

/// A fiber that a thread outside has a handle to, for one that does there what it would.
struct SentFiber(Fiber);

// SAFETY: it only names it.
unsafe impl Send for SentFiber {}

/// Blocks the kernel thread until a fiber has ended. False if it never will, as its runtime is over.
#[cold]
pub(crate) fn wait_for_end(core: &Core, fiber: Fiber) -> bool {
    let has_ended = || fiber.meeting.load(Acquire) == ENDED;
    while !has_ended() {
        let completion = Arc::new(Completion::default());
        let (complete, sent) = (CompleteOnDrop(Arc::clone(&completion)), SentFiber(fiber));
        let proxy = move || {
            let (_complete, SentFiber(fiber)) = (complete, { sent });
            // It cannot wait for itself: nobody has a handle to it.
            let _ = Here::enter(|here| join::wait_for_end(&here, fiber));
        };
        // SAFETY: it is nobody's; the function borrows nothing, and may go to another kernel thread.
        match core.add_from_outside(true, |fiber| unsafe { fiber.begin(None, false, proxy, DETACHED) }) {
            Ok(_) => {
                completion.wait();
                if !has_ended() {
                    // The runtime ends. So may the fiber, before it is over.
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

/// The handle to a fiber is dropped.
///
/// # Safety
/// It is the only one, and forgets the fiber.
#[cold]
pub(crate) unsafe fn detach(core: NonNull<Core>, fiber: Fiber) {
    if fiber.meeting.load(Acquire) != ENDED {
        // SAFETY: the handle keeps it until it is given back.
        let shared = unsafe { core.as_ref() };
        // SAFETY: the handle that this one takes the place of is forgotten.
        let handle = unsafe { JoinHandle::<()>::new(fiber, core) };
        let mut proxy = Some(move || drop(handle));
        let brought = shared.add_from_outside(true, |fiber| {
            if let Some(proxy) = proxy.take() {
                // SAFETY: it is nobody's; the function borrows nothing, and may go to another kernel thread.
                unsafe { fiber.begin(None, false, proxy, DETACHED) };
            }
        });
        // What was not sent must not come here again.
        std::mem::forget(proxy);
        match brought {
            Ok(_) => return,
            Err(SpawnError::Over) => (),
            // There is no room for a fiber, and never will be if nobody lets go; so the record is lost to the runtime.
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

/// What a blocked thread waits for.
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

/// Rings when it is dropped, whatever happens to the fiber that has it.
struct CompleteOnDrop(Arc<Completion>);

impl Drop for CompleteOnDrop {
    fn drop(&mut self) {
        *self.0.is_done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_one();
    }
}
