//! Thread control blocks: the memory at the thread pointer, which holds the C library's state of a
//! thread and all thread-local variables.
//!
//! Code that is interrupted anywhere, even inside `malloc`, can only continue on another kernel
//! thread if its thread state moves with it. So it has a block of its own, and the thread pointer
//! is switched together with its stack. Blocks are created by public interfaces alone: the C
//! library starts a thread, the *donor*, on given memory, and places the block at the upper end of
//! it. The donor then ends its kernel thread without the knowledge of the C library, which believes
//! that the thread still exists. So the block stays initialized and listed forever, and a library
//! that is loaded later has its static thread-local variables initialized there as well.
//!
//! Since a donor never ends for the C library, `__libc_single_threaded` stays false, so that
//! `malloc` really takes its locks. That is needed: code of several blocks may be inside `malloc`
//! even if there is only one kernel thread.
//!
//! A block has no kernel thread with its thread ID. While a block is in use, robust and
//! priority-inheriting mutexes do not work, since the kernel looks up the thread that owns them,
//! and `pthread_kill` finds no thread. `setuid` and similar functions make each thread handle a
//! signal and then check its block for the result; they may never return, as such a thread may have
//! used another block. A program whose main thread calls `pthread_exit` no longer ends by itself.
//! And the child of a `fork` has only the block that was in use.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod sanitizer;

use std::io;
use std::mem::{MaybeUninit, forget};
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use crate::reservation::{Reservation, page_size};
use crate::rseq;

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
    /// The C library does not store the thread ID at the address that the kernel clears.
    #[error(
        "this C library does not store the thread ID at the address that the kernel clears; this version of it is not supported"
    )]
    Number,
}

/// The first thread ID that is no kernel thread: there are at most 2^22 (`PID_MAX_LIMIT`). A futex
/// has 30 bits for a thread ID, and memory for so many blocks would be terabytes.
const FIRST_NUMBER: u32 = 1 << 24;

/// Stack space to prepare a block, in addition to the block and the needs of the C library.
const ROOM: usize = 32 << 10;

/// The layout that all blocks share.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The offset of the thread ID from the thread pointer, wrapping around.
    number: usize,
    /// The minimum number of bytes.
    needed: usize,
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
/// variables, on its memory, with all signals blocked; it must not panic. Its kernel thread has
/// ended when this returns. At least one page of the memory is used. Fails like [`check_support`],
/// or if no thread can be started or the memory is too small.
///
/// # Safety
/// The memory consists of whole pages that the caller owns and can write. It stays so as long as
/// the process lives, and the part from `stack_top` on is used only through the block; after
/// [`ThreadBlockError::Number`] that applies to all of it. `prepare` may be called with this
/// argument on another thread.
pub unsafe fn make(
    memory: Range<*mut u8>,
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
) -> Result<ThreadBlock, ThreadBlockError> {
    let Layout { number, needed } = layout()?;
    let given = memory.end.addr().saturating_sub(memory.start.addr());
    if given < needed {
        return Err(ThreadBlockError::Memory { given, needed });
    }
    // SAFETY: by the promise of the caller.
    unsafe { donate(memory, prepare, argument, Some(number)) }.map(|(block, _)| block)
}

/// The layout that all blocks share, measured on a first block.
fn layout() -> Result<Layout, ThreadBlockError> {
    static LAYOUT: OnceLock<Result<Layout, ThreadBlockError>> = OnceLock::new();
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
        first()
    })
}

/// Creates a first block, which is never used, and measures it.
fn first() -> Result<Layout, ThreadBlockError> {
    extern "C" fn nothing(_: *mut ()) {}
    // SAFETY: a query without preconditions.
    let least = usize::try_from(unsafe { libc::sysconf(libc::_SC_THREAD_STACK_MIN) }).unwrap_or(0);
    let mut told = least.max(ROOM).next_multiple_of(page_size());
    loop {
        // The C library refuses memory without room for the block, but accepts memory with almost
        // no room for a stack. So it is told of less memory than there is.
        let out_of_memory = |why: io::Error| ThreadBlockError::Start(why.raw_os_error().unwrap_or(libc::ENOMEM));
        let memory = Reservation::new(told + ROOM).map_err(out_of_memory)?;
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
            Ok((block, number)) => {
                forget(memory);
                // The needs of the C library besides the block are less than the minimum stack.
                let needed = (end - block.stack_top + ROOM).max(least).next_multiple_of(page_size());
                return Ok(Layout { number, needed });
            }
        }
    }
}

/// The input and output of a donor.
struct Donor {
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    /// The end of its memory.
    end: usize,
    /// The offset of its thread ID from its thread pointer, if known.
    number: Option<usize>,
    block: ThreadBlock,
    /// The first addresses at which its thread ID was found, and the number of all.
    found: [usize; 16],
    many: usize,
    /// Its thread ID, stored last.
    thread: AtomicI32,
}

