//! `pthread_barrier_*`: a barrier of this process is one of ours from its beginning to its end.
//!
//! What the program has is a `pthread_barrier_t` of 32 bytes. A barrier of ours is elsewhere, and in the 32 bytes stands where, and
//! a seal by which it is told from one of the C library's. Barriers that processes share are left to the C library.
//!
//! The C library allows to destroy a barrier as soon as one of its threads has come through, while the others are on their way out.
//! So does this: whoever waits has a share in the barrier, which is gone with the last one.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use counters::{Reason, WaitKind};
use libc::{pthread_barrier_t, pthread_barrierattr_t};
use wait::Barrier;
use wait::seat::{Seat, Seats};

use crate::barrier_table::BarrierTable;
use crate::bypass;
use crate::preserve_errno;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;

real_symbols! {
    fn pthread_barrier_init(barrier: *mut pthread_barrier_t, attributes: *const pthread_barrierattr_t, count: u32) -> c_int;
    fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int;
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int;
}

/// The most parties that a barrier of ours has: each takes some memory.
const MOST_PARTIES: u32 = 4096;

/// Which barriers of ours there are.
static BARRIERS: BarrierTable = BarrierTable::new();

/// What stands in a `pthread_barrier_t` in place of the C library's barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct BarrierHandle {
    /// Owned, by an [`Arc`].
    seats: *const Seats,
    /// Of this handle at this address: no barrier of the C library's has it, nor a copy of this one elsewhere.
    seal: u64,
    /// Its number in the register.
    number: usize,
}

const _: () = assert!(size_of::<BarrierHandle>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<BarrierHandle>() <= align_of::<pthread_barrier_t>());

impl BarrierHandle {
    fn new(barrier: *const pthread_barrier_t, seats: *const Seats, number: usize) -> BarrierHandle {
        BarrierHandle { seats, seal: Self::seal(barrier, seats, number), number }
    }

    /// In the C library's barrier the upper half of the seal is 0 or 128.
    fn seal(barrier: *const pthread_barrier_t, seats: *const Seats, number: usize) -> u64 {
        let mixed = (barrier.addr() ^ seats.addr().rotate_left(16) ^ number) as u64;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63
    }

    /// The handle at this address, if there is one.
    ///
    /// # Safety
    /// There are 32 bytes, which nobody changes meanwhile.
    unsafe fn at(barrier: *const pthread_barrier_t) -> Option<BarrierHandle> {
        // SAFETY: the caller says so; any bytes are a handle, if not a true one.
        let handle = unsafe { barrier.cast::<BarrierHandle>().read() };
        (handle.seal == Self::seal(barrier, handle.seats, handle.number)).then_some(handle)
    }

    /// Ends the barrier that the handle is of.
    ///
    /// # Safety
    /// The handle is true, no thread will come to the barrier any more, and this is done once.
    unsafe fn end(self) {
        BARRIERS.remove(self.number);
        // SAFETY: the handle owns its share, until now.
        unsafe { Arc::from_raw(self.seats) }.close();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: u32,
) -> c_int {
    // SAFETY: the caller's attributes.
    match preserve_errno(|| unsafe { ours(barrier, attributes, count) }) {
        Some(handle) => {
            // SAFETY: the caller has the room.
            unsafe { barrier.cast::<BarrierHandle>().write(handle) };
            0
        }
        // SAFETY: the caller's own call.
        None => unsafe { real::pthread_barrier_init(barrier, attributes, count) },
    }
}

/// A barrier of ours, where there can be one.
unsafe fn ours(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: u32,
) -> Option<BarrierHandle> {
    let settings = Settings::get_or_init();
    // SAFETY: the caller has the room, and nobody else uses it yet.
    let earlier = unsafe { BarrierHandle::at(barrier) };
    if let Some(earlier) = earlier.filter(|handle| BARRIERS.contains(handle.number, barrier.addr())) {
        // The program has forgotten a barrier, as on a stack, and nobody can find it any more.
        // SAFETY: the register says that the handle is true.
        unsafe { earlier.end() };
    }
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    if !attributes.is_null() {
        // SAFETY: the caller has initialised them.
        unsafe { libc::pthread_barrierattr_getpshared(attributes, &raw mut shared) };
    }
    if shared != libc::PTHREAD_PROCESS_PRIVATE {
        settings.statistics.pass_through(WaitKind::Barrier, Reason::ProcessShared, 1);
        return None;
    }
    if bypass::is_bypassed() {
        settings.statistics.pass_through(WaitKind::Barrier, Reason::DeepBinding, 1);
        return None;
    }
    // The original knows what to say of no parties.
    if count == 0 {
        return None;
    }
    let number = (count <= MOST_PARTIES).then(|| BARRIERS.add(barrier.addr())).flatten();
    let Some(number) = number else {
        settings.statistics.pass_through(WaitKind::Barrier, Reason::TooMany, 1);
        return None;
    };
    let seats = Arc::new(Seats::new(Barrier::with(count, settings.team_waiting())));
    Some(BarrierHandle::new(barrier, Arc::into_raw(seats), number))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller has initialised it, and no thread will come to it any more.
    let Some(handle) = (unsafe { BarrierHandle::at(barrier) }) else {
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_barrier_destroy(barrier) };
    };
    // SAFETY: as above; nobody finds the handle any more.
    preserve_errno(|| unsafe {
        barrier.write_bytes(0, 1);
        handle.end();
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller has initialised it, and it is not destroyed before all have arrived.
    match unsafe { BarrierHandle::at(barrier) }.zip(Settings::get()) {
        Some((handle, settings)) => {
            // SAFETY: the handle owns a share, and is not destroyed before this thread has arrived, which it does with a share of its own.
            let seats = ManuallyDrop::new(unsafe { Arc::from_raw(handle.seats) });
            preserve_errno(|| wait(Seat::of(&seats), settings, WaitKind::Barrier))
        }
        // SAFETY: the caller's own call.
        None => unsafe { real::pthread_barrier_wait(barrier) },
    }
}

/// Waits, and says what the original would of who leads.
fn wait(seat: Seat, settings: &Settings, subject: WaitKind) -> c_int {
    let tally = settings.tally(subject);
    tally.add_waits(1);
    let leads = seat.with(|party, _| {
        party.count_at(&tally.counters);
        party.wait().is_leader() && !cfg!(rowlock_canary = "a-barrier-has-no-leader")
    });
    if leads == Some(true) { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
}
