//! Thread control blocks: the memory at the thread pointer, which holds the C library's state of a
//! thread and all thread-local variables.
//!
//! Code that is interrupted anywhere, even inside `malloc`, can only continue on another kernel
//! thread if its thread state moves with it. So it has a block of its own, and the thread pointer
//! is switched together with its stack.
//!
//! The first blocks are created by public interfaces alone: the C library starts a thread, the
//! *donor* (`donor`), on given memory, and places the block at the upper end of it. The donor then
//! ends its kernel thread without the knowledge of the C library, which believes that the thread
//! still exists. So the block stays initialized and listed forever, and a library that is loaded
//! later has its static thread-local variables initialized there as well. That takes some 15 to 100
//! us. So further blocks are copies (`copy`) of the first, made in 2 us without a kernel thread,
//! and listed like them. If the C library is not as a copy expects, all blocks have donors.
//!
//! Since a donor never ends for the C library, `__libc_single_threaded` stays false, so that
//! `malloc` really takes its locks. That is needed: code of several blocks may be inside `malloc`
//! even if there is only one kernel thread.
//!
//! A block has no kernel thread with its thread ID. While a block is in use, priority-inheriting
//! mutexes do not work, since the kernel looks up the thread that owns them; nor does it release
//! robust mutexes when the process ends. `pthread_kill`, `pthread_getattr_np` and others find no
//! thread. `setuid` and similar functions need some help (see the module `user_change`). A program
//! whose main thread calls `pthread_exit` no longer ends by itself. And the child of a `fork` has
//! only the block that was in use.

mod copy;
mod donor;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod sanitizer;
mod user_change;

use std::io;
use std::mem::forget;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use self::donor::{Donation, Identity, donate, nothing};
use crate::reservation::{Reservation, page_size};

/// A thread control block without a kernel thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBlock {
    /// The thread pointer while this block is in use.
    pub thread_pointer: usize,
    /// The upper end of the unused memory below, a multiple of 16. A stack may begin here.
    pub stack_top: usize,
}

/// The reason why no block can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadBlockError {
    /// Another C library may use the memory of a thread after the thread has ended.
    #[error(
        "thread control blocks are made with the GNU C library alone; build the program for a target that ends in -gnu"
    )]
    CLibrary,
    /// There is no code for the thread pointer of this processor.
    #[error("thread control blocks are made on x86-64 and aarch64 alone, and this is another processor")]
    Processor,
    /// The sanitizer keeps the state of threads by their thread pointers.
    #[error(
        "the program is built with the {0} sanitizer, which does not know of thread control blocks without a thread; build it without"
    )]
    Sanitizer(&'static str),
    /// The processor or the kernel does not let a program change its thread pointer.
    #[error(
        "a program cannot change its thread pointer here: that takes Linux 5.9 and a processor with FSGSBASE, not turned off by `nofsgsbase`"
    )]
    ThreadPointer,
    /// There is less memory than [`minimum_stack`].
    #[error(
        "a thread control block and the stack to prepare it take {needed} bytes, and there are {given}; give it more memory"
    )]
    Memory {
        /// The number of bytes given.
        given: usize,
        /// The number of bytes needed.
        needed: usize,
    },
    /// The error number of `pthread_create`.
    #[error("no thread could be started to create a thread control block: {}", io::Error::from_raw_os_error(*.0))]
    Start(i32),
    /// The C library does not store the thread ID as expected.
    #[error(
        "this version of the C library is not supported: the thread ID is not where it is expected after the end of a thread"
    )]
    Number,
    /// There is no memory for a copy's table of thread-local variables.
    #[error("no memory is left for a thread control block's table of thread-local variables")]
    Table,
}

impl ThreadBlockError {
    /// Whether the memory that was given to [`make`] must stay as it is.
    pub fn has_lost_memory(&self) -> bool {
        matches!(self, ThreadBlockError::Number | ThreadBlockError::Table)
    }

