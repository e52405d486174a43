//! Stacks for [guests](crate::guest), each with a thread control block above it, or with a kernel thread.
//!
//! A block is known to the C library for as long as the process lasts, and a kernel thread that has been made stays. So these stacks are everybody's: a worker keeps some at hand, and brings back those that it has too many of, and
//! all when it is gone.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sys::reservation::{Guard, Reservation, page_size};
use sys::thread_block::{self, ThreadBlock, ThreadBlockError};

use super::class::Class;
use super::{MOST, Stack, is_of_guest, smallest};
use crate::block::thread::KernelThread;
use crate::block::{Block, Kind};
use crate::error::{PreemptionError, StackError};
use crate::guest::Guest;
use crate::here::Here;

/// A worker keeps so many of a size at hand.
const AT_HAND: usize = 64;

/// At least so many bytes are for a block, and for what the kernel saves where it interrupts.
const LEAST: usize = 3 << 12;

/// How much of that is above a stack where blocks are: for a guest, its block, and the thread-locals that the program has from the beginning. 0 until it is known.
static ABOVE: AtomicU32 = AtomicU32::new(0);

/// All stacks for guests that are nobody's, by kind and size.
static ALL: Mutex<BTreeMap<(Kind, u32), Class>> = Mutex::new(BTreeMap::new());

// SAFETY: stacks that are nobody's may be anybody's.
unsafe impl Send for Class {}

fn all() -> MutexGuard<'static, BTreeMap<(Kind, u32), Class>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much is above a stack of this kind.
fn above(kind: Kind) -> u32 {
    match kind {
        Kind::Pointer => ABOVE.load(Relaxed),
        Kind::Thread => size_of::<Guest>() as u32,
    }
}

/// The stacks for guests that a worker has at hand.
pub(super) struct Guests {
    kind: Kind,
    /// How much longer these are than other stacks, for what the kernel saves where it interrupts. 0 until it is known.
    longer: u32,
    sizes: Vec<(u32, Vec<Stack>)>,
}

impl Guests {
    pub(super) fn new(kind: Kind) -> Guests {
        Guests { kind, longer: 0, sizes: Vec::new() }
    }

    /// A stack's size with its guard, where that of another kind of stack were this one. Not that of any other kind of stack; 0 as long as there have been none.
    #[inline(always)]
    pub(super) fn size(&self, other: u32) -> u32 {
        if self.longer == 0 { 0 } else { other + self.longer }
    }

    /// A stack for so many bytes, where another kind of stack had this size.
    #[inline]
    pub(super) fn take(&mut self, other: u32, bytes: usize, guard: &Cell<Guard>) -> Result<Stack, StackError> {
        let size = self.size(other);
        if let Some((_, stacks)) = self.sizes.iter_mut().find(|(other, _)| *other == size)
            && let Some(stack) = stacks.pop()
        {
            return Ok(stack);
        }
        match Here::get() {
            Some(here) => here.in_own_block(|| self.fetch(other, bytes, guard)),
            None => self.fetch(other, bytes, guard),
        }
    }

    #[cold]
    fn fetch(&mut self, other: u32, bytes: usize, guard: &Cell<Guard>) -> Result<Stack, StackError> {
        if bytes > MOST {
            return Err(StackError::TooLarge { asked: bytes, most: MOST });
        }
        if self.longer == 0 {
            let needed = if self.kind == Kind::Pointer { measure()? } else { 0 };
            let above = above(self.kind) as usize;
            // On the smallest there has to be room for the thread that a block is made with.
            let least = (above + sys::tick::signal_frame_size()).max(LEAST).max(needed.saturating_sub(smallest()));
            self.longer = (least.next_multiple_of(page_size()) - above) as u32;
        }
        let size = self.size(other);
        let mut all = all();
        let class = all.entry((self.kind, size)).or_insert_with(|| Class::below(size, above(self.kind), self.kind));
        class.take(guard)
    }

