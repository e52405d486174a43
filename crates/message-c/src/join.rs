//! How a rank finds its job.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use c_abi::{Failure, create_by_rule, status, waiting};

use crate::argument;
use crate::communicator::Communicator;
use crate::failure::not_joined;

/// Joins the job that the environment tells, as one of the ranks that `rowlock prun` has started.
/// The threads of the rank wait by this rule (NULL: "adaptive").
///
/// Returns 0, EINVAL if `world` is NULL or `rule` is not a rule, ENOENT if the environment tells no
/// job, EEXIST if the rank has joined already, or another number; then `*world` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_message_join(
    world: Option<&mut MaybeUninit<Option<Box<Communicator>>>>,
    rule: *const c_char,
) -> c_int {
    let join = |waiting| message::join(waiting).map(Communicator::new).map_err(not_joined);
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(world, "world", rule, join) }
}

/// Joins the job of this name as this rank of so many, for programs that start their ranks
/// themselves. The name is the path of a file, preferably below `/dev/shm`, which the first rank
/// creates and the last one removes.
///
/// Returns as `rowlock_message_join`, or EINVAL if `path` is NULL or the numbers are not those of a
/// rank, or of this job.
///
/// # Safety
/// `path` and `rule` are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_message_join_named(
    world: Option<&mut MaybeUninit<Option<Box<Communicator>>>>,
    path: *const c_char,
    rank: c_int,
    ranks: c_int,
    rule: *const c_char,
) -> c_int {
    let join = |waiting| {
        if path.is_null() {
            return Err(Failure::null("path"));
        }
        // SAFETY: it is not null, and the caller guarantees the rest.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        let world = message::join_named(path, argument::rank(rank)?, argument::ranks(ranks)?, waiting);
        world.map(Communicator::new).map_err(not_joined)
    };
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(world, "world", rule, join) }
}

/// Creates a job whose ranks are threads of this process, and stores their communicators in the
/// array `worlds`, which has room for so many. Any thread may use any of them.
///
/// Returns 0, EINVAL if `worlds` is NULL, `ranks` is not 1 to ROWLOCK_MAX_RANKS, or `rule` is not a
/// rule, or another number; then the array is unchanged.
///
/// # Safety
/// `rule` is null or a C string. `worlds` is null or has room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_message_threads(
    worlds: *mut MaybeUninit<Option<Box<Communicator>>>,
    ranks: c_int,
    rule: *const c_char,
) -> c_int {
    status(|| {
        if worlds.is_null() {
            return Err(Failure::null("worlds"));
        }
        // SAFETY: the caller guarantees it.
        let waiting = unsafe { waiting(rule) }?;
        let made = message::threads(argument::ranks(ranks)?, waiting).map_err(not_joined)?;
        for (rank, world) in made.into_iter().enumerate() {
            // SAFETY: the array has room for all ranks.
            unsafe { worlds.add(rank).write(MaybeUninit::new(Some(Box::new(Communicator::new(world))))) };
        }
        Ok(())
    })
}