    fn out_of_memory(why: io::Error) -> ThreadBlockError {
        ThreadBlockError::Start(why.raw_os_error().unwrap_or(libc::ENOMEM))
    }
}

/// The first thread ID that is no kernel thread: there are at most 2^22 (`PID_MAX_LIMIT`). A futex
/// has 30 bits for a thread ID, and memory for so many blocks would be terabytes.
const FIRST_NUMBER: u32 = 1 << 24;

/// Stack space to prepare a block, in addition to the block and the needs of the C library.
const ROOM: usize = 32 << 10;

/// The layout that all blocks share.
#[derive(Clone, Copy, Debug)]
struct Layout {
    identity: Identity,
    /// The minimum number of bytes.
    needed: usize,
}

/// Where a thread's list of robust mutexes is, which the kernel knows, as an offset from its
/// [`pthread_self`](libc::pthread_self).
pub(crate) fn robust_list() -> Option<usize> {
    match LAYOUT.get() {
        Some(Ok(layout)) => layout.identity.robust_list,
        // As there are no blocks, the caller uses that of its kernel thread.
        _ => donor::robust_list(),
    }
}

/// Checks whether blocks can be created here. Returns the reason if they cannot.
pub fn check_support() -> Result<(), ThreadBlockError> {
    layout().map(|_| ())
}

/// The minimum number of bytes that [`make`] needs: the block, and a stack to prepare it on. It
/// depends on the thread-local variables of the program.
pub fn minimum_stack() -> Result<usize, ThreadBlockError> {
    layout().map(|layout| layout.needed)
}

/// Creates a block at the upper end of this memory. `prepare(argument)` runs with its thread-local
/// variables, with all signals blocked; it must not panic. It runs on this thread's stack, or on
/// the memory if the block has a donor, whose kernel thread has ended when this returns. At least
/// one page of the memory is used, but no whole page below `stack_top`, unless memory is locked.
/// Fails like [`check_support`], or if no thread can be started or the memory is too small.
///
/// # Safety
/// The memory consists of whole pages that the caller owns and can write. It stays so as long as
/// the process lives, and the part from `stack_top` on is used only through the block; if the error
/// [has lost memory](ThreadBlockError::has_lost_memory), that applies to all of it. `prepare` may
/// be called with this argument on another thread.
pub unsafe fn make(
    memory: Range<*mut u8>,
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
) -> Result<ThreadBlock, ThreadBlockError> {
    let layout = layout()?;
    let needed = layout.needed;
    let given = memory.end.addr().saturating_sub(memory.start.addr());
    if given < needed {
        return Err(ThreadBlockError::Memory { given, needed });
    }
    // SAFETY: by the promise of the caller. The donor's stack is no longer needed.
    unsafe {
        if let Some(model) = copy::model(&layout) {
            return model.make(memory, prepare, argument);
        }
        let block = donate(memory.clone(), prepare, argument, Some(layout.identity))?.block;
        let unused = block.stack_top / page_size() * page_size() - memory.start.addr();
        libc::madvise(memory.start.cast(), unused, libc::MADV_DONTNEED);
        Ok(block)
    }
}

static LAYOUT: OnceLock<Result<Layout, ThreadBlockError>> = OnceLock::new();

/// The layout that all blocks share, measured on a first block.
fn layout() -> Result<Layout, ThreadBlockError> {
    *LAYOUT.get_or_init(|| {
        if cfg!(not(target_env = "gnu")) {
            return Err(ThreadBlockError::CLibrary);
        }
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
            return Err(ThreadBlockError::Processor);
        }
        if cfg!(rowlock_tsan) {
            return Err(ThreadBlockError::Sanitizer("thread"));
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(name) = sanitizer::name() {
            return Err(ThreadBlockError::Sanitizer(name));
        }
        // SAFETY: a query without preconditions. It checks HWCAP2_FSGSBASE; on aarch64 every
        // program may change the thread pointer.
        if cfg!(target_arch = "x86_64") && unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 == 0 {
            return Err(ThreadBlockError::ThreadPointer);
        }
        let (layout, donation) = first()?;
        copy::learn(&layout, Some(donation));
        user_change::prepare();
        Ok(layout)
    })
}

