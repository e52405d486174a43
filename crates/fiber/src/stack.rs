//! Where stacks come from: given when a fiber first runs, and used again last in, first out.
//!
//! Stacks of one size lie side by side in one reservation of address space, each with a page at its lower end that nobody may touch. Memory comes
//! with the first touch.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// The size of a guard.
const PAGE: usize = 4096;

/// A stack that somebody has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    top: NonNull<u8>,
    /// With its guard.
    size: u32,
}

impl Stack {
    pub(crate) fn top(&self) -> *mut u8 {
        self.top.as_ptr()
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }
}

/// How many stacks a reservation holds.
const RESERVED: usize = 1 << 10;

struct Region {
    base: *mut u8,
    size: usize,
    stacks: usize,
    used: usize,
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was mapped so; nobody runs on its stacks any more when the pool goes.
        let _ = unsafe { munmap(self.base.cast(), self.size * self.stacks) };
    }
}

/// The stacks of a worker.
pub(crate) struct Stacks {
    usual: usize,
    regions: RefCell<Vec<Region>>,
    free: RefCell<Vec<Stack>>,
    made: Cell<usize>,
}

impl Stacks {
    /// Where a fiber has a stack of this size, unless it asks for another.
    pub(crate) fn new(usual: usize) -> Stacks {
        Stacks {
            usual: usual.next_multiple_of(PAGE) + PAGE,
            regions: RefCell::default(),
            free: RefCell::default(),
            made: Cell::new(0),
        }
    }

    /// A stack.
    pub(crate) fn take(&self) -> std::io::Result<Stack> {
        if let Some(stack) = self.free.borrow_mut().pop() {
            return Ok(stack);
        }
        self.make()
    }

    #[cold]
    fn make(&self) -> std::io::Result<Stack> {
        let mut regions = self.regions.borrow_mut();
        if regions.last().is_none_or(|region| region.used == region.stacks) {
            let (size, stacks) = (self.usual, RESERVED);
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: new memory that nobody knows of.
            let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size * stacks, prot, flags)? };
            // SAFETY: as above.
            let _ = unsafe { madvise(base, size * stacks, Advice::LinuxNoHugepage) };
            regions.push(Region { base: base.cast(), size, stacks, used: 0 });
        }
        let Some(region) = regions.last_mut() else { unreachable!("one was pushed") };
        // SAFETY: within the region.
        let low = unsafe { region.base.add(region.used * region.size) };
        guard(low)?;
        region.used += 1;
        self.made.set(self.made.get() + 1);
        // SAFETY: at most at its end.
        let top = unsafe { NonNull::new_unchecked(low.add(region.size)) };
        Ok(Stack { top, size: region.size as u32 })
    }

    /// Takes one back: nobody uses it any more by the time at which this worker takes one again.
    pub(crate) fn give(&self, stack: Stack) {
        self.free.borrow_mut().push(stack);
    }
}

/// Makes a page one that nobody may touch.
fn guard(page: *mut u8) -> std::io::Result<()> {
    // SAFETY: it is the lowest page of a stack that nobody uses yet.
    unsafe {
        let advice = libc_guard();
        if let Some(advice) = advice
            && madvise(page.cast(), PAGE, advice).is_ok()
        {
            return Ok(());
        }
        mprotect(page.cast(), PAGE, MprotectFlags::empty())?;
    }
    Ok(())
}

fn libc_guard() -> Option<Advice> {
    None
}
