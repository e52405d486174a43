//! The message when a fiber overflows its stack: which fiber, how large the stack was, and what to
//! do.

use std::io::Write;

use sys::fault::Text;

use crate::current_worker::CurrentWorker;

/// Explains overflows of fibers on all kernel threads that have an alternate stack. If the kernel
/// has no memory for that, an overflow is a fault like any other.
pub(crate) fn watch() {
    // SAFETY: it only reads what belongs to the thread, and writes a text of fixed length.
    let _ = unsafe { sys::fault::explain(explain) };
}

/// Runs in a signal handler, on the thread that has accessed the address.
fn explain(address: usize, text: &mut Text) -> bool {
    let Some(fiber) = CurrentWorker::look().and_then(|here| here.running()) else { return false };
    if !fiber.stack.get().is_some_and(|stack| stack.is_in_guard(address)) {
        return false;
    }
    let usual = CurrentWorker::look().map_or(0, |here| here.core().config.stack_size);
    let (number, size) = (fiber.number, fiber.stack_size().unwrap_or(usual).div_ceil(1024));
    // A text that is too long is truncated.
    let _ = write!(text, "fiber {number}");
    let _ = fiber.name().map(|name| write!(text, " `{name:.100}`"));
    let _ = writeln!(
        text,
        " has overflowed its stack of {size} KiB: give it a larger one with Builder::stack_size, or all of them with Config::stack_size"
    );
    true
}