/// Creates a first block, which is never used, and measures it.
fn first() -> Result<(Layout, Donation), ThreadBlockError> {
    // SAFETY: a query without preconditions.
    let least = usize::try_from(unsafe { libc::sysconf(libc::_SC_THREAD_STACK_MIN) }).unwrap_or(0);
    let mut told = least.max(ROOM).next_multiple_of(page_size());
    loop {
        // The C library refuses memory without room for the block, but accepts memory with almost
        // no room for a stack. So it is told of less memory than there is.
        let memory = Reservation::new(told + ROOM).map_err(ThreadBlockError::out_of_memory)?;
        let base = memory.base().as_ptr();
        let memory_of_stack = base.wrapping_add(memory.length() - told)..base.wrapping_add(memory.length());
        let end = memory_of_stack.end.addr();
        // SAFETY: no other code knows of the memory, which is leaked below unless it is unused.
        match unsafe { donate(memory_of_stack, nothing, null_mut(), None) } {
            Err(ThreadBlockError::Start(libc::EINVAL)) if told < 1 << 30 => told *= 2,
            Err(why @ ThreadBlockError::Start(_)) => return Err(why),
            Err(why) => {
                forget(memory);
                return Err(why);
            }
            Ok(donation) => {
                forget(memory);
                // The needs of the C library besides the block are less than the minimum stack.
                let needed = (end - donation.block.stack_top + ROOM).max(least).next_multiple_of(page_size());
                return Ok((Layout { identity: donation.identity, needed }, donation));
            }
        }
    }
}

/// The thread pointer of the calling thread.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register is only read. By the ABI the first word of a block is its address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// The thread pointer of the calling thread.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register is only read.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem)) };
    pointer
}

/// Blocks are not supported on this processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
pub(crate) fn thread_pointer() -> usize {
    0
}

/// Calls a function with another thread pointer.
///
/// # Safety
/// It is that of a block that is not in use. Handlers of signals that run meanwhile allow for it.
/// `call` may be called with this argument.
#[cfg(target_arch = "x86_64")]
unsafe fn call_within(other: usize, call: unsafe extern "C" fn(*mut ()), argument: *mut ()) {
    // SAFETY: the thread pointer only differs during the call, which preserves the named registers.
    unsafe {
        std::arch::asm!(
            "wrfsbase r12",
            "call {call}",
            "wrfsbase r13",
            call = in(reg) call,
            in("r12") other,
            in("r13") thread_pointer(),
            in("rdi") argument,
            clobber_abi("C"),
        );
    }
}

/// Calls a function with another thread pointer.
///
/// # Safety
/// It is that of a block that is not in use. Handlers of signals that run meanwhile allow for it.
/// `call` may be called with this argument.
#[cfg(target_arch = "aarch64")]
unsafe fn call_within(other: usize, call: unsafe extern "C" fn(*mut ()), argument: *mut ()) {
    // SAFETY: the thread pointer only differs during the call, which preserves the named registers.
    unsafe {
        std::arch::asm!(
            "msr tpidr_el0, x20",
            "blr {call}",
            "msr tpidr_el0, x21",
            call = in(reg) call,
            in("x20") other,
            in("x21") thread_pointer(),
            in("x0") argument,
            clobber_abi("C"),
        );
    }
}

/// Blocks are not supported on this processor.
///
/// # Safety
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn call_within(_: usize, _: unsafe extern "C" fn(*mut ()), _: *mut ()) {}

/// A thread ID that no kernel thread and no other block has.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_NUMBER);
    NEXT.fetch_add(1, Relaxed)
}

/// The word at this address.
fn word(address: usize) -> *mut u32 {
    with_exposed_provenance_mut(address)
}

/// Whether this process has such a kernel thread, even a dying one.
fn exists(thread: libc::pid_t) -> bool {
    // SAFETY: signal 0 is not sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) mod tests;
