//! Barriers.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use crate::object::{Kind, Place, Pointer, destroy, get, init};

/// The status of one thread of each round.
const SERIAL_THREAD: c_int = -1;

/// A barrier, and how many threads of the round have arrived.
pub struct Barrier {
    barrier: fiber::Barrier,
    arrived: Cell<usize>,
}

impl Kind for Barrier {
    const TAG: &[u8; 8] = b"barrier ";

    fn new(parties: u64) -> Option<Barrier> {
        let parties = usize::try_from(parties).ok().filter(|parties| *parties > 0)?;
        Some(Barrier { barrier: fiber::Barrier::new(parties), arrived: Cell::new(0) })
    }

    fn is_busy(&self) -> bool {
        self.arrived.get() > 0
    }
}

exports! { enter:
    fn my_pthread_barrier_init(barrier: Place<Barrier>, _attributes: *const c_void, parties: c_uint) = |_| {
        init(barrier, parties.into())
    };
    fn my_pthread_barrier_destroy(barrier: Pointer<Barrier>) = |here| destroy(here, barrier);
    fn my_pthread_barrier_wait(barrier: Pointer<Barrier>) = |here| {
        let Barrier { barrier, arrived } = get(here, barrier)?;
        arrived.set((arrived.get() + 1) % barrier.parties());
        if barrier.wait().is_leader() { Err(SERIAL_THREAD) } else { Ok(()) }
    };
}
