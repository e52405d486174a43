//! Thread control blocks: what a thread pointer leads to, which is a thread's own memory in the C library and all thread-local variables.
//!
//! Code that is interrupted anywhere, in the midst of `malloc` too, can go on later on another kernel thread only if what it knows of "its thread" goes with it.
//! So it has a block of its own, and the thread pointer is changed along with its stack. Blocks are made by public interfaces alone: the C library starts a
//! thread, the *donor*, on memory that it is given, and puts the block at the upper end of that. The donor then ends its kernel thread behind the C
//! library's back. That one goes on believing that the thread is there, so the block stays initialised and listed for ever: a library that is loaded later has
//! its static thread-local variables initialised there as well.
//!
//! Since a donor never ends for the C library, `__libc_single_threaded` stays false, so that `malloc` really locks. That is needed: the code of several blocks
//! may be in the midst of `malloc` when there is but one kernel thread.
//!
//! What a block does not have: a kernel thread of the number that it bears. Mutexes that are robust or inherit priority cannot be used where a block is in
//! force, since the kernel looks for the thread that owns them, and `pthread_kill` finds nobody. `setuid` and its kin, which have each thread handle a signal and then ask its block whether it
//! has, may never return, as such a thread may have been in another block. A program whose main thread leaves by `pthread_exit` does not end
//! by itself any more. And the child of a `fork` has only the block in force there.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sanitizer;

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, forget};
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use crate::reservation::{Reservation, page_size};

/// A thread control block that no kernel thread has by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBlock {
    /// What the thread pointer is where this block is in force.
    pub thread_pointer: usize,
    /// The upper end of the memory below that nobody uses any more, a multiple of 16: a stack may begin here.
    pub stack_top: usize,
}

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadBlockError {
    /// Another C library may use a thread's memory when the thread has ended.
    #[error(
        "thread control blocks are made with the GNU C library alone; build the program for a target that ends in -gnu"
    )]
    CLibrary,
    /// There is no code for its thread pointer.
    #[error("thread control blocks are made on x86-64 and aarch64 alone, and this is another processor")]
    Processor,
    /// It keeps threads' states by their thread pointers.
    #[error(
        "the program is built with the {0} sanitizer, which does not know of thread control blocks without a thread; build it without"
    )]
    Sanitizer(&'static str),
    /// The processor lacks the instruction that changes the thread pointer, or the kernel does not let programs use it.
    #[error(
        "a program cannot change its thread pointer here: that takes Linux 5.9 and a processor with FSGSBASE, not turned off by `nofsgsbase`"
    )]
    ThreadPointer,
    /// There is less than [`minimum_stack`] says.
    #[error(
        "a thread control block and the stack to prepare it take {needed} bytes, and there are {given}; give it more memory"
    )]
    Memory {
        /// How many bytes there were.
        given: usize,
        /// How many it takes.
        needed: usize,
    },
    /// An error of `pthread_create`, by its number.
    #[error("no thread could be started to make a thread control block: {}", io::Error::from_raw_os_error(*.0))]
    Start(i32),
    /// The C library keeps the number somewhere else, or in another way.
    #[error(
        "this C library does not keep a thread's number where the kernel clears it; this version of it is not supported"
    )]
    Number,
}

/// The first number that is no kernel thread's: there are at most 2^22 (`PID_MAX_LIMIT`). A futex has 30 bits for a thread, and memory for so many blocks would
/// be terabytes.
const FIRST_NUMBER: u32 = 1 << 24;

/// How much of a stack it takes to prepare a block, besides the block and what the C library needs.
const ROOM: usize = 32 << 10;

/// What blocks have in common.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// What is to be added to a thread pointer, wrapping around, to get the address of the thread's number.
    number: usize,
    /// How many bytes there must be.
    needed: usize,
}

/// Whether blocks can be made here, and if not, why.
///
/// # Errors
/// The reason. It does not change while the process lives.
pub fn check_support() -> Result<(), ThreadBlockError> {
    layout().map(|_| ())
}

/// How many bytes of memory [`make`] takes at least: the block, and a stack to prepare it on. That goes with the thread-local variables of the program.
///
/// # Errors
/// As [`check_support`].
pub fn minimum_stack() -> Result<usize, ThreadBlockError> {
    layout().map(|layout| layout.needed)
}

/// Makes a block at the upper end of this memory. `prepare(argument)` runs with its thread-local variables in force, on its memory, with all signals blocked; it
/// must not panic. Its kernel thread has ended when this returns. One page and more of the memory are touched.
///
/// # Errors
/// As [`check_support`]; and where no thread can be started, or the memory is too little.
///
/// # Safety
/// The memory is whole pages, the caller's, and writable. It stays so for as long as the process lives, and from `stack_top` on nobody uses it but through the block;
/// with [`ThreadBlockError::Number`] that is so for all of it. `prepare` may be called with this argument on another thread.
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
    // SAFETY: by the caller's promise.
    unsafe { donate(memory, prepare, argument, Some(number)) }.map(|(block, _)| block)
}

/// What blocks have in common, from a first one.
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
        // HWCAP2_FSGSBASE. On aarch64 every program may change it.
        // SAFETY: a question.
        if cfg!(target_arch = "x86_64") && unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 == 0 {
            return Err(ThreadBlockError::ThreadPointer);
        }
        first()
    })
}

