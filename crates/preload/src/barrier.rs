//! `pthread_barrier_*`: barriers within the process are replaced by ours.
//!
//! The program has a `pthread_barrier_t` of 32 bytes. Our barrier is allocated elsewhere, and the
//! 32 bytes hold a handle with its address and a seal that distinguishes it from a barrier of the C
//! library. Barriers shared between processes are left to the C library.
//!
//! The C library allows destroying a barrier as soon as one of its threads has passed it, while the
//! others are still leaving. To support this, every waiting thread shares the ownership of the
//! barrier, which is freed by the last one. The 32 bytes are read before the thread arrives, and
//! not again.
//!
//! The barriers of the C library take no memory, so the program does not expect that an
//! initialization or a wait lacks some. A barrier for which there is none is left to the C library,
//! and waits do without.

use std::collections::TryReserveError;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use counters::{Reason, WaitKind};
use libc::{pthread_barrier_t, pthread_barrierattr_t};
use wait::Barrier;
use wait::thread_slots::{ThreadSlot, ThreadSlots};

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

/// The maximum number of parties of one of our barriers: each of them has memory for a list of all.
const MAX_PARTIES: u32 = 4096;

/// All our barriers.
static BARRIERS: BarrierTable = BarrierTable::new();

/// The content of a `pthread_barrier_t` that stands for a barrier of ours.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct BarrierHandle {
    /// Owned, by an [`Arc`].
    slots: *const ThreadSlots,
    /// The seal of this handle at this address. Neither a barrier of the C library nor a copy of
    /// this handle elsewhere has it.
    seal: u64,
    /// Its number in the table.
    number: usize,
}

const _: () = assert!(size_of::<BarrierHandle>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<BarrierHandle>() <= align_of::<pthread_barrier_t>());

impl BarrierHandle {
    fn new(barrier: *const pthread_barrier_t, slots: *const ThreadSlots, number: usize) -> BarrierHandle {
        BarrierHandle { slots, seal: Self::seal(barrier, slots, number), number }
    }

    /// In a barrier of the C library the upper half of the seal is 0 or 128.
    fn seal(barrier: *const pthread_barrier_t, slots: *const ThreadSlots, number: usize) -> u64 {
        let mixed = (barrier.addr() ^ slots.addr().rotate_left(16) ^ number) as u64;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63
    }

    /// The handle at this address, if there is one.
    ///
    /// # Safety
    /// There are 32 readable bytes, which do not change meanwhile.
    unsafe fn at(barrier: *const pthread_barrier_t) -> Option<BarrierHandle> {
        // SAFETY: by the promise of the caller; any bytes are a handle, if not a valid one.
        let handle = unsafe { barrier.cast::<BarrierHandle>().read() };
        (handle.seal == Self::seal(barrier, handle.slots, handle.number)).then_some(handle)
    }

    /// Ends the barrier of this handle.
    ///
    /// # Safety
    /// The handle is valid, no thread will arrive at the barrier any more, and this is called once.
    unsafe fn end(self) {
        // SAFETY: the handle has owned a reference until now.
        let slots = unsafe { Arc::from_raw(self.slots) };
        BARRIERS.remove(self.number, slots.barrier().parties());
        slots.close();
    }
}

/// # Safety
/// As for the real symbol: no thread uses the memory yet.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: u32,
) -> c_int {
    // SAFETY: the attributes of the caller.
    match preserve_errno(|| unsafe { create_handle(barrier, attributes, count) }) {
        Some(handle) => {
            // SAFETY: the caller provides the memory.
            unsafe { barrier.cast::<BarrierHandle>().write(handle) };
            0
        }
        // SAFETY: the caller's own call.
        None => unsafe { real::pthread_barrier_init(barrier, attributes, count) },
    }
}

