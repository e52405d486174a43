//! Blocks that donors leave.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ThreadBlock, ThreadBlockError, exists, next_number, thread_pointer, word};
use crate::reservation::page_size;
use crate::rseq;
use crate::tick::SignalMask;

/// The minimum number of bytes that the C library has registered for the kernel to write to (rseq).
const AREA: usize = 32;

/// The state of a donor. It lies at the start of its memory.
struct Donor {
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    /// The end of its memory.
    end: usize,
    /// Room for all words from its descriptor to the end, or null.
    words: *mut u32,
    block: ThreadBlock,
    /// The value of `pthread_self`, the address of the descriptor.
    handle: usize,
    robust_list: Option<usize>,
    /// Its thread ID, stored last.
    thread: AtomicI32,
}

/// The block of a donor.
#[derive(Clone, Debug)]
pub(super) struct Donation {
    pub(super) block: ThreadBlock,
    pub(super) identity: Identity,
    /// The value of `pthread_self` while the block is in use.
    pub(super) handle: usize,
    pub(super) memory: Range<usize>,
}

/// The place of the thread ID in a block. Offsets are from the thread pointer, wrapping around.
///
/// When a thread ends, the kernel clears a word of it. That is the ID, or since version 2.43 of the
/// C library a word that says whether the thread exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The offset of the ID.
    pub(super) number: usize,
    /// The offset of the word that the kernel clears, and its value before, if it is not the ID.
    exists: Option<(usize, u32)>,
    /// The offset of the list of robust mutexes, from the value of `pthread_self`.
    pub(super) robust_list: Option<usize>,
}

/// Where the calling kernel thread's list of robust mutexes is, as an offset from `pthread_self`,
/// if it uses its own block.
pub(super) fn robust_list() -> Option<usize> {
    let (mut head, mut length) = (0_usize, 0_usize);
    // SAFETY: there is room for both.
    let failed = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) } != 0;
    // SAFETY: it has no conditions.
    let offset = head.wrapping_sub(unsafe { libc::pthread_self() } as usize);
    (!failed && offset < page_size()).then_some(offset)
}

/// Does nothing to prepare a block.
pub(super) extern "C" fn nothing(_: *mut ()) {}

/// Creates a block by a donor, and finds out the identity if it is not given.
///
/// # Safety
/// As for [`make`](super::make). After an error of `pthread_create` the memory is unused.
pub(super) unsafe fn donate(
    memory: Range<*mut u8>,
    prepare: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
    identity: Option<Identity>,
) -> Result<Donation, ThreadBlockError> {
    let addresses = memory.start.addr()..memory.end.addr();
    let mut words = if identity.is_none() { vec![0; addresses.len() / 4] } else { Vec::new() };
    let donor = memory.start.cast::<Donor>();
    // SAFETY: the memory is the caller's, in whole pages, and much larger than this.
    unsafe {
        donor.write(Donor {
            prepare,
            argument,
            end: addresses.end,
            words: if identity.is_none() { words.as_mut_ptr() } else { null_mut() },
            block: ThreadBlock { thread_pointer: 0, stack_top: 0 },
            handle: 0,
            robust_list: None,
            thread: AtomicI32::new(0),
        });
        start(memory, donor)?;
    }
    // SAFETY: the donor writes its thread ID last.
    let thread = unsafe { &(*donor).thread };
    while thread.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    let id = thread.load(Relaxed);
    while exists(id) {
        std::thread::yield_now();
    }
    // SAFETY: the writing thread has ended. No other code changes the words, which the block has.
    unsafe {
        let (block, handle) = ((*donor).block, (*donor).handle);
        forget_cpu(block);
        words.truncate(addresses.end.saturating_sub(handle) / 4);
        let find = || {
            let robust_list = (*donor).robust_list;
            find(block, handle, &words, id.cast_unsigned()).map(|identity| Identity { robust_list, ..identity })
        };
        let identity = identity.or_else(find).ok_or(ThreadBlockError::Number)?;
        let place = |offset: usize| word(block.thread_pointer.wrapping_add(offset));
        let (cleared, value) = identity.exists.unwrap_or((identity.number, 0));
        if place(cleared).read_volatile() != 0 {
            return Err(ThreadBlockError::Number);
        }
        place(cleared).write_volatile(value);
        place(identity.number).write_volatile(next_number());
        Ok(Donation { block, identity, handle, memory: addresses })
    }
}

/// Finds out the identity from the words that the block of this thread had, from this address on,
/// before the thread ended.
///
/// # Safety
/// The words are in the block, which is not in use.
unsafe fn find(block: ThreadBlock, start: usize, words: &[u32], thread: u32) -> Option<Identity> {
    let offset = |index: usize| (start + index * 4).wrapping_sub(block.thread_pointer);
    let area = rseq::offset().map(isize::cast_unsigned);
    let is_of_kernel = |index: usize| area.is_some_and(|area| offset(index).wrapping_sub(area) < AREA);
    // SAFETY: by the promise of the caller.
    let now = |index: usize| unsafe { word(start + index * 4).read_volatile() };
    let all = || words.iter().copied().enumerate();
    let mut changed = all().filter(|&(index, before)| before != now(index) && !is_of_kernel(index));
    let (Some((cleared, before)), None) = (changed.next(), changed.next()) else { return None };
    if before == thread {
        return Some(Identity { number: offset(cleared), exists: None, robust_list: None });
    }
    let mut numbers = all().filter(|&(_, before)| before == thread);
    let (Some((number, _)), None) = (numbers.next(), numbers.next()) else { return None };
    Some(Identity { number: offset(number), exists: Some((offset(cleared), before)), robust_list: None })
}

/// Starts a donor on this memory.
///
/// # Safety
/// The memory is owned by the donor, whose state is at its start.
unsafe fn start(memory: Range<*mut u8>, donor: *mut Donor) -> Result<(), ThreadBlockError> {
    let mut attributes = MaybeUninit::uninit();
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
            let before = SignalMask::ALL_BUT_TICKS.change(libc::SIG_BLOCK);
            result = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, donor.cast());
            before.apply_to_this_thread();
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
        (*donor).robust_list = robust_list();
        if !(*donor).words.is_null() {
            for (index, address) in ((*donor).handle..(*donor).end).step_by(4).enumerate() {
                (*donor).words.add(index).write(word(address).read_volatile());
            }
        }
        (*donor).thread.store(libc::gettid(), Release);
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
    // RSEQ_CPU_ID_REGISTRATION_FAILED in `cpu_id`, the second word.
    const FAILED: i32 = -2;
    let area = block.thread_pointer.wrapping_add_signed(offset);
    for index in 0..AREA / 4 {
        let value = if index == 1 { FAILED.cast_unsigned() } else { 0 };
        // SAFETY: the offset leads into the block.
        unsafe { word(area + index * 4).write_volatile(value) };
    }
}
