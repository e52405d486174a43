//! Condition variables.

use std::ffi::c_int;
use std::time::Instant;

use fiber::TimedOut;
use libc::timespec;

use crate::mutex::{Mutex, chosen};
use crate::object::{Kind, Place, Pointer, destroy, get, init};
use crate::runtime::Here;
use crate::time::moment;

/// A condition variable, and the clock of its deadlines.
pub struct Condvar {
    condvar: fiber::Condvar,
    clock: libc::clockid_t,
}

impl Kind for Condvar {
    const TAG: &[u8; 8] = b"condvar ";

    fn new(clock: u64) -> Option<Condvar> {
        let clock = libc::clockid_t::try_from(clock).ok();
        let clock = clock.filter(|clock| matches!(*clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC))?;
        Some(Condvar { condvar: fiber::Condvar::new(), clock })
    }
}

impl Condvar {
    /// Waits with a mutex that the caller has locked, however often.
    fn wait(&self, here: Here, mutex: &'static Mutex, deadline: Option<Instant>) -> Result<(), c_int> {
        let (held, again) = mutex.release(here)?;
        let (held, in_time) = match deadline {
            None => (self.condvar.wait(held), Ok(())),
            Some(deadline) => self.condvar.wait_until(held, deadline),
        };
        mutex.keep(here, held, again);
        in_time.map_err(|TimedOut| libc::ETIMEDOUT)
    }
}

exports! { enter:
    fn my_pthread_cond_init(condvar: Place<Condvar>, clock: Option<&c_int>) = |_| init(condvar, chosen(clock));
    fn my_pthread_cond_destroy(condvar: Pointer<Condvar>) = |here| destroy(here, condvar);
    fn my_pthread_cond_wait(condvar: Pointer<Condvar>, mutex: Pointer<Mutex>) = |here| {
        get(here, condvar)?.wait(here, get(here, mutex)?, None)
    };
    fn my_pthread_cond_timedwait(
        condvar: Pointer<Condvar>,
        mutex: Pointer<Mutex>,
        until: Option<&timespec>,
    ) = |here| {
        let condvar = get(here, condvar)?;
        condvar.wait(here, get(here, mutex)?, Some(moment(condvar.clock, until)?))
    };
    fn my_pthread_cond_signal(condvar: Pointer<Condvar>) = |here| Ok(get(here, condvar)?.condvar.notify_one());
    fn my_pthread_cond_broadcast(condvar: Pointer<Condvar>) = |here| Ok(get(here, condvar)?.condvar.notify_all());
}
