//! Stacks of one size.
//!
//! They lie side by side in *chunks* of address space. Free stacks that were used recently are
//! *warm*: their memory is kept. When there are too many of them, the memory of those that have
//! been free longest returns to the kernel: they are *cold*.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;

use sys::reservation::{Guard, Reservation, page_size};

use super::Stack;
use crate::error::{PreemptionError, StackError};

/// The maximum number of warm stacks, and of their bytes; but a few stacks may have more.
const WARM: usize = 1 << 10;
const WARM_BYTES: usize = 64 << 20;
const FEW: usize = 16;

/// The number of stacks in the first chunk. Each further chunk has as many as exist so far, up to
/// this number and this many bytes, but at least one.
const FIRST: usize = 16;
const LARGEST: usize = 1 << 12;
const LARGEST_BYTES: usize = 1 << 28;

pub(super) struct Class {
    /// Of each stack, including its guard.
    size: u32,
    /// How many bytes are above each, for the state and the thread control block of its fibers.
    above: u32,
    chunks: Vec<Reservation>,
    /// How many stacks have been made from all chunks but the newest, and from that one.
    before: usize,
    made: usize,
    warm: Vec<Stack>,
    cold: Vec<Stack>,
    /// How many may be warm.
    most: usize,
}

impl Class {
    /// For stacks of this size, including the guard, with so much space above each for a block.
    /// Both together are a multiple of the page size.
    pub(super) fn new(size: u32, above: u32) -> Class {
        let most = (WARM_BYTES / size as usize).clamp(FEW, WARM);
        Class { size, above, chunks: Vec::new(), before: 0, made: 0, warm: Vec::new(), cold: Vec::new(), most }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn take(&mut self, guard: &Cell<Guard>) -> Result<Stack, StackError> {
        match self.warm.pop().or_else(|| self.cold.pop()) {
            Some(stack) => Ok(stack),
            None => self.make(guard),
        }
    }

    fn make(&mut self, guard: &Cell<Guard>) -> Result<Stack, StackError> {
        let pitch = self.pitch();
        let full = |chunk: &Reservation| chunk.length() / pitch == self.made;
        if self.chunks.last().is_none_or(full) {
            let chunk = self.reserve().map_err(StackError::Memory)?;
            self.before += std::mem::take(&mut self.made);
            self.chunks.push(chunk);
        }
        let Some(chunk) = self.chunks.last() else { unreachable!("one was pushed") };
        let low = self.made * pitch;
        protect(chunk, low, guard)?;
        self.made += 1;
        // SAFETY: it is at most at the chunk's end.
        let top = unsafe { chunk.base().add(low + self.size as usize) };
        if self.above > 0 {
            // SAFETY: the memory is this stack's, and memory of stacks with blocks is never freed.
            let lowest = unsafe { chunk.base().add(low + page_size()) };
            // SAFETY: as above.
            let made = unsafe { super::with_block::init_thread(lowest, top, self.above as usize) };
            if let Err(why) = made {
                if !matches!(&why, StackError::Preemption(PreemptionError::Block(why)) if why.has_lost_memory()) {
                    // Nothing refers to the memory: it is for the next attempt.
                    self.made -= 1;
                }
                return Err(why);
            }
        }
        Ok(Stack { top, size: self.size })
    }

    fn pitch(&self) -> usize {
        (self.size + self.above) as usize
    }

    /// A new chunk; a smaller one if there is no address space for a large one.
    fn reserve(&self) -> io::Result<Reservation> {
        let size = self.pitch();
        let mut many = (self.before + self.made).clamp(FIRST, LARGEST).min(LARGEST_BYTES / size).max(1);
        loop {
            match Reservation::new(many * size) {
                Err(_) if many > 1 => many /= 2,
                result => return result,
            }
        }
    }

    #[inline(always)]
    pub(super) fn give(&mut self, stack: Stack) {
        self.warm.push(stack);
        if self.warm.len() > self.most {
            self.cool();
        }
    }

    /// Returns the memory of a quarter of the warm stacks to the kernel, those that have been free
    /// longest. The stack that was released last, on which the caller may still run, is not among
    /// them.
    #[cold]
    #[inline(never)]
    fn cool(&mut self) {
        let from = self.cold.len();
        self.cold.extend(self.warm.drain(..self.most / 4));
        // Adjacent stacks are returned together: the system call costs more than what it does for a
        // stack.
        let lowest = |stack: &Stack| stack.top.addr().get() - self.size as usize;
        let (chunks, cold) = (&self.chunks, &mut self.cold[from..]);
        cold.sort_unstable_by_key(lowest);
        for run in cold.chunk_by(|one, next| one.top.addr().get() == lowest(next)) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            // If they are not in one chunk, each is returned alone. An error means that memory is
            // locked: then it stays.
            if discard(chunks, lowest(first), last.top).is_none() {
                for stack in run {
                    let _ = discard(chunks, lowest(stack), stack.top);
                }
            }
        }
    }

    /// How much of a stack has been used, if it is one of these.
    pub(super) fn used(&self, stack: &Stack) -> Option<usize> {
        let size = self.size as usize;
        let (chunk, low) = find(&self.chunks, stack.top.addr().get() - size)?;
        // The page at the top of a stack may also contain a block.
        let end = (low + size).next_multiple_of(page_size());
        chunk.used_at_end(low + page_size()..end).ok().map(|used| used.saturating_sub(end - low - size))
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize) {
        (self.warm.len(), self.cold.len())
    }
}

/// The chunk that contains an address, and the offset in it.
fn find(chunks: &[Reservation], address: usize) -> Option<(&Reservation, usize)> {
    chunks.iter().rev().find_map(|chunk| Some((chunk, chunk.offset(address)?)))
}

/// Returns the memory of adjacent stacks in one chunk to the kernel.
fn discard(chunks: &[Reservation], low: usize, top: NonNull<u8>) -> Option<io::Result<()>> {
    let (chunk, offset) = find(chunks, low)?;
    let end = offset + (top.addr().get() - low);
    let whole = end / page_size() * page_size();
    (end <= chunk.length()).then(|| chunk.discard(offset..whole))
}

/// Makes the lowest page of a stack its guard.
fn protect(chunk: &Reservation, low: usize, guard: &Cell<Guard>) -> Result<(), StackError> {
    let page = low..low + page_size();
    if guard.get() == Guard::Mark {
        match chunk.guard(page.clone(), Guard::Mark) {
            Ok(()) => return Ok(()),
            // This kernel does not support guard marks, or memory is locked.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => guard.set(Guard::Protection),
            Err(error) => return Err(StackError::Memory(error)),
        }
    }
    chunk.guard(page, Guard::Protection).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => StackError::Guards,
        _ => StackError::Memory(error),
    })
}
