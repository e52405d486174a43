//! Stacks: a fiber gets one when it first runs, and the one that was released last is used first.
//!
//! A worker has its own stacks, with a [class](class::Class) for each size. Each stack has a guard
//! at its lower end, pages without access, which stop a fiber that overflows the stack (see
//! [`overflow`]). Memory is allocated at the first access, and returns to the kernel when many
//! stacks are free.
//!
//! Above the stack of a [preemptible fiber](crate::preemptible) are its state and, if it has no
//! kernel thread, its thread control block. These exist as long as the process, and so do such
//! stacks. Workers take them from a common pool, and return them there.
//!
//! # If there is no stack
//! A fiber that cannot get a stack does not run: its function is dropped, and its joiner gets the
//! reason. But to drop a function is to run user code, which may wait for other fibers and needs a
//! stack, too. For that each worker keeps a *last* stack, which is otherwise unused. If that is in
//! use as well, the function is forgotten instead.

mod class;
pub(crate) mod overflow;
mod preemptible;
mod sanitizer;

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use sys::reservation::{Guard, page_size};

use self::class::Class;
use self::preemptible::PreemptibleStacks;
pub(crate) use self::sanitizer::Shadow;
use crate::control_block::ControlBlockKind;
use crate::error::StackError;
use crate::preemptible::PreemptibleFiber;
use crate::record::Fiber;

/// A stack that is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    top: NonNull<u8>,
    /// Including its guard.
    size: u32,
    pub(crate) shadow: Shadow,
}

impl Stack {
    /// The offsets of its top and of its size with the guard, for debuggers.
    pub(crate) const LAYOUT: [u64; 2] =
        [std::mem::offset_of!(Stack, top) as u64, std::mem::offset_of!(Stack, size) as u64];

    /// Its upper end, where it starts.
    #[inline(always)]
    pub(crate) fn top(&self) -> *mut u8 {
        self.top.as_ptr()
    }

    /// The stack, when a fiber starts on it.
    #[inline(always)]
    pub(crate) fn begun(self) -> Stack {
        Stack { shadow: Shadow::new(), ..self }
    }

    /// The preemptible fiber whose stack it is.
    #[inline(always)]
    pub(crate) fn preemptible(&self) -> Option<&'static PreemptibleFiber> {
        if is_preemptible_size(self.size) {
            // SAFETY: a preemptible fiber's state lies above such a stack, and stays there forever.
            Some(unsafe { self.top.cast::<PreemptibleFiber>().as_ref() })
        } else {
            None
        }
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

/// Whether stacks of this size, guard included, belong to preemptible fibers: only their upper ends
/// are not at page boundaries.
#[inline(always)]
fn is_preemptible_size(size: u32) -> bool {
    !size.is_multiple_of(1 << 12)
}

/// The stacks of a worker.
pub(crate) struct Stacks {
    /// The size with guard if the fiber asked for no other.
    usual: u32,
    /// The configured size in bytes, before rounding.
    asked: usize,
    classes: RefCell<Classes>,
    guard: Cell<Guard>,
    last: Cell<Option<Stack>>,
    /// Why there was no stack.
    why: Cell<Option<StackError>>,
}

struct Classes {
    usual: Class,
    others: Vec<Class>,
    preemptible: PreemptibleStacks,
    /// The last stack's memory.
    last: Option<Class>,
}

impl Stacks {
    /// Stacks of this many bytes, unless a fiber asks for another size.
    pub(crate) fn new(usual: usize) -> Stacks {
        Stacks::guarded_by(usual, Guard::Mark)
    }

    fn guarded_by(asked: usize, guard: Guard) -> Stacks {
        let usual = rounded(asked);
        Stacks {
            usual,
            asked,
            classes: RefCell::new(Classes {
                usual: Class::new(usual),
                others: Vec::new(),
                preemptible: PreemptibleStacks::new(ControlBlockKind::ThreadPointer),
                last: None,
            }),
            guard: Cell::new(guard),
            last: Cell::new(None),
            why: Cell::new(None),
        }
    }

    /// Enables stacks for preemptible fibers, of this kind. There must have been none before.
    #[cold]
    pub(crate) fn init_preemptible_class(&self, kind: ControlBlockKind) {
        self.classes.borrow_mut().preemptible = PreemptibleStacks::new(kind);
    }

