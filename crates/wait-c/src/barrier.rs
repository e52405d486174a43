//! Barriers.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use c_abi::{Failure, Out, Statistics, create_by_rule, given, status, write, write_statistics};
use wait::thread_slots::{ThreadSlot, ThreadSlots};
use wait::{Arrival, Deadline, Party};

use crate::argument;

/// The maximum number of parties of a barrier.
pub const ROWLOCK_BARRIER_MAX_PARTIES: u32 = 1_048_576;

/// A barrier, at which a team of threads meets repeatedly.
///
/// All that happened before a party's arrival is visible to all parties after the wait of that
/// round.
pub struct Barrier {
    slots: Arc<ThreadSlots>,
    completion: Completion,
}

/// The callback of the last arrival in a round, before the others are released.
#[derive(Clone, Copy)]
struct Completion {
    function: Option<extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
}

impl Completion {
    fn run(self) {
        if let Some(function) = self.function {
            function(self.argument);
        }
    }
}

// SAFETY: the documentation for C says that any of the threads may call the function with the
// argument. Here the pointer is only passed on.
unsafe impl Send for Completion {}
// SAFETY: as above.
unsafe impl Sync for Completion {}

impl Barrier {
    fn new(parties: u32, waiting: wait::Waiting, completion: Completion) -> Result<Barrier, Failure> {
        if !(1..=ROWLOCK_BARRIER_MAX_PARTIES).contains(&parties) {
            return Err(Failure::invalid(format_args!(
                "a barrier has 1 to {ROWLOCK_BARRIER_MAX_PARTIES} parties, not {parties}"
            )));
        }
        Ok(Barrier { slots: Arc::new(ThreadSlots::new(wait::Barrier::with(parties, waiting))), completion })
    }
}

/// The slot of the calling thread at a barrier, and the barrier's completion. They do not borrow
/// from the handle, which may be destroyed before the slot is dropped.
///
/// # Safety
/// The pointer is null, or points to a barrier that is not destroyed before this returns.
unsafe fn slot(barrier: *const Barrier) -> Result<(ThreadSlot, Completion), Failure> {
    // SAFETY: the caller guarantees it.
    let Barrier { slots, completion } = given(unsafe { barrier.as_ref() }, "barrier")?;
    Ok((ThreadSlot::of_current_thread(slots), *completion))
}

/// Calls `act` with the party of the calling thread at a barrier.
///
/// # Safety
/// See [`slot`].
unsafe fn with_party(
    barrier: *const Barrier,
    act: impl FnOnce(&mut Party<'_>, &wait::Barrier, Completion) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    let (slot, completion) = unsafe { slot(barrier) }?;
    let result = slot.with(|party, barrier| act(party, barrier, completion));
    result.unwrap_or_else(|| Err(Failure::invalid("this thread has left the barrier's team")))
}

/// Waits for the others in the round of an arrival, at most until the deadline.
fn complete(
    party: &mut Party<'_>,
    arrival: Arrival,
    deadline: Deadline,
    leads: Out<'_, bool>,
    arrival_out: Out<'_, u64>,
) -> Result<(), Failure> {
    party.complete_timeout(arrival, deadline).map(|result| write(leads, result.is_leader())).map_err(|arrival| {
        write(arrival_out, arrival.number());
        wait::TimedOut.into()
    })
}

/// Arrives and waits.
///
/// # Safety
/// See [`slot`].
unsafe fn arrive_and_wait(
    barrier: *const Barrier,
    deadline: Deadline,
    leads: Out<'_, bool>,
    arrival_out: Out<'_, u64>,
) -> Result<(), Failure> {
    let wait = |party: &mut Party<'_>, _: &_, completion: Completion| {
        let arrival = party.arrive_and(|| completion.run());
        complete(party, arrival, deadline, leads, arrival_out)
    };
    // SAFETY: the caller guarantees it.
    unsafe { with_party(barrier, wait) }
}

/// Waits for the others in the round of the arrival with this number.
///
/// # Safety
/// See [`slot`].
unsafe fn wait_for(
    barrier: *const Barrier,
    number: u64,
    deadline: Deadline,
    leads: Out<'_, bool>,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    unsafe {
        with_party(barrier, |party, barrier, _| complete(party, arrival(barrier, number)?, deadline, leads, None))
    }
}

fn arrival(barrier: &wait::Barrier, number: u64) -> Result<Arrival, Failure> {
    let unknown = || Failure::invalid(format_args!("there has been no arrival {number} at this barrier"));
    barrier.arrival(number).ok_or_else(unknown)
}

/// Creates a barrier for `parties` threads that wait by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `barrier` is NULL, `parties` is 0 or more than
/// ROWLOCK_BARRIER_MAX_PARTIES, or `rule` is not a rule; then `*barrier` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_create(
    barrier: Option<&mut MaybeUninit<Option<Box<Barrier>>>>,
    parties: u32,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { rowlock_barrier_create_with_completion(barrier, parties, rule, None, std::ptr::null_mut()) }
}

/// Like `rowlock_barrier_create`. In each round the last thread to arrive calls `completion` with
/// `argument` before the others are released. The function must neither throw nor use this barrier.
///
/// # Safety
/// `rule` is null or a C string. Every thread that arrives may call `completion` with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_create_with_completion(
    barrier: Option<&mut MaybeUninit<Option<Box<Barrier>>>>,
    parties: u32,
    rule: *const c_char,
    completion: Option<extern "C" fn(argument: *mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    let completion = Completion { function: completion, argument };
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(barrier, "barrier", rule, |waiting| Barrier::new(parties, waiting, completion)) }
}

