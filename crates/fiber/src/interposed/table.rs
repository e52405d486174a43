//! Tables in which fibers wait, by the address of an object of other code.
//!
//! A table allocates nothing: its nodes are on the fibers' stacks. So allocators may use locks that
//! wait here.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicUsize, fence};
use std::time::Instant;

use super::do_workers_exist;
use crate::current_worker::{CurrentWorker, InRuntime};
use crate::record::Fiber;
use crate::sync::lock_by_polling;
use crate::waitable::{Waitable, Woken};
use crate::waiting::list::{TakenList, WaitList, Waiter, Who};

/// What a fiber waits for.
#[derive(Clone, Copy, Default)]
pub(super) struct Key {
    pub(super) address: usize,
    /// It is woken by a call that has one of these bits.
    pub(super) bits: u32,
}

impl Key {
    /// All that wait for what is at this address.
    pub(super) fn at<T>(object: *const T) -> Key {
        Key { address: object.addr(), bits: u32::MAX }
    }
}

const BUCKETS: usize = 256;

/// A table; see the module.
pub(super) struct Table {
    /// See [`Waitable::kind`].
    kind: &'static str,
    buckets: [Mutex<WaitList<Key>>; BUCKETS],
    waiting: AtomicUsize,
}

thread_local! {
    /// The thread has locked a bucket: its signal handlers must not.
    static HAS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

impl Table {
    pub(super) const fn new(kind: &'static str) -> Table {
        Table { kind, buckets: [const { Mutex::new(WaitList::new()) }; BUCKETS], waiting: AtomicUsize::new(0) }
    }

    /// How many fibers are in the table.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Calls a function with the bucket of an address, for a caller in the runtime.
    fn with_bucket<R>(&self, address: usize, then: impl FnOnce(&mut WaitList<Key>) -> R) -> R {
        let bucket = &self.buckets[(address >> 2).wrapping_mul(0x9e37_79b9) >> 8 & (BUCKETS - 1)];
        HAS_LOCKED.set(true);
        // Never waits in the kernel, which would lead here again.
        let mut list = lock_by_polling(bucket);
        let result = then(&mut list);
        drop(list);
        HAS_LOCKED.set(false);
        result
    }

    /// Waits until woken, if it must: `must_wait` is called when others can see that it is about to
    /// wait, and none of them wakes it before that returns. `then` is called when it is listed.
    /// `None` if it need not wait.
    pub(super) fn wait(
        &self,
        here: CurrentWorker,
        key: Key,
        must_wait: impl FnOnce() -> bool,
        then: impl FnOnce(),
        deadline: Option<Instant>,
    ) -> Option<Woken> {
        let waiter = pin!(Waiter::new(key));
        let waiter = waiter.into_ref();
        waiter.set_who(Who::Fiber(here.current()));
        self.waiting.fetch_add(1, SeqCst);
        fence(SeqCst);
        let waits = self.with_bucket(key.address, |list| {
            let waits = must_wait();
            if waits {
                list.push(waiter);
            }
            waits
        });
        if !waits {
            self.waiting.fetch_sub(1, Relaxed);
            return None;
        }
        then();
        Some(here.block_quietly(&Listed { table: self, address: key.address, waiter }, deadline))
    }

    /// Wakes so many fibers that wait for this. Returns how many there were. A caller that is not
    /// to miss one has changed what it waits for, and then a fence.
    pub(super) fn wake(&self, key: Key, count: u32) -> u32 {
        if self.waiting() == 0 {
            return 0;
        }
        let inside = InRuntime::enter();
        // If the runtime itself has called, it may be changing its queue.
        self.wake_from(if inside.is_nested() { None } else { CurrentWorker::look() }, key, count)
    }

    /// The same for a caller in the runtime.
    pub(super) fn wake_from(&self, here: Option<CurrentWorker>, key: Key, count: u32) -> u32 {
        if self.waiting() == 0 || HAS_LOCKED.get() || !do_workers_exist() {
            return 0;
        }
        let (mut taken, mut woken) = (TakenList::new(), 0);
        self.with_bucket(key.address, |list| {
            // SAFETY: it is on the list, which the caller has.
            let is_one = |waiter: &Waiter<Key>| unsafe {
                waiter.payload().address == key.address && waiter.payload().bits & key.bits != 0
            };
            while woken < count
                && let Some(waiter) = list.take(is_one)
            {
                taken.push(waiter);
                woken += 1;
            }
        });
        self.waiting.fetch_sub(woken as usize, Relaxed);
        taken.wake(here);
        woken
    }
}

/// A fiber in a table.
struct Listed<'a> {
    table: &'a Table,
    address: usize,
    waiter: Pin<&'a Waiter<Key>>,
}

impl Waitable for Listed<'_> {
    fn leave(&self, _: Fiber) -> bool {
        let left = self.table.with_bucket(self.address, |list| list.remove(&self.waiter));
        self.table.waiting.fetch_sub(usize::from(left), Relaxed);
        left
    }

    fn is_in_c_library(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        self.table.kind
    }
}
