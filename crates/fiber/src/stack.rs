//! Stacks: a fiber gets one when it first runs, and the one that was released last is used first.
//!
//! There is a [class](class::Class) of stacks for each size. Each stack has a guard at its
//! lower end, pages without access, which stop a fiber that overflows the stack (see
//! [`overflow`](crate::debug::overflow)). Memory is allocated at the first access, and returns
//! to the kernel when many stacks are free.
//!
//! Above a stack are the state of the [thread](crate::fiber_thread) that its fiber is, and its
//! thread control block. These exist as long as the process, and so do such stacks. Workers take
//! them from a common pool, and return them there. Fibers that share their worker's thread-locals
//! have *bare* stacks, which belong to the worker. Fibers that are [kernel
//! threads](crate::control_block::thread) have the stacks of these.
//!
//! # If there is no stack
//! A fiber that cannot get a stack does not run: its function is dropped, and its joiner gets the
//! reason. But to drop a function is to run user code, which may wait for other fibers and needs a
//! stack, too. For that each worker keeps a *last* stack, which is otherwise unused. If that is in
//! use as well, the function is forgotten instead.

mod class;
mod with_block;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};

use sys::reservation::{Guard, in_memory_at_end, page_size};

use self::class::Class;
use self::with_block::StacksWithBlock;
use crate::error::StackError;
use crate::fiber_thread::FiberThread;

/// A stack that is in use. Packed, because each fiber's record has one.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Stack {
    top: NonNull<u8>,
    /// Including its guard.
    size: u32,
}

impl Stack {
    /// The offsets of its top and of its size with the guard, for debuggers.
    pub(crate) const LAYOUT: [u64; 2] =
        [std::mem::offset_of!(Stack, top) as u64, std::mem::offset_of!(Stack, size) as u64];

    /// The stack of a kernel thread, at these addresses, without its guard.
    pub(crate) fn of_thread(addresses: &Range<usize>) -> Option<Stack> {
        let size = addresses.len().next_multiple_of(page_size());
        let top = NonNull::new(with_exposed_provenance_mut(addresses.start + size))?;
        Some(Stack { top, size: (size + page_size()) as u32 })
    }

    /// Its upper end, where it starts.
    #[inline(always)]
    pub(crate) fn top(&self) -> *mut u8 {
        self.top.as_ptr()
    }

    /// The state of the thread that its fibers are. `None` for a bare stack.
    #[inline(always)]
    pub(crate) fn thread(&self) -> Option<NonNull<FiberThread>> {
        has_block(self.size).then(|| self.top.cast::<FiberThread>())
    }

    /// Whether an address is on it, or in its guard.
    pub(crate) fn contains(&self, address: usize) -> bool {
        let top = self.top.addr().get();
        (top - self.size as usize..=top).contains(&address)
    }

    /// Its usable size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size as usize - page_size()
    }

    /// Whether an address is in its guard.
    pub(crate) fn is_in_guard(&self, address: usize) -> bool {
        let low = self.top.addr().get() - self.size as usize;
        (low..low + page_size()).contains(&address)
    }
}

/// Sizes are multiples of this many pages, to limit the number of classes. It is also the smallest
/// size.
const STEP: usize = 4;

/// The largest stack, in bytes.
const MOST: usize = 1 << 30;

/// The smallest stack, in bytes, without its guard.
fn smallest() -> usize {
    STEP * page_size()
}

/// A stack's size with its guard, for this many usable bytes.
fn rounded(bytes: usize) -> u32 {
    (bytes.clamp(1, MOST).next_multiple_of(STEP * page_size()) + page_size()) as u32
}

/// Whether stacks of this size, guard included, have blocks: only their upper ends are not at page
/// boundaries.
#[inline(always)]
fn has_block(size: u32) -> bool {
    !size.is_multiple_of(1 << 12)
}

pub(crate) struct Stacks {
    /// The size with guard if the fiber asked for no other.
    usual: u32,
    /// The configured size in bytes, before rounding.
    asked: usize,
    classes: RefCell<Classes>,
    guard: Cell<Guard>,
    last: Cell<Option<Stack>>,
}

struct Classes {
    with_block: StacksWithBlock,
    bare: Vec<Class>,
    /// The last stack, in use or not.
    last: Option<Stack>,
}

impl Stacks {
    /// Stacks of this many bytes, unless a fiber asks for another size.
    pub(crate) fn new(usual: usize) -> Stacks {
        Stacks::guarded_by(usual, Guard::Mark)
    }

