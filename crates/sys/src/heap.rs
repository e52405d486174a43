//! The heap of the C library, and what happens if it refuses memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::io::{self, Write};
use std::panic;
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

/// Lets a thread that is refused its alternate signal stack end the process as other refused memory
/// does. The standard library panics there, before it runs the thread, and aborts the process.
pub fn report_refused_signal_stacks() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // Nothing else tells this panic from others.
        if panic.location().is_some_and(|place| place.file().ends_with("/stack_overflow.rs")) {
            end_without_memory(format_args!("the signal stack of a thread was refused memory"));
        }
        report(panic);
    }));
}

/// The memory if it was granted.
#[inline]
fn granted(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() && !HANDLES_REFUSALS.load(Relaxed) {
        end_without_memory(format_args!("{size} bytes of memory were refused"));
    }
    memory
}

/// Ends the process. Neither allocates nor takes a lock that the program could hold.
#[cold]
fn end_without_memory(what: fmt::Arguments<'_>) -> ! {
    let mut text = [0; 160];
    let mut rest = &mut text[..];
    // The sentence fits, and there is nothing to do if it cannot be written.
    let _ = writeln!(rest, "error: {what}; see `ulimit -v`, `ulimit -d` and the limits of control groups");
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The address space of this process, in pages.
    fn pages() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_that_is_refused_its_signal_stack_ends_the_process_with_a_sentence() {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(sanitizer) = crate::thread_block::sanitizer::name() {
            eprintln!("skipped: the {sanitizer} sanitizer is refused memory first");
            return;
        }
        testing::isolated_by(
            |mut this| {
                testing::run(&mut this).expect_exit(1).expect_stderr("error: the signal stack of a thread was refused");
            },
            || {
                // The thread has no memory for a heap of its own.
                share();
                report_refused_signal_stacks();
                // With one page more each time, the first thread that begins has room for its
                // stack, but not for the signal stack.
                for more in 0.. {
                    let limit = (pages() + more) * rustix::param::page_size() as u64;
                    let limit = rustix::process::Rlimit { current: Some(limit), maximum: None };
                    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
                    let thread = thread::Builder::new().stack_size(64 << 10).spawn(|| ());
                    thread.into_iter().for_each(|thread| thread.join().unwrap());
                }
            },
        );
    }
}
