//! Runtimes whose time passes only when a test advances it: for tests of when fibers are
//! interrupted, woken or orphaned.
#![allow(dead_code, clippy::unwrap_used, reason = "not every test uses all, and one that cannot run has failed")]

use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Config, Runtime, ScriptedClock, ThreadControlBlocks};
use sys::futex::{self, Scope};
use sys::scheduling::{Policy, Thread, attributes};

/// A running time, and so the interval of ticks, also while a runtime ends.
pub(crate) const TURN: Duration = Duration::from_millis(1);

/// A runtime with one worker and its own clock, whose fibers may be interrupted anywhere.
pub(crate) struct Scripted {
    pub(crate) clock: ScriptedClock,
    runtime: Runtime,
}

impl Deref for Scripted {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// A runtime whose running times are a [`TURN`].
pub(crate) fn runtime(thread_control_blocks: ThreadControlBlocks, levels: u32, boost: Boost) -> Scripted {
    with(thread_control_blocks, FeedbackRules { levels, running_time: Span::from_nanos(TURN.as_nanos() as u64), boost })
}

pub(crate) fn with(thread_control_blocks: ThreadControlBlocks, rules: FeedbackRules) -> Scripted {
    let clock = ScriptedClock::new();
    let config =
        Config { rules, preemptible: true, thread_control_blocks, clock: Some(clock.clone()), ..Config::default() };
    Scripted { clock, runtime: Runtime::new(config) }
}

/// Whether the calling fiber is orphaned: its kernel thread has the lowest priority.
pub(crate) fn is_orphaned() -> bool {
    attributes(Thread::current()).unwrap().policy == Policy::Idle
}

/// Calls the C library's `sched_yield`, which the fiber library does not notice.
#[allow(unsafe_code)]
pub(crate) fn yield_unnoticed() {
    // SAFETY: it has this type.
    let function = unsafe {
        let found = libc::dlsym(libc::RTLD_NEXT, c"sched_yield".as_ptr());
        std::mem::transmute::<*mut std::ffi::c_void, Option<extern "C" fn() -> i32>>(found)
    };
    function.unwrap()();
}

/// A lock whose waiters call the kernel without the C library, so that the fiber library does not
/// notice.
#[derive(Default)]
pub(crate) struct KernelLock(AtomicU32);

/// The lock is locked.
pub(crate) struct KernelGuard<'a>(&'a AtomicU32);

impl KernelLock {
    pub(crate) fn try_lock(&self) -> Option<KernelGuard<'_>> {
        (self.0.swap(1, Acquire) == 0).then(|| KernelGuard(&self.0))
    }

    pub(crate) fn lock(&self) -> KernelGuard<'_> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            futex::wait(&self.0, 1, None, Scope::Process);
        }
    }
}

impl Drop for KernelGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
        futex::wake(self.0, 1, Scope::Process);
    }
}

/// Advances a clock by ten turns each time a thread of this process waits for a lock, until it is
/// over.
pub(crate) fn advance_at<T>(clock: &ScriptedClock, thread: Thread, lock: &T, over: &AtomicBool) {
    let mut stopped = None;
    while !over.load(Relaxed) {
        let stops = stops_at_futex(thread, (&raw const *lock).addr()..(&raw const *lock).addr() + size_of_val(lock));
        if stops.is_some() && stops != stopped {
            clock.advance(10 * TURN);
            stopped = stops;
        }
        std::thread::yield_now();
    }
}

/// Waits until a thread of this process waits at a futex.
pub(crate) fn await_futex(thread: Thread) {
    while stops_at_futex(thread, 0..usize::MAX).is_none() {
        std::thread::yield_now();
    }
}

/// If a thread of this process waits at a futex in this memory, how often it has stopped in the
/// kernel. The same number means the same wait.
fn stops_at_futex(thread: Thread, memory: Range<usize>) -> Option<u64> {
    let read = |name| std::fs::read_to_string(format!("/proc/self/task/{}/{name}", thread.number())).unwrap();
    let status = read("status");
    let stops = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    let call = read("syscall");
    let (number, rest) = call.split_once(' ')?;
    let futex = usize::from_str_radix(rest.split(' ').next()?.strip_prefix("0x")?, 16).ok()?;
    let is_there = number.parse() == Ok(libc::SYS_futex) && memory.contains(&futex);
    is_there.then(|| stops.trim().parse().unwrap())
}
