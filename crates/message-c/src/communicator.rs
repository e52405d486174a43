//! Communicators, and messages of their ranks.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use c_abi::{Failure, Statistics, given, status, store, write_statistics};
use message::{Source, Tag};

use crate::argument::{self, Buffer};
use crate::failure::failed;

/// The most ranks of a job.
pub const ROWLOCK_MAX_RANKS: c_int = 256;
/// As the source of a message to be received: any rank.
pub const ROWLOCK_ANY_SOURCE: c_int = -1;
/// As the tag of a message to be received: any tag.
pub const ROWLOCK_ANY_TAG: i64 = -1;
/// As the color of a rank that is in no part: see `rowlock_communicator_split`.
pub const ROWLOCK_NO_COLOR: i64 = -1;

const _: () = assert!(ROWLOCK_MAX_RANKS.cast_unsigned() == message::memory::MOST_RANKS);

/// A group of ranks that exchange messages, as one of them sees it. Ranks are counted from 0 in
/// each communicator. The numbers in error texts are those of the whole job.
///
/// Several threads may use a communicator at the same time, but not for collective calls. A message
/// that one thread sends after another is received after it, if both go to the same rank with the
/// same tag.
///
/// The child of a fork must not use the communicators, requests and windows of its parent. If no
/// other thread of the parent was in a call of the library, it may free them, which has no effect
/// on the parent's. To take part, it joins another job.
pub struct Communicator(pub(crate) Arc<message::Communicator>);

/// The source, tag and length of a message.
#[repr(C)]
pub struct Status {
    /// The rank of the sender in the communicator.
    pub source: c_int,
    /// The tag.
    pub tag: i64,
    /// The length in bytes.
    pub length: usize,
}

impl Communicator {
    pub(crate) fn new(communicator: message::Communicator) -> Communicator {
        Communicator(Arc::new(communicator))
    }
}

impl From<message::Status> for Status {
    fn from(status: message::Status) -> Status {
        Status { source: status.source.cast_signed(), tag: status.tag.into(), length: status.count }
    }
}

/// The messages that a receive or a probe accepts.
pub(crate) fn accepted(from: c_int, tag: i64) -> Result<(Source, Tag), Failure> {
    Ok((argument::source(from)?, argument::accepted_tag(tag)?))
}

/// The communicator behind a handle.
pub(crate) fn used(communicator: Option<&Communicator>) -> Result<&Arc<message::Communicator>, Failure> {
    given(communicator, "communicator").map(|communicator| &communicator.0)
}

/// Frees a communicator that no thread uses any more, and stores NULL in `*communicator`. NULL is
/// allowed for both.
///
/// With the last communicator, request or window of a rank, the rank leaves the job: others that
/// wait for it get an error. Messages that it has sent can be received even then, except for long
/// ones whose requests were not waited for. This call waits until all short ones are in shared
/// memory, as long as their receivers are there. A process that ends without it has died, for the
/// others.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_free(communicator: Option<&mut Option<Box<Communicator>>>) {
    drop(communicator.and_then(Option::take));
}

/// Stores the number of the calling rank in `*rank`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_rank(
    communicator: Option<&Communicator>,
    rank: Option<&mut MaybeUninit<c_int>>,
) -> c_int {
    status(|| {
        let own = used(communicator)?.rank().cast_signed();
        given(rank, "rank")?.write(own);
        Ok(())
    })
}

/// Stores the number of ranks in `*ranks`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_ranks(
    communicator: Option<&Communicator>,
    ranks: Option<&mut MaybeUninit<c_int>>,
) -> c_int {
    status(|| {
        let count = used(communicator)?.ranks().cast_signed();
        given(ranks, "ranks")?.write(count);
        Ok(())
    })
}

/// Stores the counts of all waits of this rank so far, in all communicators, in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_statistics(
    communicator: Option<&Communicator>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, used(communicator)?.statistics()))
}

/// Divides the ranks into communicators: those with the same color, 0 to UINT32_MAX, form one, in
/// the order of their keys, and then of their ranks. All ranks must call this. A rank with
/// ROWLOCK_NO_COLOR gets NULL.
///
/// Returns as `rowlock_communicator_barrier`, or EOVERFLOW if a rank has proposed eight million
/// communicators; in case of an error, `*part` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_split(
    communicator: Option<&Communicator>,
    color: i64,
    key: c_int,
    part: Option<&mut MaybeUninit<Option<Box<Communicator>>>>,
) -> c_int {
    status(|| {
        let part = given(part.map(|part| part.write(None)), "part")?;
        let invalid = || Failure::invalid(format_args!("a color is 0 to {}, not {color}", u32::MAX));
        let color = match color {
            ROWLOCK_NO_COLOR => None,
            color => Some(u32::try_from(color).map_err(|_| invalid())?),
        };
        let split = used(communicator)?.split(color, key).map_err(failed)?;
        *part = split.map(Communicator::new).map(Box::new);
        Ok(())
    })
}

