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
use crate::join::{self, DETACHED, ENDED, JoinHandle, NOBODY};
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
    core.expect();
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
        let fiber = self.core.bring(false, |fiber| unsafe { fiber.begin(extras, is_preemptible, function, NOBODY) })?;
        // SAFETY: it is the first handle, and this is the type.
        Ok(unsafe { JoinHandle::new(fiber, pointer(&self.core)) })
    }

    /// Whether the runtime is over, or about to be.
    pub fn is_over(&self) -> bool {
        self.core.has_ended()
    }
}

impl Clone for Remote {
    fn clone(&self) -> Remote {
        self.core.expect();
        Remote { core: Arc::clone(&self.core) }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.core.expect_no_more();
    }
}

/// A fiber that a thread outside has a handle to, for one that does there what it would.
struct Theirs(Fiber);

// SAFETY: it only names it.
unsafe impl Send for Theirs {}

/// Blocks the kernel thread until a fiber has ended. False if it never will, as its runtime is over.
#[cold]
pub(crate) fn outlast(core: &Core, fiber: Fiber) -> bool {
    let has_ended = || fiber.meeting.load(Acquire) == ENDED;
    while !has_ended() {
        let bell = Arc::new(Bell::default());
        let (rings, theirs) = (Rings(Arc::clone(&bell)), Theirs(fiber));
        let errand = move || {
            let (_rings, Theirs(fiber)) = (rings, { theirs });
            // It cannot wait for itself: nobody has a handle to it.
            let _ = Here::enter(|here| join::outlast(&here, fiber));
        };
        // SAFETY: it is nobody's; the function borrows nothing, and may go to another kernel thread.
        match core.bring(true, |fiber| unsafe { fiber.begin(None, false, errand, DETACHED) }) {
            Ok(_) => {
                bell.wait();
                if !has_ended() {
                    // The runtime ends. So may the fiber, before it is over.
                    core.outlast();
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
        let mut errand = Some(move || drop(handle));
        let brought = shared.bring(true, |fiber| {
            if let Some(errand) = errand.take() {
                // SAFETY: it is nobody's; the function borrows nothing, and may go to another kernel thread.
                unsafe { fiber.begin(None, false, errand, DETACHED) };
            }
        });
        // What was not sent must not come here again.
        std::mem::forget(errand);
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
    unsafe { Core::give_back(core, fiber) };
}

/// What a blocked thread waits for.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            rung = self.changed.wait(rung).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Rings when it is dropped, whatever happens to the fiber that has it.
struct Rings(Arc<Bell>);

impl Drop for Rings {
    fn drop(&mut self) {
        *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_one();
    }
}
