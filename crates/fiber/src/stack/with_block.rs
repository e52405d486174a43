//! Stacks with a thread control block above each.
//!
//! The C library knows a block as long as the process lasts. So these stacks are shared by all
//! workers. A worker keeps some of them, and returns surplus ones, and all when it ends.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sys::reservation::{Guard, Reservation, page_size};
use sys::thread_block::{self, ThreadBlock, ThreadBlockError};

use super::class::Class;
use super::{Stack, smallest};
use crate::control_block::ControlBlock;
use crate::errno::{last_error, set_last_error};
use crate::error::{PreemptionError, StackError};
use crate::fiber_thread::{FiberThread, Here};

/// How many stacks of a size a worker keeps.
const AT_HAND: usize = 64;

/// The minimum number of bytes for a block, and for what the kernel saves at an interruption.
const LEAST: usize = 3 << 12;

/// How much of that is above a stack with a block: the state of its fibers, the block, and the
/// program's initial thread-locals. 0 until it is known.
static ABOVE: AtomicU32 = AtomicU32::new(0);

/// All stacks with blocks that no worker has, by size.
static ALL: Mutex<BTreeMap<u32, Class>> = Mutex::new(BTreeMap::new());

// SAFETY: any thread may use stacks that no worker has.
unsafe impl Send for Class {}

fn all() -> MutexGuard<'static, BTreeMap<u32, Class>> {
    // A fiber may be making way for a new one, and `errno` is its own. A wait for the mutex may set
    // it.
    let error = last_error();
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    set_last_error(error);
    all
}

/// The stacks with blocks that a worker keeps.
#[derive(Default)]
pub(super) struct StacksWithBlock {
    /// How much larger these stacks are than others, for what the kernel saves at an interruption.
    /// 0 until it is known.
    longer: u32,
    sizes: Vec<(u32, Vec<Stack>)>,
}

impl StacksWithBlock {
    /// The size with guard of a stack that would otherwise have size `other`. It differs from all
    /// bare stacks' sizes. 0 until the first one exists.
    #[inline(always)]
    pub(super) fn size(&self, other: u32) -> u32 {
        if self.longer == 0 { 0 } else { other + self.longer }
    }

    /// A stack that this worker has, and whose size would otherwise be `other`.
    #[inline(always)]
    pub(super) fn take_kept(&mut self, other: u32) -> Option<Stack> {
        let size = self.size(other);
        self.sizes.iter_mut().find(|(other, _)| *other == size)?.1.pop()
    }

    /// A stack of the common pool, whose size would otherwise be `other`.
    pub(super) fn fetch(&mut self, other: u32, guard: &Cell<Guard>) -> Result<Stack, StackError> {
        if self.longer == 0 {
            let needed = measure()?;
            let above = ABOVE.load(Relaxed) as usize;
            // The smallest must have room for the thread that makes a block.
            let least = (above + sys::tick::signal_frame_size()).max(LEAST).max(needed.saturating_sub(smallest()));
            self.longer = (least.next_multiple_of(page_size()) - above) as u32;
        }
        let size = self.size(other);
        let mut all = all();
        all.entry(size).or_insert_with(|| Class::new(size, ABOVE.load(Relaxed))).take(guard)
    }

    /// Releases a stack. The caller must not use it any more when this worker next takes or
    /// releases one.
    #[inline]
    pub(super) fn give(&mut self, stack: Stack) {
        match self.sizes.iter_mut().find(|(size, _)| *size == stack.size) {
            Some((_, stacks)) => {
                stacks.push(stack);
                if stacks.len() > AT_HAND {
                    // Not the last one, on which the caller may still run.
                    return_to_pool(stacks.drain(..AT_HAND / 2));
                }
            }
            None => self.sizes.push((stack.size, vec![stack])),
        }
    }
}

impl Drop for StacksWithBlock {
    fn drop(&mut self) {
        self.sizes.iter_mut().for_each(|(_, stacks)| return_to_pool(stacks.drain(..)));
    }
}

#[cold]
fn return_to_pool(stacks: impl Iterator<Item = Stack>) {
    let mut all = all();
    for stack in stacks {
        if let Some(class) = all.get_mut(&stack.size) {
            class.give(stack);
        }
    }
}

/// How much of a stack has been used, if it has a block.
pub(super) fn used(stack: &Stack) -> Option<usize> {
    all().get(&stack.size)?.used(stack)
}

/// Measures the space of a block, once. Returns how much memory it takes to make one.
fn measure() -> Result<usize, StackError> {
    let room = thread_block::minimum_stack().map_err(PreemptionError::from)?.next_multiple_of(page_size());
    if ABOVE.load(Relaxed) > 0 {
        return Ok(room);
    }
    let memory = Reservation::new(room).map_err(StackError::Memory)?;
    let low = memory.base();
    std::mem::forget(memory);
    // SAFETY: it is the memory's end, which stays forever.
    let (end, block) = unsafe { (low.add(room), make_control_block(low, low.add(room), None)?.0) };
    let above = end.addr().get() - (block.stack_top - size_of::<FiberThread>()) / 16 * 16;
    // Sizes whose upper end is a page boundary belong to bare stacks.
    let above = if above.is_multiple_of(1 << 12) { above + 16 } else { above };
    ABOVE.store(above as u32, Relaxed);
    Ok(room)
}

/// Makes a thread control block at the end of this memory, for fibers with this state. Returns it,
/// and where its thread-locals are.
///
/// # Safety
/// The memory is writable, unused and never freed. The same holds for the state, if there is one.
unsafe fn make_control_block(
    low: NonNull<u8>,
    end: NonNull<u8>,
    thread: Option<NonNull<FiberThread>>,
) -> Result<(ThreadBlock, Option<NonNull<Here>>), StackError> {
    /// What the thread needs that has the block at first, and its result.
    struct Settled {
        thread: Option<NonNull<FiberThread>>,
        here: Option<NonNull<Here>>,
    }

    /// Runs with the block in use.
    ///
    /// # Safety
    /// The argument is a `Settled`.
    unsafe extern "C" fn settle(argument: *mut ()) {
        // SAFETY: the caller's promise.
        let settled = unsafe { &mut *argument.cast::<Settled>() };
        settled.here = settled.thread.map(FiberThread::settle);
    }

    let mut settled = Settled { thread, here: None };
    // SAFETY: the caller's promise.
    let block = unsafe { thread_block::make(low.as_ptr()..end.as_ptr(), settle, (&raw mut settled).cast()) };
    Ok((block.map_err(PreemptionError::from)?, settled.here))
}

/// Makes the state of fibers above a stack with this top, with their thread control block.
///
/// # Safety
/// The memory from `low` to `above` bytes above the top is writable, unused and never freed.
pub(super) unsafe fn init_thread(low: NonNull<u8>, top: NonNull<u8>, above: usize) -> Result<(), StackError> {
    let thread = top.cast::<FiberThread>();
    // SAFETY: the caller's promise.
    let (block, here) = unsafe { make_control_block(low, top.add(above), Some(thread))? };
    // SAFETY: one past it is within the memory.
    if block.stack_top < unsafe { thread.add(1) }.addr().get() {
        return Err(PreemptionError::from(ThreadBlockError::Number).into());
    }
    // SAFETY: there is room, by the caller's promise; nothing reads it before a fiber starts.
    unsafe { thread.write(FiberThread::new(ControlBlock::ThreadPointer(block.thread_pointer), here)) };
    Ok(())
}
