//! New fibers.

use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::record::Extras;
use crate::runtime::Config;
use crate::worker::Here;

/// A new fiber, which runs the function when its turn comes; its result is for [`JoinHandle::join`].
///
/// The function may begin on another kernel thread where the runtime has several; from then on it stays there.
///
/// # Panics
/// Where no runtime runs, and when there is no room for another fiber; [`Builder::spawn`] returns an error then.
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
#[allow(clippy::panic, reason = "it is what is documented, as with threads")]
pub(crate) fn failed(error: &SpawnError) -> ! {
    panic!("{error}")
}

/// How a fiber is made.
#[derive(Clone, Debug, Default)]
#[must_use = "it makes a fiber when `spawn` is called"]
pub struct Builder {
    name: Option<Box<str>>,
    stack: Option<usize>,
    is_preemptible: Option<bool>,
}

impl Builder {
    /// As [`spawn`] does.
    #[inline(always)]
    pub fn new() -> Builder {
        Builder { name: None, stack: None, is_preemptible: None }
    }

    /// What it is called in reports.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// How large its stack is, in bytes; else [`Config::stack_size`](crate::Config::stack_size).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack = Some(bytes);
        self
    }

    /// Whether it may be interrupted anywhere when its running time is over, and not only at points; else as
    /// [`Config::preemptible`](crate::Config::preemptible) says. It has thread-locals of its own then, which it has from the one before it that had its stack.
    pub fn preemptible(mut self, is_preemptible: bool) -> Builder {
        self.is_preemptible = Some(is_preemptible);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// When there is no room for another fiber.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[inline(always)]
    pub fn spawn<T: Send + 'static>(
        self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        // SAFETY: it borrows nothing, and may go to another kernel thread.
        unsafe { self.spawn_unchecked(function) }
    }

    /// Whether it may be interrupted anywhere, in a runtime that was made so.
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
    /// As with [`Worker::spawn`](crate::worker::Worker::spawn).
    #[inline(always)]
    pub(crate) unsafe fn spawn_unchecked<T>(self, function: impl FnOnce() -> T) -> Result<JoinHandle<T>, SpawnError> {
        let asked = self.is_preemptible;
        let extras = self.extras();
        // What comes of it is small enough for registers: else it went through memory in the way of the others, too.
        let made = Here::enter(|here| {
            // SAFETY: the caller's promise.
            let fiber = unsafe { here.spawn(extras, asked, function) }.map_err(Box::new)?;
            // SAFETY: as above, and the handle is the first.
            let handle = unsafe { JoinHandle::new(fiber, here.core_pointer()) };
            // Not before the handle is there: whoever unwinds from here, as its runtime ends, is to drop it.
            here.safepoint();
            Ok(handle)
        });
        made.map_err(|why: Box<SpawnError>| *why)
    }
}
