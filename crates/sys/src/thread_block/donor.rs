//! Blocks that donors leave.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ThreadBlock, ThreadBlockError, exists, next_number, thread_pointer, word};
use crate::rseq;

/// The state of a donor. It lies at the start of its memory.
pub(super) struct Donor {
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    /// The end of its memory.
    end: usize,
    /// The offset of its thread ID from its thread pointer, if known.
    number: Option<usize>,
    block: ThreadBlock,
    /// The value of `pthread_self`.
    handle: usize,
    /// The first addresses at which its thread ID was found, and the number of all.
    found: [usize; 16],
    many: usize,
    /// Its thread ID, stored last.
    thread: AtomicI32,
}

/// The block of a donor.
#[derive(Clone, Debug)]
pub(super) struct Donation {
    pub(super) block: ThreadBlock,
    /// The offset of the thread ID from the thread pointer, wrapping around.
    pub(super) number: usize,
    /// The value of `pthread_self` while the block is in use.
    pub(super) handle: usize,
    pub(super) memory: Range<usize>,
}

/// Does nothing to prepare a block.
pub(super) extern "C" fn nothing(_: *mut ()) {}

/// Creates a block by a donor.
///
/// # Safety
/// As for [`make`](super::make). After an error of `pthread_create` the memory is unused.
pub(super) unsafe fn donate(
    memory: Range<*mut u8>,
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    number: Option<usize>,
) -> Result<Donation, ThreadBlockError> {
    let addresses = memory.start.addr()..memory.end.addr();
    let donor = memory.start.cast::<Donor>();
    // SAFETY: the memory is the caller's, in whole pages, and much larger than this.
    unsafe {
        donor.write(Donor {
            prepare,
            argument,
            end: addresses.end,
            number,
            block: ThreadBlock { thread_pointer: 0, stack_top: 0 },
            handle: 0,
            found: [0; 16],
            many: 0,
            thread: AtomicI32::new(0),
        });
        start(memory, donor)?;
    }
    // SAFETY: the donor writes its thread ID last.
    let thread = unsafe { &(*donor).thread };
    while thread.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    while exists(thread.load(Relaxed)) {
        std::thread::yield_now();
    }
    // SAFETY: the writing thread has ended.
    let (block, handle, found, many) = unsafe { ((*donor).block, (*donor).handle, (*donor).found, (*donor).many) };
    // SAFETY: the addresses are in the block, which no other code changes.
    let mut cleared = found.iter().take(many).filter(|&&address| unsafe { word(address).read_volatile() } == 0);
    let (Some(&address), None, true) = (cleared.next(), cleared.next(), many <= found.len()) else {
        return Err(ThreadBlockError::Number);
    };
    // SAFETY: as above.
    unsafe { word(address).write_volatile(next_number()) };
    // SAFETY: the block is not in use.
    unsafe { forget_cpu(block) };
    Ok(Donation { block, number: address.wrapping_sub(block.thread_pointer), handle, memory: addresses })
}

/// Starts a donor on this memory.
///
/// # Safety
/// The memory is owned by the donor, whose state is at its start.
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
        (*donor).handle = libc::pthread_self() as usize;
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

/// Makes the C library ask the kernel for the CPU while this block is in use, since the kernel no
/// longer updates the CPU number in the block.
///
/// # Safety
/// The block is not in use.
unsafe fn forget_cpu(block: ThreadBlock) {
    let Some(offset) = rseq::offset() else { return };
    // RSEQ_CPU_ID_REGISTRATION_FAILED in `cpu_id`, the second of at least eight words that were
    // registered.
    const FAILED: i32 = -2;
    let area = block.thread_pointer.wrapping_add_signed(offset);
    for index in 0..8 {
        let value = if index == 1 { FAILED.cast_unsigned() } else { 0 };
        // SAFETY: the offset leads into the block.
        unsafe { word(area + index * 4).write_volatile(value) };
    }
}
