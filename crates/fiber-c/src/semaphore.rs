//! Semaphores.

use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;

use fiber::Permit;
use libc::timespec;

use crate::object::{Kind, Place, Pointer, destroy, get, init};
use crate::time::Limit;

/// The largest value of a semaphore.
const MOST: usize = c_int::MAX as usize;

pub struct Semaphore(fiber::Semaphore);

impl Kind for Semaphore {
    const TAG: &[u8; 8] = b"semaphor";

    fn new(value: u64) -> Option<Semaphore> {
        let value = usize::try_from(value).ok().filter(|value| *value <= MOST)?;
        Some(Semaphore(fiber::Semaphore::new(value)))
    }
}

impl Semaphore {
    fn wait(&self, limit: Limit) -> Result<(), c_int> {
        let permit = limit.wait(self.0.try_acquire(), || self.0.acquire(), |deadline| self.0.acquire_until(deadline));
        permit.map(Permit::forget)
    }
}

exports! { enter_with_errno:
    fn my_sem_init(semaphore: Place<Semaphore>, shared: c_int, value: c_uint) = |_| {
        if shared == 0 { init(semaphore, value.into()) } else { Err(libc::ENOSYS) }
    };
    fn my_sem_destroy(semaphore: Pointer<Semaphore>) = |here| destroy(here, semaphore);
    fn my_sem_wait(semaphore: Pointer<Semaphore>) = |here| get(here, semaphore)?.wait(Limit::Never);
    fn my_sem_timedwait(semaphore: Pointer<Semaphore>, until: Option<&timespec>) = |here| {
        get(here, semaphore)?.wait(Limit::Until(until))
    };
    fn my_sem_trywait(semaphore: Pointer<Semaphore>) = |here| {
        get(here, semaphore)?.wait(Limit::Now).map_err(|_| libc::EAGAIN)
    };
    fn my_sem_post(semaphore: Pointer<Semaphore>) = |here| {
        let Semaphore(semaphore) = get(here, semaphore)?;
        if semaphore.available() < MOST { Ok(semaphore.release(1)) } else { Err(libc::EOVERFLOW) }
    };
    fn my_sem_getvalue(semaphore: Pointer<Semaphore>, value: Option<&mut MaybeUninit<c_int>>) = |here| {
        let available = get(here, semaphore)?.0.available();
        value.ok_or(libc::EINVAL)?.write(c_int::try_from(available).unwrap_or(c_int::MAX));
        Ok(())
    };
}
