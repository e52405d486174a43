//! Spawning fibers.

use crate::current_worker::CurrentWorker;
use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::record::{Extras, Tier};

/// Spawns a fiber, which runs the function when its turn comes. [`JoinHandle::join`] returns its
/// result.
///
/// The fiber is a thread to all other code: its thread-locals are its own, and not those of the
/// caller (see [`soundness`](crate::soundness)). In a runtime with several workers it may start on
/// another kernel thread, and continue on yet another one: see [`pin`](crate::pin()).
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
    pub(crate) tier: Option<Tier>,
}

impl Builder {
    /// The defaults of [`spawn`].
    #[inline(always)]
    pub fn new() -> Builder {
        Builder { name: None, stack: None, tier: None }
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
    /// safepoints. This decides when it is switched, and nothing else. The default is
    /// [`Config::preemptible`](crate::Config::preemptible).
    pub fn preemptible(mut self, is_preemptible: bool) -> Builder {
        self.tier = Some(if is_preemptible { Tier::Preemptible } else { Tier::Cooperative });
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
        unsafe { self.spawn_unchecked(function, |here| here.safepoint()) }
    }

    /// Spawns a fiber that shares the thread-locals of its worker with all other fibers that are
    /// spawned so: a *sharing* fiber. A switch between two of them does not change the thread
    /// control block, which saves some ten nanoseconds. A sharing fiber gives up its CPU only in
    /// calls of this crate that may let other fibers run (its *waits*), and stays with its worker
    /// once it has started. If fibers have [kernel
    /// threads](crate::ThreadControlBlocks::KernelThreads), it shares nothing.
    ///
    /// # Errors
    /// As for [`spawn`](Builder::spawn).
    ///
    /// # Panics
    /// If called outside a runtime.
    ///
    /// # Safety
    /// To all code of other crates, sharing fibers of a worker are one thread, in whose calls
    /// others of its calls begin and do not end. Code that was written for threads may rely on the
    /// opposite. So for each wait of the fiber, including those in destructors while it unwinds,
    /// and those in which it may be cancelled, the following holds:
    /// * No thread-local is borrowed, and none is being initialized or destroyed.
    /// * No function of another crate is on the stack that keeps something in a thread-local or in
    ///   `errno`, and expects to find it there when the called function returns: an entered runtime
    ///   or span, a scoped thread-local, a pinned epoch, a lock that knows its owner by its thread.
    /// * No reference to a thread-local, and no value that must not leave its thread, is given to
    ///   code that outlives the runtime.
    ///
    /// A panic that is stopped by such a wait counts as a panic of all sharing fibers of the
    /// worker: `std::thread::panicking` is true for them, and locks may be poisoned without need.
    ///
    /// ```
    /// let sum = rowlock_fiber::run(|| {
    ///     // SAFETY: the function waits nowhere.
    ///     let fiber = unsafe { rowlock_fiber::Builder::new().spawn_sharing(|| 6 * 7) };
    ///     fiber.unwrap().join().unwrap()
    /// });
    /// assert_eq!(sum, 42);
    /// ```
    #[inline(always)]
    pub unsafe fn spawn_sharing<T: Send + 'static>(
        mut self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        self.tier = Some(Tier::Sharing);
        // SAFETY: it borrows nothing, and may move to another kernel thread; the rest is the
        // caller's promise.
        unsafe { self.spawn_unchecked(function, |here| here.safepoint()) }
    }

    #[inline(always)]
    pub(crate) fn extras(self) -> Option<Box<Extras>> {
        let Builder { name, stack, .. } = self;
        (name.is_some() || stack.is_some()).then(|| Box::new(Extras { name, stack }))
    }

    /// # Safety
    /// As for [`Worker::spawn`](crate::worker::Worker::spawn).
    #[inline(always)]
    pub(crate) unsafe fn spawn_unchecked<T>(
        self,
        function: impl FnOnce() -> T,
        then: impl FnOnce(CurrentWorker),
    ) -> Result<JoinHandle<T>, SpawnError> {
        let tier = self.tier;
        let extras = self.extras();
        // The boxed error makes the result small enough for registers; otherwise it would go
        // through memory on the fast path, too.
        let made = CurrentWorker::enter(|here| {
            // SAFETY: the caller's promise.
            let fiber = unsafe { here.spawn(extras, tier, function) }.map_err(Box::new)?;
            // SAFETY: as above, and it is the first handle.
            let handle = unsafe { JoinHandle::new(fiber, here.core_pointer) };
            // Not before the handle exists: a fiber that unwinds from here, because its runtime
            // ends, must drop it.
            then(here);
            Ok(handle)
        });
        made.map_err(|why: Box<SpawnError>| *why)
    }
}
