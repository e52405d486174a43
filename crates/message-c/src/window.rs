//! Windows: memory of each rank that the others read and change without its help.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;

use c_abi::{Failure, create, given, status, store, write};

use crate::argument::{self, Buffer};
use crate::communicator::{Communicator, used};
use crate::failure::failed;
use crate::lent::Lent;

/// Memory of all ranks of a communicator that they registered together, in words of 64 bits. Any
/// thread may use it.
pub struct Window(Lent<message::Window<'static>>);

/// The window behind a handle.
fn opened(window: Option<&Window>) -> Result<&message::Window<'static>, Failure> {
    given(window, "window").map(|window| window.0.get())
}

/// Memory of the caller, outside of the window: other ranks change that at any time.
fn outside(window: &message::Window<'_>, words: *const c_void, count: usize) -> Result<Buffer<u64>, Failure> {
    let (own, words) = (window.own(), Buffer::new(words, count, "words")?);
    words.expect_apart(&Buffer::<u64>::new(own.as_ptr().cast(), own.len(), "window")?)?;
    Ok(words)
}

/// Registers memory of so many words, full of zeros. All ranks must call this, and each chooses the
/// length of its own part. Zero counts as one.
///
/// Returns as `rowlock_communicator_barrier`, or EIO at all ranks if one has less memory than all
/// parts need together; then `*window` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_window(
    communicator: Option<&Communicator>,
    words: usize,
    window: Option<&mut MaybeUninit<Option<Box<Window>>>>,
) -> c_int {
    create(window, "window", || {
        let open = |communicator: &'static message::Communicator| communicator.window(words);
        // SAFETY: only the window has the reference, and gives it to nothing.
        unsafe { Lent::new(used(communicator)?, open) }.map(Window).map_err(failed)
    })
}

/// Frees a window that no thread uses any more, and stores NULL in `*window`. NULL is allowed for
/// both. Other ranks may go on using theirs.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_window_free(window: Option<&mut Option<Box<Window>>>) {
    drop(window.and_then(Option::take));
}

/// Stores the address of the words of this rank in `*words`, and their number in `*count`, unless
/// these are NULL. The address is valid until the window is freed. Others change the words at any
/// time between two fences, so accesses to words that they use must be atomic.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_window_own(
    window: Option<&Window>,
    words: Option<&mut MaybeUninit<*mut u64>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    status(|| {
        let own = opened(window)?.own();
        write(words, own.as_ptr().cast::<AtomicU64>().cast_mut().cast());
        write(count, own.len());
        Ok(())
    })
}

/// Writes `count` words to the memory of a rank, from this place on, counted in words. `words` must
/// be outside of the window.
///
/// Returns 0, EINVAL, or ERANGE if they are not within its memory.
///
/// # Safety
/// `words` is null or points to so many words, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_window_put(
    window: Option<&Window>,
    rank: c_int,
    place: usize,
    words: *const u64,
    count: usize,
) -> c_int {
    status(|| {
        let window = opened(window)?;
        let words = outside(window, words.cast(), count)?;
        // SAFETY: the caller guarantees it.
        window.put(argument::rank(rank)?, place, unsafe { words.read() }).map_err(failed)
    })
}

/// Reads `count` words from the memory of a rank, from this place on, counted in words. `words`
/// must be outside of the window.
///
/// Returns 0, EINVAL, or ERANGE if they are not within its memory.
///
/// # Safety
/// `words` is null or points to so many words, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_window_get(
    window: Option<&Window>,
    rank: c_int,
    place: usize,
    words: *mut u64,
    count: usize,
) -> c_int {
    status(|| {
        let window = opened(window)?;
        let words = outside(window, words.cast(), count)?;
        // SAFETY: the caller guarantees it.
        window.get(argument::rank(rank)?, place, unsafe { words.written() }).map_err(failed)
    })
}

/// Adds to a word in the memory of a rank, in one step, modulo 2^64. Stores the value before in
/// `*before`, unless that is NULL.
///
/// Returns 0, EINVAL, or ERANGE if the word is not within its memory.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_window_add(
    window: Option<&Window>,
    rank: c_int,
    place: usize,
    value: u64,
    before: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    store(before, || opened(window)?.add(argument::rank(rank)?, place, value).map_err(failed))
}

/// Waits until all ranks have called this. Then all that they put before is there.
///
/// Returns as `rowlock_communicator_barrier`.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_window_fence(window: Option<&Window>) -> c_int {
    status(|| opened(window)?.fence().map_err(failed))
}
