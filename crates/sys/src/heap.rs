//! The heap of the C library, and what happens if it refuses memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Lets all threads of this process share one heap, and returns large blocks to the kernel as soon
/// as they are freed. The C library otherwise reserves 64 MiB of address space for each of several
/// heaps. Heaps that exist remain, so call it before the first thread is started.
pub fn share() {
    // SAFETY: the calls change parameters of the allocator, which is valid at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// The size from which the kernel provides a block, in bytes. It is the C library's own initial
/// value, which would grow otherwise.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// The allocator of a command. Where the C library refuses memory, Rust would abort the process;
/// with this allocator it ends with a sentence and exit code 1, unless it [handles
/// refusals](handle_refusals) itself.
#[derive(Debug)]
pub struct Heap;

/// Whether the process handles refused memory itself.
static HANDLES_REFUSALS: AtomicBool = AtomicBool::new(false);

/// Lets refused memory be an error of the request from now on, as it is without [`Heap`]. Small
/// requests have no errors, and abort the process.
pub fn handle_refusals() {
    HANDLES_REFUSALS.store(true, Relaxed);
}

/// The memory if it was granted.
#[inline]
fn granted(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() && !HANDLES_REFUSALS.load(Relaxed) {
        end_without_memory(size);
    }
    memory
}

/// Ends the process. Neither allocates nor takes a lock that the program could hold.
#[cold]
fn end_without_memory(size: usize) -> ! {
    let mut text = [0; 160];
    let mut rest = &mut text[..];
    // The sentence fits, and there is nothing to do if it cannot be written.
    let _ = writeln!(
        rest,
        "error: {size} bytes of memory were refused; see `ulimit -v`, `ulimit -d` and the limits of control groups"
    );
    let left = rest.len();
    let _ = rustix::io::write(io::stderr(), &text[..text.len() - left]);
    std::process::exit(1)
}

// SAFETY: every block is one of the system's allocator, which gets the same requests.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's own request.
        granted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's own request.
        granted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's own request.
        granted(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's own request.
        unsafe { System.dealloc(block, layout) }
    }
}
