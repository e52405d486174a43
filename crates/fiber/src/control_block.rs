//! Thread control blocks of fibers, and how a worker switches between them.
//!
//! A [fiber](crate::fiber_thread) has what a kernel thread has. To all code that runs there it is a
//! thread: code finds its thread-local variables by the thread control block. There are two ways to
//! provide one:
//!
//! * A thread control block alone. The worker's kernel thread switches from one block to the next
//!   by changing the thread pointer.
//! * A [kernel thread](thread), on systems on which a block cannot exist without one. It waits in
//!   the kernel for its turn. Of a worker's kernel threads, its own and those of its fibers,
//!   exactly one runs at a time.

pub(crate) mod thread;

use self::thread::KernelThread;
use crate::error::PreemptionError;

/// How each fiber gets a thread control block, and with it thread-locals of its own; see
/// [`Config::thread_control_blocks`](crate::Config::thread_control_blocks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadControlBlocks {
    /// By the thread pointer if the system supports that, otherwise by kernel threads.
    #[default]
    Auto,
    /// A thread control block alone for each fiber. The fibers of a worker share its kernel thread,
    /// and a switch changes the thread pointer, which takes nanoseconds. This needs the GNU C
    /// library, and a processor and a kernel that let programs change the thread pointer.
    ThreadPointer,
    /// A kernel thread for each fiber, one of which runs at a time for each worker. The fiber is
    /// that thread, from its start to its end, so all that the kernel and the C library keep for a
    /// thread belongs to it: see [the table](crate::soundness#what-a-thread-may-assume). This needs
    /// nothing but Linux. To spawn and join a fiber takes some 30 us, twice as long as with a
    /// thread, and a switch takes microseconds. Each fiber that has started has a kernel thread and
    /// a timer, of which a process may have some 4000. The thread inherits the CPUs, the nice value
    /// and the policy that its worker's thread had before its first fiber. With a real-time policy
    /// on a single CPU, what other threads send does not interrupt a fiber that reaches no
    /// safepoint, because the worker's own thread, which is the one that they know, never runs
    /// there.
    KernelThreads,
}

/// The mechanism that a [`ThreadControlBlocks`] resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControlBlockKind {
    ThreadPointer,
    KernelThread,
}

impl ThreadControlBlocks {
    /// The kind that this system supports.
    pub(crate) fn kind(self) -> Result<ControlBlockKind, PreemptionError> {
        use sys::thread_block::check_support;
        match (self, check_support()) {
            (ThreadControlBlocks::ThreadPointer, Err(why)) => Err(why.into()),
            (ThreadControlBlocks::KernelThreads, _) | (ThreadControlBlocks::Auto, Err(_)) => {
                Ok(ControlBlockKind::KernelThread)
            }
            (ThreadControlBlocks::Auto | ThreadControlBlocks::ThreadPointer, Ok(())) => {
                Ok(ControlBlockKind::ThreadPointer)
            }
        }
    }
}

/// A thread control block; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlBlock {
    /// A block alone, identified by the thread pointer.
    ThreadPointer(usize),
    KernelThread(&'static KernelThread),
}

impl Default for ControlBlock {
    fn default() -> ControlBlock {
        ControlBlock::NONE
    }
}

impl ControlBlock {
    /// No block.
    pub(crate) const NONE: ControlBlock = ControlBlock::ThreadPointer(0);

    /// The thread pointer of a block alone, otherwise 0.
    #[inline(always)]
    pub(crate) fn thread_pointer(self) -> usize {
        match self {
            ControlBlock::ThreadPointer(pointer) => pointer,
            ControlBlock::KernelThread(_) => 0,
        }
    }

    pub(crate) fn thread(self) -> Option<&'static KernelThread> {
        match self {
            ControlBlock::ThreadPointer(_) => None,
            ControlBlock::KernelThread(thread) => Some(thread),
        }
    }
}
