//! Futexes: fibers wait in a [table](super::table), by the address of the word.
//!
//! `FUTEX_WAIT` compares the word and adds the fiber to the table under the lock of a bucket.
//! `FUTEX_WAKE` first wakes fibers there, and then threads in the kernel for the rest. A waker
//! changes the word, and then reads how many fibers wait; a waiter counts itself, and then reads
//! the word. Both steps are sequentially consistent on both sides, so one of the two sees the
//! other, as in the kernel. So programs without such fibers pay a fence and a load for each wakeup.
//!
//! # Workers that wait in the kernel
//! The library itself, and a fiber that may not wait in the table, wait in the kernel, and stop
//! their worker. A wakeup that only reaches a fiber of this worker would be lost meanwhile: the
//! fiber cannot run, and the worker waits for a word that has changed. So while a worker waits in
//! the kernel, a call that has woken enough fibers wakes a thread, too. The worker counts itself,
//! and then the kernel reads the word; a waker changes the word, and then reads the count.
//!
//! # What is not seen
//! A wakeup by the kernel, or by code that calls the kernel by itself, is not seen here. That is
//! harmless as long as the code that wakes also waits in its own way, and not by `syscall`: the
//! words are its own. Waits for a thread's end, which the kernel wakes, have the flag for other
//! processes, and so are in the kernel.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};
use std::time::Instant;

use libc::{c_int, c_long, timespec};
use rustix::io::Errno;

use super::table::{Key, Table};
use super::{Outcome, in_fiber, system_call};
use crate::current_worker::CurrentWorker;
use crate::fiber_thread;
use crate::time;
use crate::waitable::Woken;

static TABLE: Table = Table::new("a futex");

/// How many workers wait in the kernel, or fibers that have stopped theirs.
static WORKERS_IN_KERNEL: AtomicUsize = AtomicUsize::new(0);

/// Waits until the word is woken, if it has this value.
pub(super) fn wait(here: CurrentWorker, word: &AtomicU32, value: u32, bits: u32, deadline: Option<Instant>) -> Outcome {
    let key = Key { address: word.as_ptr().addr(), bits };
    match TABLE.wait(here, key, || word.load(SeqCst) == value, || (), deadline) {
        None => Err(Errno::AGAIN),
        // An orphaned fiber looks at the word again, and waits in the kernel.
        Some(Woken::Called | Woken::Cancelled) => Ok(0),
        Some(Woken::TimedOut) => Err(Errno::TIMEDOUT),
    }
}

/// Wakes so many fibers that wait for a word. Returns how many there were.
fn wake(address: usize, count: u32, bits: u32) -> u32 {
    fence(SeqCst);
    TABLE.wake(Key { address, bits }, count)
}

/// Waits in the kernel. `None` if the caller is no worker, so that it needs no count.
///
/// # Safety
/// As for the system call.
unsafe fn wait_in_kernel(arguments: [usize; 6]) -> Option<Outcome> {
    fiber_thread::worker()?;
    WORKERS_IN_KERNEL.fetch_add(1, SeqCst);
    // SAFETY: the caller's promise.
    let outcome = unsafe { system_call(libc::SYS_futex, arguments) };
    WORKERS_IN_KERNEL.fetch_sub(1, SeqCst);
    Some(outcome)
}

/// Wakes all fibers and threads that wait for a word, which may not exist any more.
pub(super) fn wake_all(word: *const AtomicU32) {
    wake(word.addr(), u32::MAX, u32::MAX);
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: it only takes an address.
    let _ = unsafe { system_call(libc::SYS_futex, [word.addr(), operation, i32::MAX as usize, 0, 0, 0]) };
}

/// The futex call. `None` if the real one must be made.
///
/// # Safety
/// As for the system call.
pub(super) unsafe fn call(
    word: usize,
    operation: c_int,
    value: u32,
    time: usize,
    other: usize,
    bits: u32,
) -> Option<Outcome> {
    const ALL: u32 = u32::MAX;
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG != 0;
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let (command, bits) = match operation & !flags {
        libc::FUTEX_WAIT => (libc::FUTEX_WAIT, ALL),
        libc::FUTEX_WAKE => (libc::FUTEX_WAKE, ALL),
        libc::FUTEX_WAIT_BITSET => (libc::FUTEX_WAIT, bits),
        libc::FUTEX_WAKE_BITSET => (libc::FUTEX_WAKE, bits),
        other => (other, ALL),
    };
    match command {
        libc::FUTEX_WAIT if is_private && bits != 0 && word != 0 && word.is_multiple_of(4) => in_fiber(|here| {
            // SAFETY: the caller's promise.
            let (word, until) = unsafe {
                (
                    AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(word)),
                    std::ptr::with_exposed_provenance::<timespec>(time).as_ref(),
                )
            };
            let is_absolute = operation & !flags == libc::FUTEX_WAIT_BITSET;
            let is_real = operation & libc::FUTEX_CLOCK_REALTIME != 0;
            let clock = is_absolute.then_some(if is_real { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC });
            let deadline = match until {
                Some(until) => Some(time::after(super::sleep::ahead(until, clock)?)),
                None => None,
            };
            Some(wait(here, word, value, bits, deadline))
        })
        // SAFETY: the caller's promise.
        .or_else(|| unsafe { wait_in_kernel([word, operation as usize, value as usize, time, other, bits as usize]) }),
        libc::FUTEX_WAKE if bits != 0 => {
            let woken = wake(word, value, bits);
            if woken == 0 {
                return None;
            }
            let rest = value - woken;
            let threads = rest.max(u32::from(WORKERS_IN_KERNEL.load(SeqCst) > 0));
            let arguments = [word, operation as usize, threads as usize, time, other, bits as usize];
            // SAFETY: the caller's promise.
            let more = if threads > 0 { unsafe { system_call(libc::SYS_futex, arguments) } } else { Ok(0) };
            Some(Ok(c_long::from(woken) + more.unwrap_or(0).min(rest.into())))
        }
        // Fibers wake and look again, which is always allowed.
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
            wake(word, ALL, ALL);
            None
        }
        libc::FUTEX_WAKE_OP => {
            wake(word, ALL, ALL);
            wake(other, ALL, ALL);
            None
        }
        _ => None,
    }
}