/// Creates a barrier of ours, if possible.
///
/// # Safety
/// As for [`pthread_barrier_init`].
unsafe fn create_handle(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: u32,
) -> Option<BarrierHandle> {
    let settings = Settings::get_or_init();
    let refuse = |reason| {
        settings.pass_through(WaitKind::Barrier, reason);
        None
    };
    // SAFETY: the caller provides the memory, and no other thread uses it yet.
    let earlier = unsafe { BarrierHandle::at(barrier) };
    if let Some(earlier) = earlier.filter(|handle| BARRIERS.contains(handle.number, barrier.addr())) {
        // The program has abandoned this barrier, for example on a stack.
        // SAFETY: the table shows that the handle is valid, and no thread can reach it any more.
        unsafe { earlier.end() };
    }
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    if !attributes.is_null() {
        // SAFETY: the caller has initialized them.
        unsafe { libc::pthread_barrierattr_getpshared(attributes, &raw mut shared) };
    }
    if shared != libc::PTHREAD_PROCESS_PRIVATE {
        return refuse(Reason::ProcessShared);
    }
    if bypass::is_bypassed() {
        return refuse(Reason::DeepBinding);
    }
    // The real symbol reports the error of zero parties.
    if count == 0 {
        return None;
    }
    let number = (count <= MAX_PARTIES).then(|| BARRIERS.add(barrier.addr(), count)).flatten();
    let Some(number) = number else {
        return refuse(Reason::TooMany);
    };
    let Ok(slots) = create_slots(count, settings) else {
        BARRIERS.remove(number, count);
        return refuse(Reason::Memory);
    };
    Some(BarrierHandle::new(barrier, Arc::into_raw(slots), number))
}

/// Creates a barrier of ours. Fails without memory for it.
fn create_slots(parties: u32, settings: &Settings) -> Result<Arc<ThreadSlots>, TryReserveError> {
    find_room()?;
    let barrier = Barrier::try_with(parties, settings.team_waiting())?;
    find_room()?;
    Ok(Arc::new(ThreadSlots::new(barrier)))
}

/// Fails if there is no memory for the small objects that are allocated next. Their own allocation
/// would abort the process.
fn find_room() -> Result<(), TryReserveError> {
    const ROOM: usize = 32 << 10;
    let mut room = Vec::<u8>::new();
    let found = room.try_reserve_exact(ROOM);
    // So that the compiler does not leave out the allocation of what is not used.
    std::hint::black_box(&mut room);
    found
}

/// # Safety
/// As for the real symbol: no thread will arrive any more.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller has initialized it, and no thread will arrive any more.
    let Some(handle) = (unsafe { BarrierHandle::at(barrier) }) else {
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_barrier_destroy(barrier) };
    };
    // SAFETY: as above; no thread finds the handle any more.
    preserve_errno(|| unsafe {
        barrier.write_bytes(0, 1);
        handle.end();
    });
    0
}

/// # Safety
/// As for the real symbol: the barrier is initialized, and not destroyed before all threads have
/// arrived.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller has initialized it, and it is not destroyed before all threads have
    // arrived.
    match unsafe { BarrierHandle::at(barrier) }.zip(Settings::get()) {
        Some((handle, settings)) => {
            // SAFETY: the handle owns a reference, and is not destroyed before this thread has
            // arrived, which it does with a reference of its own.
            let slots = ManuallyDrop::new(unsafe { Arc::from_raw(handle.slots) });
            preserve_errno(|| wait(ThreadSlot::of_current_thread(&slots), settings))
        }
        // SAFETY: the caller's own call.
        None => unsafe { real::pthread_barrier_wait(barrier) },
    }
}

/// Waits, and returns what the real symbol would return to the leader or to another thread.
fn wait(slot: ThreadSlot, settings: &Settings) -> c_int {
    let counts = settings.count_wait(WaitKind::Barrier);
    let leads = slot.with(|party, _| {
        party.count_in(&counts.counters);
        party.wait().is_leader() && !cfg!(rowlock_canary = "a-barrier-has-no-leader")
    });
    if leads == Some(true) { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
}