/// Makes a first block, which nobody gets, and measures it.
fn first() -> Result<Layout, ThreadBlockError> {
    unsafe extern "C" fn nothing(_: *mut ()) {}
    // SAFETY: a question.
    let least = usize::try_from(unsafe { libc::sysconf(libc::_SC_THREAD_STACK_MIN) }).unwrap_or(0);
    let mut told = least.max(ROOM).next_multiple_of(page_size());
    loop {
        // The C library refuses what has no room for the block, but takes what has next to none for a stack. So it is told of less than there is.
        let out_of_memory = |why: io::Error| ThreadBlockError::Start(why.raw_os_error().unwrap_or(libc::ENOMEM));
        let memory = Reservation::new(told + ROOM).map_err(out_of_memory)?;
        let base = memory.base().as_ptr();
        let memory_of_stack = base.wrapping_add(memory.length() - told)..base.wrapping_add(memory.length());
        let end = memory_of_stack.end.addr();
        // SAFETY: nobody else knows of the memory, which is given up below where nobody uses it.
        match unsafe { donate(memory_of_stack, nothing, null_mut(), None) } {
            Err(ThreadBlockError::Start(libc::EINVAL)) if told < 1 << 30 => told *= 2,
            Err(why @ ThreadBlockError::Start(_)) => return Err(why),
            Err(why) => {
                forget(memory);
                return Err(why);
            }
            Ok((block, number)) => {
                forget(memory);
                // What the C library needs besides the block is less than the least stack.
                let needed = (end - block.stack_top + ROOM).max(least).next_multiple_of(page_size());
                return Ok(Layout { number, needed });
            }
        }
    }
}

/// What a donor is given and leaves behind.
struct Donor {
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    /// The end of its memory.
    end: usize,
    /// Where its number is, from its thread pointer, if that is known.
    number: Option<usize>,
    block: ThreadBlock,
    /// Where its number was found, and how often, which may be more.
    found: [usize; 16],
    many: usize,
    /// Its number, once all else is written.
    thread: AtomicI32,
}

/// Makes a block and tells where its number is, from its thread pointer.
///
/// # Safety
/// As [`make`]. An error of `pthread_create` leaves the memory as it was.
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
    // SAFETY: the memory is the donor's by the caller's promise, and what the donor is given stays until it has ended.
    unsafe { start(memory, donor)? };
    // SAFETY: the donor writes its number last.
    let thread = unsafe { &(*donor).thread };
    while thread.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    while exists(thread.load(Relaxed)) {
        std::thread::yield_now();
    }
    // SAFETY: who wrote to it is gone.
    let (block, found, many) = unsafe { ((*donor).block, (*donor).found, (*donor).many) };
    // SAFETY: they lie in the block, which nobody changes.
    let mut cleared = found.iter().take(many).filter(|&&address| unsafe { word(address).read_volatile() } == 0);
    let (Some(&address), None, true) = (cleared.next(), cleared.next(), many <= found.len()) else {
        return Err(ThreadBlockError::Number);
    };
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_NUMBER);
    // SAFETY: as above.
    unsafe { word(address).write_volatile(NEXT.fetch_add(1, Relaxed)) };
    // SAFETY: the block is in force nowhere.
    unsafe { forget_cpu(block) };
    Ok((block, address.wrapping_sub(block.thread_pointer)))
}

/// Starts a donor on this memory.
///
/// # Safety
/// The memory is the donor's, and what it is given stays until it has ended.
unsafe fn start(memory: Range<*mut u8>, donor: *mut Donor) -> Result<(), ThreadBlockError> {
    let mut attributes = MaybeUninit::uninit();
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    let length = memory.end.addr() - memory.start.addr();
    // The donor has the signals blocked that its maker has, and no handler of the program's shall run there. But ticks must come, and the donor blocks these itself:
    // what the C library waits for meanwhile may be had by code that a tick has interrupted.
    // SAFETY: what is uninitialised is initialised by the first call that gets it, and there is room for a thread's name.
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

/// What a donor does.
extern "C" fn run(donor: *mut libc::c_void) -> *mut libc::c_void {
    crate::tick::allow(libc::SIG_BLOCK);
    let donor = donor.cast::<Donor>();
    let local = MaybeUninit::<u128>::uninit();
    let stack_top = local.as_ptr().addr() & !15;
    let thread_pointer = thread_pointer();
    // SAFETY: the maker waits, and reads nothing until it knows the number. The words lie in this thread's stack and block.
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
        // Not `pthread_exit`, nor returning: the C library shall not know.
        // SAFETY: nothing of the stack is needed any more, and thread-local variables are meant to stay.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// The calling thread's.
#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer;
    // The first word of a block is its own address, by the processor's ABI.
    // SAFETY: it is read.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// The calling thread's.
#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: it is read.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem)) };
    pointer
}

/// Not where blocks are made.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> usize {
    0
}

/// The word at this address.
fn word(address: usize) -> *mut u32 {
    with_exposed_provenance_mut(address)
}

/// Whether there is such a kernel thread in this process, be it a dying one.
fn exists(thread: libc::pid_t) -> bool {
    // SAFETY: signal 0 is none, and is not sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// What the dynamic linker knows by this name; null if that is nothing.
fn symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the call has no preconditions; the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Has the C library ask the kernel what CPU a thread runs on where this block is in force, since no kernel keeps the block's number of it up to date any more.
///
/// # Safety
/// The block is in force nowhere.
unsafe fn forget_cpu(block: ThreadBlock) {
    let size = symbol(c"__rseq_size").cast::<libc::c_uint>();
    let offset = symbol(c"__rseq_offset").cast::<isize>();
    // SAFETY: a C library that has the variables has them as constants of these types.
    if size.is_null() || offset.is_null() || unsafe { size.read() } == 0 {
        return;
    }
    // RSEQ_CPU_ID_REGISTRATION_FAILED. `cpu_id` is the second word of what is registered.
    const FAILED: i32 = -2;
    // SAFETY: as above, and the offset leads into the block.
    unsafe { word(block.thread_pointer.wrapping_add_signed(offset.read()) + 4).write_volatile(FAILED.cast_unsigned()) };
}

#[cfg(test)]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
