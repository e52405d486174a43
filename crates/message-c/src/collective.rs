//! Collective calls: all ranks of a communicator make the same calls in the same order, and none at
//! the same time in two of its threads.

use std::ffi::{c_int, c_void};

use c_abi::{Failure, status};

use crate::argument::{self, Buffer};
use crate::communicator::{Communicator, used};
use crate::failure::failed;
use crate::operation::{self, Number, Operation, Type};

/// The length of equal parts for all ranks. Saturates: no buffer is that long, so a later check
/// refuses it.
fn of_all(communicator: &message::Communicator, bytes: usize) -> usize {
    bytes.saturating_mul(communicator.ranks() as usize)
}

/// Waits until all ranks have called this. As in all collective calls, all ranks must make the same
/// ones in the same order.
///
/// Returns 0, EINVAL if an argument is not valid, EMSGSIZE if ranks take part with different
/// lengths, EOWNERDEAD if a rank has died, EPIPE if one has left, ECANCELED if one has given up,
/// EBADMSG if the shared memory is damaged, or EIO if the system refuses memory.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_communicator_barrier(communicator: Option<&Communicator>) -> c_int {
    status(|| used(communicator)?.barrier().map_err(failed))
}

/// Copies the bytes of the rank `root` to all ranks.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `values` is null or points to so many bytes, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_broadcast(
    communicator: Option<&Communicator>,
    root: c_int,
    values: *mut c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let values = Buffer::<u8>::new(values, bytes, "values")?;
        // SAFETY: the caller guarantees it.
        used(communicator)?.broadcast(argument::rank(root)?, unsafe { values.written() }).map_err(failed)
    })
}

/// Divides the values of the rank `root`, `bytes` for each rank, among all ranks in their order.
/// Only the root needs values; at the others they may be NULL. The buffers must not overlap.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `part` is null or points to so many bytes, which nothing else uses during the call. At the root,
/// `values` is null or points to so many bytes for each rank, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_scatter(
    communicator: Option<&Communicator>,
    root: c_int,
    values: *const c_void,
    part: *mut c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let (communicator, root) = (used(communicator)?, argument::rank(root)?);
        let part = Buffer::<u8>::new(part, bytes, "part")?;
        let all = if communicator.rank() == root { of_all(communicator, bytes) } else { 0 };
        let values = Buffer::<u8>::new(values, all, "values")?;
        values.expect_apart(&part)?;
        // SAFETY: the caller guarantees it, and they are apart.
        let (values, part) = unsafe { (values.read(), part.written()) };
        communicator.scatter(root, values, part).map_err(failed)
    })
}

/// Collects the parts of all ranks, `bytes` of each, at the rank `root`, in the order of ranks.
/// Only the root needs room for all; at the others, `values` may be NULL. The buffers must not
/// overlap.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `part` is null or points to so many bytes, which do not change during the call. At the root,
/// `values` is null or points to so many bytes for each rank, which nothing else uses during the
/// call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_gather(
    communicator: Option<&Communicator>,
    root: c_int,
    part: *const c_void,
    values: *mut c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let (communicator, root) = (used(communicator)?, argument::rank(root)?);
        let part = Buffer::<u8>::new(part, bytes, "part")?;
        let all = if communicator.rank() == root { of_all(communicator, bytes) } else { 0 };
        let values = Buffer::<u8>::new(values, all, "values")?;
        values.expect_apart(&part)?;
        // SAFETY: the caller guarantees it, and they are apart.
        let (part, values) = unsafe { (part.read(), values.written()) };
        communicator.gather(root, part, values).map_err(failed)
    })
}

/// Collects the parts of all ranks, `bytes` of each, at all ranks. The buffers must not overlap.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `part` is null or points to so many bytes, which do not change during the call. `values` is null
/// or points to so many bytes for each rank, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_all_gather(
    communicator: Option<&Communicator>,
    part: *const c_void,
    values: *mut c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let communicator = used(communicator)?;
        let part = Buffer::<u8>::new(part, bytes, "part")?;
        let values = Buffer::<u8>::new(values, of_all(communicator, bytes), "values")?;
        values.expect_apart(&part)?;
        // SAFETY: the caller guarantees it, and they are apart.
        let (part, values) = unsafe { (part.read(), values.written()) };
        communicator.all_gather(part, values).map_err(failed)
    })
}