    fn guarded_by(asked: usize, guard: Guard) -> Stacks {
        Stacks {
            usual: rounded(asked),
            asked,
            classes: RefCell::new(Classes { with_block: StacksWithBlock::default(), bare: Vec::new(), last: None }),
            guard: Cell::new(guard),
            last: Cell::new(None),
        }
    }

    /// How many bytes of stack a fiber gets that asked for this size.
    pub(crate) fn bytes(&self, asked: Option<usize>) -> Result<usize, StackError> {
        let asked = asked.unwrap_or(self.asked);
        if asked <= MOST { Ok(asked) } else { Err(StackError::TooLarge { asked, most: MOST }) }
    }

    /// A stack for a fiber that asked for this size, and needs a block or not.
    #[inline(always)]
    pub(crate) fn take(&self, asked: Option<usize>, is_bare: bool) -> Result<Stack, StackError> {
        if is_bare { self.take_bare(asked) } else { self.take_with_block(asked) }
    }

    /// A stack with a block, of the size that was asked for, or of the configured size.
    #[inline(always)]
    pub(crate) fn take_with_block(&self, asked: Option<usize>) -> Result<Stack, StackError> {
        let size = asked.map_or(self.usual, rounded);
        let classes = &mut *self.classes.borrow_mut();
        match classes.with_block.take_kept(size) {
            Some(stack) => Ok(stack),
            None => self.fetch_with_block(classes, size, asked),
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_with_block(&self, classes: &mut Classes, size: u32, asked: Option<usize>) -> Result<Stack, StackError> {
        if classes.last.is_none() {
            classes.last = classes.with_block.fetch(self.usual, &self.guard).ok();
            self.last.set(classes.last);
        }
        self.bytes(asked)?;
        classes.with_block.fetch(size, &self.guard)
    }

    /// A bare stack, of the size that was asked for, or of the configured size.
    pub(crate) fn take_bare(&self, asked: Option<usize>) -> Result<Stack, StackError> {
        let classes = &mut *self.classes.borrow_mut();
        let size = rounded(self.bytes(asked)?);
        let index = classes.bare.iter().position(|class| class.size() == size).unwrap_or_else(|| {
            classes.bare.push(Class::new(size, 0));
            classes.bare.len() - 1
        });
        classes.bare[index].take(&self.guard)
    }

    /// Whether a fiber for which a stack would otherwise be [taken](Stacks::take) may start on this
    /// one.
    #[inline(always)]
    pub(crate) fn can_reuse(&self, stack: Stack, asked: Option<usize>, is_bare: bool) -> bool {
        let size = asked.map_or(self.usual, rounded);
        let classes = self.classes.borrow();
        let size = if is_bare { size } else { classes.with_block.size(size) };
        stack.size == size && classes.last.is_none_or(|last| last.top() != stack.top())
    }

    /// Releases a stack. The caller must not use it any more when this worker next takes one.
    #[inline(always)]
    pub(crate) fn give(&self, stack: Stack) {
        let classes = &mut *self.classes.borrow_mut();
        if classes.last.is_some_and(|last| last.top() == stack.top()) {
            self.last.set(Some(stack));
        } else if has_block(stack.size) {
            classes.with_block.give(stack);
        } else if let Some(class) = classes.bare.iter_mut().find(|class| class.size() == stack.size) {
            class.give(stack);
        }
    }

    /// The last stack, for a fiber that cannot get one and drops its function.
    pub(crate) fn take_last(&self) -> Option<Stack> {
        self.last.take()
    }

    /// How deep a stack has been used since its memory was new, in bytes, rounded up to pages: by
    /// its current fiber and by those before it.
    ///
    /// The kernel tells which pages are in memory. A fill pattern would use up the memory that it
    /// is to measure.
    pub(crate) fn high_water(&self, stack: &Stack) -> usize {
        let classes = self.classes.borrow();
        let used = classes.bare.iter().filter(|class| class.size() == stack.size).find_map(|class| class.used(stack));
        used.or_else(|| with_block::used(stack)).unwrap_or_else(|| {
            let top = stack.top.addr().get();
            in_memory_at_end(top - stack.size()..top).unwrap_or(0)
        })
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        if let Some(stack) = self.last.take() {
            self.classes.get_mut().with_block.give(stack);
        }
    }
}

#[cfg(test)]
mod tests;
