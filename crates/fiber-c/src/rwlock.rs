//! Reader-writer locks.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use fiber::{RwLockReadGuard, RwLockWriteGuard, TimedOut};
use libc::timespec;

use crate::object::{Kind, Place, Pointer, destroy, get, init};
use crate::runtime::Here;
use crate::thread::Thread;
use crate::time::Limit;

/// A reader-writer lock, and the threads that hold it.
pub struct Rwlock {
    lock: fiber::RwLock<()>,
    holders: RefCell<Vec<Holder>>,
}

/// A thread that holds a lock, with its guard, which C cannot keep.
struct Holder {
    thread: Thread,
    guard: Guard,
    /// How often it has locked it again.
    again: u32,
}

#[expect(dead_code, reason = "guards are only dropped")]
enum Guard {
    Read(RwLockReadGuard<'static, ()>),
    Write(RwLockWriteGuard<'static, ()>),
}

impl Kind for Rwlock {
    const TAG: &[u8; 8] = b"rwlock  ";
    const WORDS: usize = 32;

    fn new(_: u64) -> Option<Rwlock> {
        Some(Rwlock { lock: fiber::RwLock::new(()), holders: RefCell::default() })
    }

    fn is_busy(&self) -> bool {
        // The lock may have been handed to a thread that has not run since.
        self.lock.try_write().is_none()
    }
}

impl Rwlock {
    /// A thread that reads already reads again, even if others wait to write: it would wait for
    /// them, and they for it.
    fn read(&'static self, here: Here, limit: Limit) -> Result<(), c_int> {
        if let Some(me) = self.holders.borrow_mut().iter_mut().find(|holder| holder.thread == here.me) {
            return match me.guard {
                Guard::Read(_) => me.again.checked_add(1).map(|again| me.again = again).ok_or(libc::EAGAIN),
                Guard::Write(_) => Err(limit.deadlock()),
            };
        }
        let wait_until = |deadline| self.lock.try_read_until(deadline).ok_or(TimedOut);
        let guard = limit.wait(self.lock.try_read(), || self.lock.read(), wait_until)?;
        self.keep(here, Guard::Read(guard));
        Ok(())
    }

    fn write(&'static self, here: Here, limit: Limit) -> Result<(), c_int> {
        if self.holders.borrow().iter().any(|holder| holder.thread == here.me) {
            return Err(limit.deadlock());
        }
        let wait_until = |deadline| self.lock.try_write_until(deadline).ok_or(TimedOut);
        let guard = limit.wait(self.lock.try_write(), || self.lock.write(), wait_until)?;
        self.keep(here, Guard::Write(guard));
        Ok(())
    }

    fn keep(&self, here: Here, guard: Guard) {
        self.holders.borrow_mut().push(Holder { thread: here.me, guard, again: 0 });
    }

    /// EPERM if the caller does not hold it.
    fn unlock(&self, here: Here) -> Result<(), c_int> {
        let mut holders = self.holders.borrow_mut();
        let index = holders.iter().position(|holder| holder.thread == here.me).ok_or(libc::EPERM)?;
        match holders[index].again.checked_sub(1) {
            Some(again) => holders[index].again = again,
            None => drop(holders.swap_remove(index)),
        }
        Ok(())
    }
}

exports! { enter:
    fn my_pthread_rwlock_init(lock: Place<Rwlock>, _attributes: *const c_void) = |_| init(lock, 0);
    fn my_pthread_rwlock_destroy(lock: Pointer<Rwlock>) = |here| destroy(here, lock);
    fn my_pthread_rwlock_rdlock(lock: Pointer<Rwlock>) = |here| get(here, lock)?.read(here, Limit::Never);
    fn my_pthread_rwlock_tryrdlock(lock: Pointer<Rwlock>) = |here| get(here, lock)?.read(here, Limit::Now);
    fn my_pthread_rwlock_timedrdlock(lock: Pointer<Rwlock>, until: Option<&timespec>) = |here| {
        get(here, lock)?.read(here, Limit::Until(until))
    };
    fn my_pthread_rwlock_wrlock(lock: Pointer<Rwlock>) = |here| get(here, lock)?.write(here, Limit::Never);
    fn my_pthread_rwlock_trywrlock(lock: Pointer<Rwlock>) = |here| get(here, lock)?.write(here, Limit::Now);
    fn my_pthread_rwlock_timedwrlock(lock: Pointer<Rwlock>, until: Option<&timespec>) = |here| {
        get(here, lock)?.write(here, Limit::Until(until))
    };
    fn my_pthread_rwlock_unlock(lock: Pointer<Rwlock>) = |here| get(here, lock)?.unlock(here);
}