    /// Takes one back: nobody uses it any more by the time at which this worker takes one again, or gives one back.
    #[inline]
    pub(super) fn give(&mut self, stack: Stack) {
        match self.sizes.iter_mut().find(|(size, _)| *size == stack.size) {
            Some((_, stacks)) => {
                stacks.push(stack);
                if stacks.len() > AT_HAND {
                    // Not the last one, on which somebody may still run.
                    bring_back(self.kind, stacks.drain(..AT_HAND / 2));
                }
            }
            None => self.sizes.push((stack.size, vec![stack])),
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.sizes.iter_mut().for_each(|(_, stacks)| bring_back(self.kind, stacks.drain(..)));
    }
}

#[cold]
fn bring_back(kind: Kind, stacks: impl Iterator<Item = Stack>) {
    let mut all = all();
    for stack in stacks {
        if let Some(class) = all.get_mut(&(kind, stack.size)) {
            class.give(stack);
        }
    }
}

/// How much of a guest's stack has been used.
pub(super) fn used(stack: &Stack) -> usize {
    if !is_of_guest(stack.size) {
        return 0;
    }
    all().values().filter(|class| class.size() == stack.size).find_map(|class| class.used(stack)).unwrap_or(0)
}

/// Sees how much a block takes, once. Returns how much memory it takes to make one.
fn measure() -> Result<usize, StackError> {
    let room = thread_block::minimum_stack().map_err(PreemptionError::from)?.next_multiple_of(page_size());
    if ABOVE.load(Relaxed) > 0 {
        return Ok(room);
    }
    let memory = Reservation::new(room).map_err(StackError::Memory)?;
    let low = memory.base();
    std::mem::forget(memory);
    // SAFETY: at the memory's end, which stays for ever, and nobody asks who the guest is.
    let (end, block) = unsafe { (low.add(room), donate(low, low.add(room), std::ptr::null_mut())?) };
    let above = end.addr().get() - (block.stack_top - size_of::<Guest>()) / 16 * 16;
    // A size with a page boundary as its upper end is another kind of stack's.
    let above = if above.is_multiple_of(1 << 12) { above + 16 } else { above };
    ABOVE.store(above as u32, Relaxed);
    Ok(room)
}

/// Makes a thread control block at the end of this memory, for this guest.
///
/// # Safety
/// The memory is writable, nobody uses it, and it stays for ever; and so does the guest, if there is one.
unsafe fn donate(low: NonNull<u8>, end: NonNull<u8>, guest: *mut Guest) -> Result<ThreadBlock, StackError> {
    /// On the thread whose block the guest gets.
    unsafe extern "C" fn move_in(guest: *mut ()) {
        Guest::moves_in(NonNull::new(guest.cast()));
    }

    // SAFETY: the caller's promise.
    let block = unsafe { thread_block::make(low.as_ptr()..end.as_ptr(), move_in, guest.cast()) };
    Ok(block.map_err(PreemptionError::from)?)
}

/// Makes a guest of this kind above a stack with this top, with its thread control block or its kernel thread.
///
/// # Safety
/// The memory from `low` to so many bytes above the top is writable, nobody uses it, and it stays for ever.
pub(super) unsafe fn furnish(kind: Kind, low: NonNull<u8>, top: NonNull<u8>, above: usize) -> Result<(), StackError> {
    let guest = top.cast::<Guest>();
    if kind == Kind::Thread {
        let thread = KernelThread::start(guest).map_err(PreemptionError::Thread)?;
        // SAFETY: there is room, by the caller's promise; the thread does not look there before a fiber begins.
        unsafe { guest.write(Guest::new(Block::Thread(thread))) };
        return Ok(());
    }
    // SAFETY: the caller's promise; the guest is within the memory, and written when the thread that was on it is gone.
    unsafe {
        let block = donate(low, top.add(above), guest.as_ptr())?;
        if block.stack_top < guest.add(1).addr().get() {
            return Err(PreemptionError::from(ThreadBlockError::Number).into());
        }
        guest.write(Guest::new(Block::Pointer(block.thread_pointer)));
    }
    Ok(())
}
