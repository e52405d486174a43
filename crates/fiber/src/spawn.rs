//! Spawning fibers.

use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::record::Extras;
use crate::runtime::Config;
use crate::worker::CurrentWorker;

/// Spawns a fiber, which runs the function when its turn comes. [`JoinHandle::join`] returns its
/// result.
///
/// In a runtime with several workers the function may start on another kernel thread; then it stays
/// there.
///
/// # Panics
/// If called outside a runtime, or if there is no room for another fiber. [`Builder::spawn`]
/// returns an error in the latter case.
///
/// ```
/// let sum = rowlock_fiber::run(|| {
///     let parts: Vec<_> = (0..4).map(|i| rowlock_fiber::spawn(move || i * i)).collect();
///     parts.into_iter().map(|part| part.join().unwrap()).sum::<i32>()
/// });
/// assert_eq!(sum, 14);
/// ```
#[inline(always)]
#[track_caller]
pub fn spawn<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match Builder::new().spawn(function) {
        Ok(handle) => handle,
        Err(error) => failed(&error),
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "documented, as for threads")]
pub(crate) fn failed(error: &SpawnError) -> ! {
    panic!("{error}")
}

/// How a fiber is spawned.
#[derive(Clone, Debug, Default)]
#[must_use = "it spawns a fiber only when `spawn` is called"]
pub struct Builder {
    name: Option<Box<str>>,
    stack: Option<usize>,
    is_preemptible: Option<bool>,
}

impl Builder {
    /// The defaults of [`spawn`].
    #[inline(always)]
    pub fn new() -> Builder {
        Builder { name: None, stack: None, is_preemptible: None }
    }

    /// Sets the fiber's name in reports.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Sets the size of its stack in bytes. The default is
    /// [`Config::stack_size`](crate::Config::stack_size).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack = Some(bytes);
        self
    }

    /// Sets whether it may be interrupted anywhere when its running time is over, and not only at
    /// safepoints. The default is [`Config::preemptible`](crate::Config::preemptible). A
    /// preemptible fiber has thread-locals of its own, with the values that the previous fiber on
    /// its stack left there.
    pub fn preemptible(mut self, is_preemptible: bool) -> Builder {
        self.is_preemptible = Some(is_preemptible);
        self
    }

    /// Spawns the fiber.
    ///
    /// # Errors
    /// If there is no room for another fiber.
    ///
    /// # Panics
    /// If called outside a runtime.
    #[inline(always)]
    pub fn spawn<T: Send + 'static>(
        self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        // SAFETY: it borrows nothing, and may move to another kernel thread.
        unsafe { self.spawn_unchecked(function) }
    }

    /// Whether the fiber is preemptible in a runtime with this configuration.
    pub(crate) fn is_preemptible(&self, config: &Config) -> bool {
        config.deterministic.is_none() && self.is_preemptible.unwrap_or(config.preemptible)
    }

    #[inline(always)]
    pub(crate) fn extras(self) -> Option<Box<Extras>> {
        match (self.name, self.stack) {
            (None, None) => None,
            (name, stack) => Some(Box::new(Extras { name, stack, ..Extras::default() })),
        }
    }

    /// # Safety
    /// As for [`Worker::spawn`](crate::worker::Worker::spawn).
    #[inline(always)]
    pub(crate) unsafe fn spawn_unchecked<T>(self, function: impl FnOnce() -> T) -> Result<JoinHandle<T>, SpawnError> {
        let asked = self.is_preemptible;
        let extras = self.extras();
        // The boxed error makes the result small enough for registers; otherwise it would go
        // through memory on the fast path, too.
        let made = CurrentWorker::enter(|here| {
            // SAFETY: the caller's promise.
            let fiber = unsafe { here.spawn(extras, asked, function) }.map_err(Box::new)?;
            // SAFETY: as above, and it is the first handle.
            let handle = unsafe { JoinHandle::new(fiber, here.core_pointer()) };
            // Not before the handle exists: a fiber that unwinds from here, because its runtime
            // ends, must drop it.
            here.safepoint();
            Ok(handle)
        });
        made.map_err(|why: Box<SpawnError>| *why)
    }
}