/// Creates a block and returns the offset of its thread ID from its thread pointer.
///
/// # Safety
/// As for [`make`]. An error of `pthread_create` leaves the memory unchanged.
unsafe fn donate(
    memory: Range<*mut u8>,
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    number: Option<usize>,
) -> Result<(ThreadBlock, usize), ThreadBlockError> {
    let mut donor = Donor {
        prepare,
        argument,
        end: memory.end.addr(),
        number,
        block: ThreadBlock { thread_pointer: 0, stack_top: 0 },
        found: [0; 16],
        many: 0,
        thread: AtomicI32::new(0),
    };
    let donor = &raw mut donor;
    // SAFETY: the donor owns the memory, by the promise of the caller. Its input outlives it.
    unsafe { start(memory, donor)? };
    // SAFETY: the donor writes its thread ID last.
    let thread = unsafe { &(*donor).thread };
    while thread.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    while exists(thread.load(Relaxed)) {
        std::thread::yield_now();
    }
    // SAFETY: the writing thread has ended.
    let (block, found, many) = unsafe { ((*donor).block, (*donor).found, (*donor).many) };
    // SAFETY: the addresses are in the block, which no other code changes.
    let mut cleared = found.iter().take(many).filter(|&&address| unsafe { word(address).read_volatile() } == 0);
    let (Some(&address), None, true) = (cleared.next(), cleared.next(), many <= found.len()) else {
        return Err(ThreadBlockError::Number);
    };
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_NUMBER);
    // SAFETY: as above.
    unsafe { word(address).write_volatile(NEXT.fetch_add(1, Relaxed)) };
    // SAFETY: the block is not in use.
    unsafe { forget_cpu(block) };
    Ok((block, address.wrapping_sub(block.thread_pointer)))
}

/// Starts a donor on this memory.
///
/// # Safety
/// The memory is owned by the donor, and its input lives until it has ended.
unsafe fn start(memory: Range<*mut u8>, donor: *mut Donor) -> Result<(), ThreadBlockError> {
    let mut attributes = MaybeUninit::uninit();
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    let length = memory.end.addr() - memory.start.addr();
    // The donor inherits the blocked signals of its creator, and no handler of the program must run
    // there. But ticks must come on the creating thread: a lock that the C library waits for may be
    // held by code that a tick has interrupted. So the donor blocks ticks itself.
    // SAFETY: the first call with a value initializes it, and there is room for a thread handle.
    let result = unsafe {
        let result = libc::pthread_attr_init(attributes.as_mut_ptr());
        if result != 0 {
            return Err(ThreadBlockError::Start(result));
        }
        let mut result = libc::pthread_attr_setstack(attributes.as_mut_ptr(), memory.start.cast(), length);
        if result == 0 {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigdelset(all.as_mut_ptr(), libc::SIGURG);
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            result = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, donor.cast());
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        }
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result
    };
    if result == 0 { Ok(()) } else { Err(ThreadBlockError::Start(result)) }
}

/// The main function of a donor.
extern "C" fn run(donor: *mut libc::c_void) -> *mut libc::c_void {
    crate::tick::allow(libc::SIG_BLOCK);
    let donor = donor.cast::<Donor>();
    let local = MaybeUninit::<u128>::uninit();
    let stack_top = local.as_ptr().addr() & !15;
    let thread_pointer = thread_pointer();
    // SAFETY: the creating thread waits, and reads nothing until it knows the thread ID. The words
    // are in the stack and block of this thread.
    unsafe {
        ((*donor).prepare)((*donor).argument);
        (*donor).block = ThreadBlock { thread_pointer, stack_top };
        let thread = libc::gettid();
        let look_at = |address: usize| {
            if word(address).read_volatile().cast_signed() == thread {
                if let Some(found) = (*donor).found.get_mut((*donor).many) {
                    *found = address;
                }
                (*donor).many += 1;
            }
        };
        match (*donor).number {
            Some(number) => look_at(thread_pointer.wrapping_add(number)),
            None => (stack_top..(*donor).end & !3).step_by(4).for_each(look_at),
        }
        (*donor).thread.store(thread, Release);
    }
    loop {
        // SAFETY: the stack is no longer needed, and thread-local variables must persist.
        // `pthread_exit` or a return would inform the C library.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// The thread pointer of the calling thread.
#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register is only read. By the ABI the first word of a block is its address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// The thread pointer of the calling thread.
#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register is only read.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem)) };
    pointer
}

/// Blocks are not supported on this processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> usize {
    0
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

/// Makes the C library ask the kernel for the CPU while this block is in use, since the kernel no
/// longer updates the CPU number in the block.
///
/// # Safety
/// The block is not in use.
unsafe fn forget_cpu(block: ThreadBlock) {
    let Some(offset) = rseq::offset() else { return };
    // RSEQ_CPU_ID_REGISTRATION_FAILED. `cpu_id` is the second word of the registered area.
    const FAILED: i32 = -2;
    // SAFETY: the offset leads into the block.
    unsafe { word(block.thread_pointer.wrapping_add_signed(offset) + 4).write_volatile(FAILED.cast_unsigned()) };
}

#[cfg(test)]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