/// Frees a barrier that no thread will use any more. Threads that it has released may still be
/// leaving. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_barrier_destroy(barrier: Option<Box<Barrier>>) {
    if let Some(barrier) = barrier {
        barrier.slots.close();
    }
}

/// Arrives, and waits until as many threads as there are parties have arrived. `*leads` is true for
/// the last one to arrive and false for the others. `leads` may be NULL.
///
/// Returns 0, or EINVAL if `barrier` is NULL.
///
/// # Safety
/// `barrier` is null, or points to a barrier that is not destroyed before the round is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_wait(barrier: *const Barrier, leads: Option<&mut MaybeUninit<bool>>) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { arrive_and_wait(barrier, Deadline::NEVER, leads, None) })
}

/// Like `rowlock_barrier_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`. After
/// a timeout the arrival still counts. Its number is stored in `*arrival`, unless that is NULL, and
/// the thread can continue to wait for its round by `rowlock_barrier_complete`.
///
/// Returns 0, ETIMEDOUT, or EINVAL, which is no arrival.
///
/// # Safety
/// As for `rowlock_barrier_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_wait_until(
    barrier: *const Barrier,
    deadline: Option<&libc::timespec>,
    leads: Option<&mut MaybeUninit<bool>>,
    arrival: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status(|| {
        let deadline = argument::until(deadline)?.into();
        // SAFETY: the caller guarantees it.
        unsafe { arrive_and_wait(barrier, deadline, leads, arrival) }
    })
}

/// Like `rowlock_barrier_wait_until`, with a timeout in nanoseconds that begins now.
///
/// # Safety
/// As for `rowlock_barrier_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_wait_timeout(
    barrier: *const Barrier,
    nanoseconds: u64,
    leads: Option<&mut MaybeUninit<bool>>,
    arrival: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { arrive_and_wait(barrier, Duration::from_nanos(nanoseconds).into(), leads, arrival) })
}

/// Arrives `count` times in one round (usually 1) without waiting. Stores the number of the arrival
/// in `*arrival`, for `rowlock_barrier_complete`.
///
/// Returns 0, or EINVAL, which is no arrival, if `barrier` or `arrival` is NULL, or `count` is 0 or
/// more than the number of parties. Additional arrivals count for the next round; then the number
/// is that of the last one.
///
/// # Safety
/// `barrier` is null, or points to a barrier that is not destroyed before the thread has arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_arrive(
    barrier: *const Barrier,
    count: u32,
    arrival: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status(|| {
        let arrival = given(arrival, "arrival")?;
        let arrive = |party: &mut Party<'_>, barrier: &wait::Barrier, completion: Completion| {
            let parties = barrier.parties();
            if !(1..=parties).contains(&count) {
                let message = format_args!("{count} arrivals at once at a barrier of {parties} parties");
                return Err(Failure::invalid(message));
            }
            for _ in 0..count {
                arrival.write(party.arrive_and(|| completion.run()).number());
            }
            Ok(())
        };
        // SAFETY: the caller guarantees it.
        unsafe { with_party(barrier, arrive) }
    })
}

/// Arrives for the last time without waiting: later rounds do not wait for the calling thread.
///
/// Returns 0, or EINVAL if `barrier` is NULL or all parties have left. A thread that has left must
/// not use the barrier again.
///
/// # Safety
/// As for `rowlock_barrier_arrive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_arrive_and_drop(barrier: *const Barrier) -> c_int {
    status(|| {
        // SAFETY: the caller guarantees it.
        let (slot, completion) = unsafe { slot(barrier) }?;
        slot.leave(|| completion.run())
            .map(drop)
            .ok_or_else(|| Failure::invalid("all parties have left the barrier already"))
    })
}

/// Waits until all have arrived in the round of the arrival with this number, made by any thread.
/// `*leads` is as for `rowlock_barrier_wait`.
///
/// Returns 0, or EINVAL if `barrier` is NULL or there has been no such arrival.
///
/// # Safety
/// As for `rowlock_barrier_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_complete(
    barrier: *const Barrier,
    arrival: u64,
    leads: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { wait_for(barrier, arrival, Deadline::NEVER, leads) })
}

/// Like `rowlock_barrier_complete`, but does not wait.
///
/// Returns 0, EBUSY if a party is missing, or EINVAL.
///
/// # Safety
/// `barrier` is null, or points to a barrier that is not destroyed before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_trycomplete(barrier: *const Barrier, arrival: u64) -> c_int {
    let check = |party: &mut Party<'_>, barrier: &_, _| {
        party.has_completed(&self::arrival(barrier, arrival)?).then_some(()).ok_or_else(Failure::would_block)
    };
    // SAFETY: the caller guarantees it.
    status(|| unsafe { with_party(barrier, check) })
}

/// Like `rowlock_barrier_complete`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
/// After a timeout the number can be used again.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
///
/// # Safety
/// As for `rowlock_barrier_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_complete_until(
    barrier: *const Barrier,
    arrival: u64,
    deadline: Option<&libc::timespec>,
    leads: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    status(|| {
        let deadline = argument::until(deadline)?.into();
        // SAFETY: the caller guarantees it.
        unsafe { wait_for(barrier, arrival, deadline, leads) }
    })
}

/// Like `rowlock_barrier_complete_until`, with a timeout in nanoseconds that begins now.
///
/// # Safety
/// As for `rowlock_barrier_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_barrier_complete_timeout(
    barrier: *const Barrier,
    arrival: u64,
    nanoseconds: u64,
    leads: Option<&mut MaybeUninit<bool>>,
) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { wait_for(barrier, arrival, Duration::from_nanos(nanoseconds).into(), leads) })
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_barrier_statistics(
    barrier: Option<&Barrier>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(barrier, "barrier")?.slots.barrier().statistics()))
}
