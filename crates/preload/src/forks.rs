//! Forks, counted without system calls, which the program may have forbidden itself.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// See [`count`].
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The number of forks between the process that began and this one.
pub(crate) fn count() -> u32 {
    COUNT.load(Relaxed)
}

/// Begins to count.
pub(crate) fn prepare() {
    extern "C" fn add() {
        COUNT.fetch_add(1, Relaxed);
    }
    // It only fails without memory. Then the program will not get far.
    // SAFETY: the function only changes a number.
    unsafe { libc::pthread_atfork(None, None, Some(add)) };
}