/// Sends the part with the number of each rank, `bytes` long, to that rank, and receives one from
/// each. The buffers must not overlap.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `parts` and `received` are null or point to so many bytes for each rank. The former do not
/// change during the call, and nothing else uses the latter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_all_to_all(
    communicator: Option<&Communicator>,
    parts: *const c_void,
    received: *mut c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let communicator = used(communicator)?;
        let parts = Buffer::<u8>::new(parts, of_all(communicator, bytes), "parts")?;
        let received = Buffer::<u8>::new(received, of_all(communicator, bytes), "received")?;
        parts.expect_apart(&received)?;
        // SAFETY: the caller guarantees it, and they are apart.
        let (parts, received) = unsafe { (parts.read(), received.written()) };
        communicator.all_to_all(parts, received).map_err(failed)
    })
}

/// Combines `count` values of this type (`enum rowlock_type`) of all ranks, place by place, by this
/// operation (`enum rowlock_operation`). The results are in `values` at the rank `root`; at the
/// others, it has partial results. The order in which values are combined depends only on the
/// number of ranks.
///
/// Returns as `rowlock_communicator_barrier`.
///
/// # Safety
/// `values` is null or points to so many values, which nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_reduce(
    communicator: Option<&Communicator>,
    root: c_int,
    values: *mut c_void,
    count: usize,
    value_type: c_int,
    operation: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { reduce(communicator, Some(argument::rank(root)?), values, count, value_type, operation) })
}

/// Like `rowlock_communicator_reduce`, with the results at all ranks.
///
/// # Safety
/// As for `rowlock_communicator_reduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_communicator_all_reduce(
    communicator: Option<&Communicator>,
    values: *mut c_void,
    count: usize,
    value_type: c_int,
    operation: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { reduce(communicator, None, values, count, value_type, operation) })
}

/// A reduction to one rank, or to all.
///
/// # Safety
/// As for `rowlock_communicator_reduce`.
unsafe fn reduce(
    communicator: Option<&Communicator>,
    root: Option<u32>,
    values: *mut c_void,
    count: usize,
    value_type: c_int,
    operation: c_int,
) -> Result<(), Failure> {
    let reduction = Reduction { communicator: used(communicator)?, root, by: operation::operation_of(operation)? };
    let call = match operation::type_of(value_type)? {
        Type::Int8 => Reduction::run::<i8>,
        Type::Int16 => Reduction::run::<i16>,
        Type::Int32 => Reduction::run::<i32>,
        Type::Int64 => Reduction::run::<i64>,
        Type::Uint8 => Reduction::run::<u8>,
        Type::Uint16 => Reduction::run::<u16>,
        Type::Uint32 => Reduction::run::<u32>,
        Type::Uint64 => Reduction::run::<u64>,
        Type::Float => Reduction::run::<f32>,
        Type::Double => Reduction::run::<f64>,
    };
    // SAFETY: the caller guarantees it.
    unsafe { call(&reduction, values, count) }
}

struct Reduction<'c> {
    communicator: &'c message::Communicator,
    /// The rank that gets the results, or all.
    root: Option<u32>,
    by: Operation,
}

impl Reduction<'_> {
    /// # Safety
    /// As for `rowlock_communicator_reduce`.
    unsafe fn run<T: Number>(&self, values: *mut c_void, count: usize) -> Result<(), Failure> {
        let Some(combine) = T::combine(self.by) else {
            let operation = self.by as c_int;
            return Err(Failure::invalid(format_args!("operation {operation} is for integers, and these are floats")));
        };
        // SAFETY: the caller guarantees it.
        let values = unsafe { Buffer::<T>::new(values, count, "values")?.written() };
        let result = match self.root {
            Some(root) => self.communicator.reduce(root, values, combine),
            None => self.communicator.all_reduce(values, combine),
        };
        result.map_err(failed)
    }
}
