//! Futexes: fibers wait in a table, by the address of the word.
//!
//! `FUTEX_WAIT` compares the word and adds the fiber to the table under the lock of a bucket.
//! `FUTEX_WAKE` first wakes fibers there, and then threads in the kernel for the rest. A waker
//! changes the word, and then reads how many fibers wait; a waiter counts itself, and then reads
//! the word. Both steps are sequentially consistent on both sides, so one of the two sees the
//! other, as in the kernel. So programs without such fibers pay a fence and a load for each wakeup.
//!
//! A wakeup by the kernel, or by code that calls the kernel by itself, is not seen here. That is
//! harmless as long as the code that wakes also waits in its own way, and not by `syscall`: the
//! words are its own. Waits for a thread's end, which the kernel wakes, have the flag for other
//! processes, and so are in the kernel.
//!
//! The table allocates nothing: its nodes are on the fibers' stacks. So allocators may use locks
//! that wait here.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};
use std::time::Instant;

use libc::{c_int, c_long, timespec};
use rustix::io::Errno;

use super::{Outcome, in_fiber, system_call};
use crate::current_worker::{CurrentWorker, InRuntime};
use crate::record::Fiber;
use crate::sync::lock_by_polling;
use crate::time;
use crate::waitable::{Waitable, Woken};
use crate::waiting::list::{TakenList, WaitList, Waiter, Who};

/// What a fiber waits for.
#[derive(Default)]
struct Key {
    address: usize,
    bits: u32,
}

const BUCKETS: usize = 256;

static TABLE: [Mutex<WaitList<Key>>; BUCKETS] = [const { Mutex::new(WaitList::new()) }; BUCKETS];

/// How many fibers are in the table.
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread has locked a bucket: its signal handlers must not.
    static HAS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function with the bucket of an address, for a caller in the runtime.
fn with_bucket<R>(address: usize, then: impl FnOnce(&mut WaitList<Key>) -> R) -> R {
    let bucket = &TABLE[(address >> 2).wrapping_mul(0x9e37_79b9) >> 8 & (BUCKETS - 1)];
    HAS_LOCKED.set(true);
    // Never waits in the kernel, which would lead here again.
    let mut list = lock_by_polling(bucket);
    let result = then(&mut list);
    drop(list);
    HAS_LOCKED.set(false);
    result
}

/// A fiber in the table.
struct Listed<'a> {
    address: usize,
    waiter: Pin<&'a Waiter<Key>>,
}

impl Waitable for Listed<'_> {
    fn leave(&self, _: Fiber) -> bool {
        let left = with_bucket(self.address, |list| list.remove(&self.waiter));
        WAITING.fetch_sub(usize::from(left), Relaxed);
        left
    }

    fn is_in_c_library(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        "a futex"
    }
}

/// Waits until the word is woken, if it has this value.
pub(super) fn wait(here: CurrentWorker, word: &AtomicU32, value: u32, bits: u32, deadline: Option<Instant>) -> Outcome {
    let address = word.as_ptr().addr();
    let waiter = pin!(Waiter::new(Key { address, bits }));
    let waiter = waiter.into_ref();
    waiter.set_who(Who::Fiber(here.current()));
    WAITING.fetch_add(1, SeqCst);
    fence(SeqCst);
    let waits = with_bucket(address, |list| {
        let waits = word.load(SeqCst) == value;
        if waits {
            list.push(waiter);
        }
        waits
    });
    if !waits {
        WAITING.fetch_sub(1, Relaxed);
        return Err(Errno::AGAIN);
    }
    match here.block_quietly(&Listed { address, waiter }, deadline) {
        // An orphaned fiber looks at the word again, and waits in the kernel.
        Woken::Called | Woken::Cancelled => Ok(0),
        Woken::TimedOut => Err(Errno::TIMEDOUT),
    }
}

/// Wakes so many fibers that wait for a word. Returns how many there were.
pub(super) fn wake(address: usize, count: u32, bits: u32) -> u32 {
    fence(SeqCst);
    if WAITING.load(Relaxed) == 0 || HAS_LOCKED.get() {
        return 0;
    }
    let inside = InRuntime::enter();
    let (mut taken, mut woken) = (TakenList::new(), 0);
    with_bucket(address, |list| {
        // SAFETY: it is on the list, which the caller has.
        let is_one =
            |waiter: &Waiter<Key>| unsafe { waiter.payload().address == address && waiter.payload().bits & bits != 0 };
        while woken < count
            && let Some(waiter) = list.take(is_one)
        {
            taken.push(waiter);
            woken += 1;
        }
    });
    WAITING.fetch_sub(woken as usize, Relaxed);
    // If the runtime itself has called, it may be changing its queue.
    taken.wake(if inside.is_nested() { None } else { CurrentWorker::look() });
    woken
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
        }),
        libc::FUTEX_WAKE if bits != 0 => {
            let woken = wake(word, value, bits);
            if woken == 0 {
                return None;
            }
            let rest = [word, operation as usize, (value - woken) as usize, time, other, bits as usize];
            // SAFETY: the caller's promise.
            let more = if woken < value { unsafe { system_call(libc::SYS_futex, rest) } } else { Ok(0) };
            Some(Ok(c_long::from(woken) + more.unwrap_or(0)))
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
