//! Mutexes.

use std::cell::Cell;
use std::ffi::c_int;

use fiber::{MutexGuard, TimedOut};
use libc::timespec;

use crate::object::{Kind, Place, Pointer, destroy, get, init};
use crate::runtime::Here;
use crate::thread::{Thread, is_running};
use crate::time::Limit;

/// The type of a mutex that its owner may lock again. The types 0 and 2 do not differ.
const RECURSIVE: u64 = 1;

/// A mutex, and while it is locked its guard, which C cannot keep.
pub struct Mutex {
    mutex: fiber::Mutex<()>,
    guard: Cell<Option<MutexGuard<'static, ()>>>,
    /// 0 if there is none.
    owner: Cell<Thread>,
    /// How often the owner has locked it again.
    again: Cell<u32>,
    is_recursive: bool,
}

impl Kind for Mutex {
    const TAG: &[u8; 8] = b"mutex   ";

    fn new(kind: u64) -> Option<Mutex> {
        let (mutex, guard, owner, again) = (fiber::Mutex::new(()), Cell::new(None), Cell::new(0), Cell::new(0));
        (kind <= 2).then(|| Mutex { mutex, guard, owner, again, is_recursive: kind == RECURSIVE })
    }

    fn is_busy(&self) -> bool {
        self.mutex.is_locked()
    }
}

impl Mutex {
    pub(crate) fn lock(&'static self, here: Here, limit: Limit) -> Result<(), c_int> {
        let owner = self.owner.get();
        if owner == here.me && self.is_recursive {
            self.again.set(self.again.get().checked_add(1).ok_or(libc::EAGAIN)?);
            return Ok(());
        }
        // If its owner has ended, it will never be unlocked.
        if owner != 0 && (owner == here.me || !is_running(here, owner)) {
            return Err(limit.deadlock());
        }
        let wait_until = |deadline| self.mutex.try_lock_until(deadline).ok_or(TimedOut);
        let guard = limit.wait(self.mutex.try_lock(), || self.mutex.lock(), wait_until)?;
        self.keep(here, guard, 0);
        Ok(())
    }

    /// EPERM if the caller is not the owner.
    pub(crate) fn unlock(&self, here: Here) -> Result<(), c_int> {
        match self.again.get().checked_sub(1) {
            Some(again) if self.owner.get() == here.me => self.again.set(again),
            _ => drop(self.release(here)?),
        }
        Ok(())
    }

    /// Keeps the guard of the new owner, which has locked it this many more times.
    pub(crate) fn keep(&self, here: Here, guard: MutexGuard<'static, ()>, again: u32) {
        self.guard.set(Some(guard));
        self.owner.set(here.me);
        self.again.set(again);
    }

    /// The owner's guard, and how often it has locked it again. EPERM if the caller is not the
    /// owner.
    pub(crate) fn release(&self, here: Here) -> Result<(MutexGuard<'static, ()>, u32), c_int> {
        if self.owner.get() != here.me {
            return Err(libc::EPERM);
        }
        self.owner.set(0);
        Ok((self.guard.take().ok_or(libc::EPERM)?, self.again.take()))
    }
}

/// The number in an attribute, or the default.
pub(crate) fn chosen(attribute: Option<&c_int>) -> u64 {
    // A negative one is invalid: the attributes were destroyed.
    attribute.map_or(0, |number| u64::try_from(*number).unwrap_or(u64::MAX))
}

exports! { enter:
    fn my_pthread_mutex_init(mutex: Place<Mutex>, kind: Option<&c_int>) = |_| init(mutex, chosen(kind));
    fn my_pthread_mutex_destroy(mutex: Pointer<Mutex>) = |here| destroy(here, mutex);
    fn my_pthread_mutex_lock(mutex: Pointer<Mutex>) = |here| get(here, mutex)?.lock(here, Limit::Never);
    fn my_pthread_mutex_trylock(mutex: Pointer<Mutex>) = |here| get(here, mutex)?.lock(here, Limit::Now);
    fn my_pthread_mutex_timedlock(mutex: Pointer<Mutex>, until: Option<&timespec>) = |here| {
        get(here, mutex)?.lock(here, Limit::Until(until))
    };
    fn my_pthread_mutex_unlock(mutex: Pointer<Mutex>) = |here| get(here, mutex)?.unlock(here);
}
