//! Pinning: a fiber stays on its kernel thread.

use std::marker::PhantomData;

use crate::current_worker::CurrentWorker;
use crate::worker::Worker;

/// Keeps the calling fiber on its kernel thread until the guard is dropped. Fibers of a runtime
/// with several workers otherwise continue on any of them.
///
/// Nearly all that belongs to a thread goes along with a fiber. This is for what the kernel keeps
/// for its own threads: CPU affinity, scheduling policies, namespaces, credentials of one thread,
/// tracing, and all that is found by the number of the thread (`gettid`). A pinned fiber may still
/// be interrupted. Other fibers run on the same kernel thread then, and while it waits, so undo
/// what you change for the thread before that.
///
/// It does not help with mutexes of the C library that are robust or inherit priority: use them in
/// the first fiber, in [`blocking`](crate::blocking()), or let each fiber have a [kernel
/// thread](crate::ThreadControlBlocks::KernelThreads). [The
/// table](crate::soundness#what-a-thread-may-assume) has all that belongs to a thread.
///
/// Guards can be nested. On a thread that runs no fibers the guard does nothing.
///
/// ```
/// rowlock_fiber::run(|| {
///     let _here = rowlock_fiber::pin();
///     let thread = rustix::thread::gettid();
///     rowlock_fiber::yield_now();
///     assert_eq!(rustix::thread::gettid(), thread);
/// });
/// ```
pub fn pin() -> Pin {
    count(1);
    Pin { on_this_fiber: PhantomData }
}

/// Keeps a fiber on its kernel thread; see [`pin`].
#[derive(Debug)]
#[must_use = "the fiber is pinned only until the guard is dropped"]
pub struct Pin {
    on_this_fiber: PhantomData<*const ()>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        count(-1);
    }
}

fn count(more: i32) {
    CurrentWorker::visit(|here| {
        if let Some(me) = here.as_deref().and_then(Worker::running) {
            me.thread().pins.set(me.thread().pins.get().saturating_add_signed(more));
        }
    });
}
