//! Requests: sends and receives that no call waits for.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use c_abi::{Failure, create, given, status, store};

use crate::argument::{self, Buffer};
use crate::communicator::{Communicator, Status, accepted, used};
use crate::failure::failed;
use crate::lent::Lent;

/// A message that is being sent, with a copy of it.
pub struct SendRequest(Lent<message::SendRequest<'static, u8>>);

/// A receive that was posted: the next message that matches belongs to it.
pub struct ReceiveRequest(Lent<message::ReceiveRequest<'static, u8>>);

/// The handle of a request, which is ended by a call.
fn ended<T>(request: Option<&mut Option<Box<T>>>) -> Result<Box<T>, Failure> {
    given(request.and_then(Option::take), "request")
}

/// Copies a message and sends it in this call or in later ones of this rank. Never waits.
///
/// Returns 0, EINVAL if an argument is not valid, ENOMEM if there is no memory for the copy, or
/// EBADMSG; then `*request` is NULL.
///
/// # Safety
/// `message` is null or points to so many bytes, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_isend(
    communicator: Option<&Communicator>,
    to: c_int,
    tag: i64,
    message: *const c_void,
    bytes: usize,
    request: Option<&mut MaybeUninit<Option<Box<SendRequest>>>>,
) -> c_int {
    create(request, "request", || {
        let (to, tag) = (argument::rank(to)?, argument::tag(tag)?);
        // SAFETY: the caller guarantees it.
        let message = unsafe { Buffer::<u8>::new(message, bytes, "message")?.read() };
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).map_err(|why| Failure::new(libc::ENOMEM, why))?;
        copy.extend_from_slice(message);
        let send = |communicator: &'static message::Communicator| communicator.isend(to, tag, copy);
        // SAFETY: only the request has the reference, and gives it to nothing.
        unsafe { Lent::new(used(communicator)?, send) }.map(SendRequest).map_err(failed)
    })
}

/// Tells whether a message is complete: received, or in shared memory. Makes progress.
///
/// Returns 0 if it is, EBUSY if not, or as `rowlock_communicator_send` if it could not be sent.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_send_request_test(request: Option<&SendRequest>) -> c_int {
    status(|| {
        let is_complete = given(request, "request")?.0.get().test().map_err(failed)?;
        is_complete.then_some(()).ok_or_else(Failure::would_block)
    })
}

/// Waits until a message is complete. Frees the request, in case of an error too, and stores NULL
/// in `*request`.
///
/// Returns 0, EINVAL if `request` or `*request` is NULL, or as `rowlock_communicator_send`.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_send_request_wait(request: Option<&mut Option<Box<SendRequest>>>) -> c_int {
    // SAFETY: the wait drops the request.
    status(|| unsafe { ended(request)?.0.end(message::SendRequest::wait) }.map(drop).map_err(failed))
}

/// Frees a request without waiting, and stores NULL in `*request`. NULL is allowed for both. The
/// message is sent nevertheless. But if the rank leaves the job before a long one has been read,
/// the receiver gets an error instead.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_send_request_free(request: Option<&mut Option<Box<SendRequest>>>) {
    drop(ended(request));
}

/// Posts a receive: the next message that matches belongs to the request. Its buffer is given by
/// `rowlock_receive_request_wait`. `from` may be ROWLOCK_ANY_SOURCE, and `tag` ROWLOCK_ANY_TAG.
///
/// Returns 0, or EINVAL; then `*request` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_ireceive(
    communicator: Option<&Communicator>,
    from: c_int,
    tag: i64,
    request: Option<&mut MaybeUninit<Option<Box<ReceiveRequest>>>>,
) -> c_int {
    create(request, "request", || {
        let (from, tag) = accepted(from, tag)?;
        let receive = |communicator: &'static message::Communicator| communicator.ireceive(from, tag);
        // SAFETY: only the request has the reference, and gives it to nothing.
        unsafe { Lent::new(used(communicator)?, receive) }.map(ReceiveRequest).map_err(failed)
    })
}

/// Tells whether the message of a request has arrived. Then `*status` says how long a buffer must
/// be, unless `status` is NULL. Makes progress.
///
/// Returns 0 if it has, EBUSY if not, or as `rowlock_communicator_receive`.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_receive_request_test(
    request: Option<&ReceiveRequest>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let arrived = given(request, "request")?.0.get().test().map_err(failed)?;
        arrived.map(Status::from).ok_or_else(Failure::would_block)
    })
}

/// Waits for the message of a request and receives it into the beginning of `buffer`, which has
/// `bytes` bytes. Frees the request, in case of an error too, and stores NULL in `*request`. If
/// `buffer` is NULL although it has bytes, the request stays.
///
/// Returns 0, EINVAL if `request` or `*request` is NULL, or as `rowlock_communicator_receive`. A
/// message that does not fit is there for the next receive that matches.
///
/// # Safety
/// `buffer` is null or points to so many bytes, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_receive_request_wait(
    request: Option<&mut Option<Box<ReceiveRequest>>>,
    buffer: *mut c_void,
    bytes: usize,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    store(status, || {
        let buffer = Buffer::<u8>::new(buffer, bytes, "buffer")?;
        // SAFETY: the caller guarantees it.
        let buffer = unsafe { buffer.written() };
        // SAFETY: the wait drops the request.
        let received = unsafe { ended(request)?.0.end(|request| request.wait(buffer)) };
        received.map(Status::from).map_err(failed)
    })
}

/// Frees a request without waiting, and stores NULL in `*request`. NULL is allowed for both. A
/// message that belonged to it is there for other receives.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_receive_request_free(request: Option<&mut Option<Box<ReceiveRequest>>>) {
    drop(ended(request));
}