/// Sends a message of `bytes` bytes to a rank. Returns as soon as the memory may change: a short
/// message is on its way then, and a long one has been read by the receiver. A tag is 0 to
/// UINT32_MAX.
///
/// Returns 0, EINVAL if an argument is not valid, EOWNERDEAD if the call has waited and any rank of
/// the job has died, EPIPE if the call has waited and the receiver has left, ECANCELED if another
/// message to it has failed, EBADMSG if the shared memory is damaged, or EIO if the system refuses
/// memory.
///
/// # Safety
/// `message` is null or points to so many bytes, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_send(
    communicator: Option<&Communicator>,
    to: c_int,
    tag: i64,
    message: *const c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let message = Buffer::<u8>::new(message, bytes, "message")?;
        let (to, tag) = (argument::rank(to)?, argument::tag(tag)?);
        // SAFETY: the caller guarantees it.
        used(communicator)?.send(to, tag, unsafe { message.read() }).map_err(failed)
    })
}

/// Waits for a message and receives it into the beginning of `buffer`, which has `bytes` bytes.
/// `from` may be ROWLOCK_ANY_SOURCE, and `tag` ROWLOCK_ANY_TAG. `*status` says what came, unless
/// `status` is NULL.
///
/// Returns 0, EMSGSIZE if the message does not fit and is kept for the next receive that matches,
/// ECANCELED if the sender has given it up, or as `rowlock_communicator_send`. In case of an error,
/// the content of the buffer is undefined.
///
/// # Safety
/// `buffer` is null or points to so many bytes, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_receive(
    communicator: Option<&Communicator>,
    from: c_int,
    tag: i64,
    buffer: *mut c_void,
    bytes: usize,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let buffer = Buffer::<u8>::new(buffer, bytes, "buffer")?;
        let (from, tag) = accepted(from, tag)?;
        // SAFETY: the caller guarantees it.
        let received = used(communicator)?.receive(from, tag, unsafe { buffer.written() });
        received.map(Status::from).map_err(failed)
    })
}

/// Sends a message and receives one at the same time, as `rowlock_communicator_send` and
/// `rowlock_communicator_receive`: without a copy in between, also where two ranks send each other
/// long messages. The buffers must not overlap.
///
/// Returns as these.
///
/// # Safety
/// As for these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_send_receive(
    communicator: Option<&Communicator>,
    to: c_int,
    sent_tag: i64,
    message: *const c_void,
    message_bytes: usize,
    from: c_int,
    tag: i64,
    buffer: *mut c_void,
    buffer_bytes: usize,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let message = Buffer::<u8>::new(message, message_bytes, "message")?;
        let buffer = Buffer::<u8>::new(buffer, buffer_bytes, "buffer")?;
        message.expect_apart(&buffer)?;
        let (to, sent_tag) = (argument::rank(to)?, argument::tag(sent_tag)?);
        let (from, tag) = accepted(from, tag)?;
        // SAFETY: the caller guarantees it, and they are apart.
        let (message, buffer) = unsafe { (message.read(), buffer.written()) };
        let received = used(communicator)?.send_receive((to, sent_tag, message), (from, tag, buffer));
        received.map(Status::from).map_err(failed)
    })
}

/// Waits for a message without receiving it. `*status` says what came, unless `status` is NULL.
///
/// Returns as `rowlock_communicator_receive`.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_probe(
    communicator: Option<&Communicator>,
    from: c_int,
    tag: i64,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let (from, tag) = accepted(from, tag)?;
        used(communicator)?.probe::<u8>(from, tag).map(Status::from).map_err(failed)
    })
}

/// Like `rowlock_communicator_probe`, without waiting.
///
/// Returns 0, EBUSY if there is no such message yet, or as `rowlock_communicator_receive`.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_iprobe(
    communicator: Option<&Communicator>,
    from: c_int,
    tag: i64,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let (from, tag) = accepted(from, tag)?;
        let found = used(communicator)?.iprobe::<u8>(from, tag).map_err(failed)?;
        found.map(Status::from).ok_or_else(Failure::would_block)
    })
}