    /// A stack for this fiber.
    #[inline(always)]
    pub(crate) fn take(&self, fiber: Fiber) -> Result<Stack, StackError> {
        if fiber.is_preemptible.get() {
            let asked = if fiber.has_extras() { fiber.stack_size() } else { None };
            let size = asked.map_or(self.usual, rounded);
            self.ensure_last();
            return self.classes.borrow_mut().preemptible.take(size, asked.unwrap_or(self.asked), &self.guard);
        }
        if !fiber.has_extras()
            && let Some(stack) = self.classes.borrow_mut().usual.take_warm()
        {
            return Ok(stack);
        }
        self.take_size(fiber.stack_size())
    }

    /// Makes the last stack, unless it exists.
    #[inline(always)]
    fn ensure_last(&self) {
        if self.classes.borrow().last.is_none() {
            self.make_last();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_last(&self) {
        // A size for which no fiber asks: it is a page more than a multiple.
        let mut class = Class::new(self.usual + page_size() as u32);
        self.last.set(class.take(&self.guard).ok());
        self.classes.borrow_mut().last = Some(class);
    }

    /// A stack of the size that was asked for, or of the configured size.
    #[cold]
    #[inline(never)]
    fn take_size(&self, asked: Option<usize>) -> Result<Stack, StackError> {
        self.ensure_last();
        let classes = &mut *self.classes.borrow_mut();
        let asked = asked.unwrap_or(self.asked);
        if asked > MOST {
            return Err(StackError::TooLarge { asked, most: MOST });
        }
        let size = rounded(asked);
        let class = match classes.others.iter_mut().find(|class| class.size() == size) {
            _ if size == self.usual => &mut classes.usual,
            Some(class) => class,
            None => {
                classes.others.push(Class::new(size));
                let Some(class) = classes.others.last_mut() else { unreachable!("one was pushed") };
                class
            }
        };
        class.take(&self.guard)
    }

    /// A stack of at least this many bytes, which is not for a fiber.
    #[cold]
    pub(crate) fn take_of(&self, bytes: usize) -> Result<Stack, StackError> {
        self.take_size(Some(bytes.max(self.asked)))
    }

    /// Whether the next fiber may start on this stack.
    #[inline(always)]
    pub(crate) fn can_reuse(&self, stack: Option<Stack>, next: Fiber) -> bool {
        stack.is_some_and(|stack| {
            let asked = if next.has_extras() { next.stack_size() } else { None };
            let size = asked.map_or(self.usual, rounded);
            stack.size == if next.is_preemptible.get() { self.classes.borrow().preemptible.size(size) } else { size }
        })
    }

    /// Releases a stack. The caller must not use it any more when this worker next takes one.
    #[inline(always)]
    pub(crate) fn give(&self, stack: Stack) {
        if stack.size == self.usual {
            self.classes.borrow_mut().usual.give(stack);
        } else if is_preemptible_size(stack.size) {
            self.give_preemptible(stack);
        } else {
            self.give_other(stack);
        }
    }

    #[inline(never)]
    fn give_preemptible(&self, stack: Stack) {
        self.classes.borrow_mut().preemptible.give(stack);
    }

    #[cold]
    fn give_other(&self, stack: Stack) {
        let classes = &mut *self.classes.borrow_mut();
        match classes.others.iter_mut().find(|class| class.size() == stack.size) {
            Some(class) => class.give(stack),
            None => self.last.set(Some(stack)),
        }
    }

    /// The last stack, for a fiber that cannot get one and drops its function.
    pub(crate) fn take_last(&self) -> Option<Stack> {
        self.last.take()
    }

    /// Notes why a fiber needs the last stack.
    pub(crate) fn set_reason(&self, why: StackError) {
        self.why.set(Some(why));
    }

    /// Why there is only the last stack.
    pub(crate) fn take_reason(&self) -> StackError {
        self.why.take().unwrap_or_else(|| StackError::Memory(std::io::ErrorKind::OutOfMemory.into()))
    }

    /// How deep a stack has been used since its memory was new, in bytes, rounded up to pages: by
    /// its current fiber and by those before it.
    ///
    /// The kernel tells which pages are in memory. A fill pattern would use up the memory that it
    /// is to measure.
    pub(crate) fn high_water(&self, stack: &Stack) -> usize {
        let classes = self.classes.borrow();
        let all = std::iter::once(&classes.usual).chain(&classes.others).chain(&classes.last);
        all.filter(|class| class.size() == stack.size)
            .find_map(|class| class.used(stack))
            .unwrap_or_else(|| preemptible::used(stack))
    }
}

#[cfg(test)]
mod tests;
