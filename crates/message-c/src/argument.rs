//! C arguments that only this library has: numbers of ranks, tags, and buffers.

use std::ffi::{c_int, c_void};

use c_abi::Failure;
use message::{Element, Source, Tag};

use crate::communicator::{ROWLOCK_ANY_SOURCE, ROWLOCK_ANY_TAG};

/// The number of a rank. Whether there is such a rank is for the call to find out.
pub(crate) fn rank(rank: c_int) -> Result<u32, Failure> {
    u32::try_from(rank).map_err(|_| Failure::invalid(format_args!("there is no rank {rank}")))
}

/// A number of ranks. Whether a job may have so many is for the call to find out.
pub(crate) fn ranks(ranks: c_int) -> Result<u32, Failure> {
    u32::try_from(ranks).map_err(|_| Failure::invalid(format_args!("no job has {ranks} ranks")))
}

pub(crate) fn tag(tag: i64) -> Result<u32, Failure> {
    u32::try_from(tag).map_err(|_| Failure::invalid(format_args!("a tag is 0 to {}, not {tag}", u32::MAX)))
}

/// The source of a message to be received.
pub(crate) fn source(source: c_int) -> Result<Source, Failure> {
    if source == ROWLOCK_ANY_SOURCE { Ok(Source::Any) } else { rank(source).map(Source::Rank) }
}

/// The tag of a message to be received.
pub(crate) fn accepted_tag(accepted: i64) -> Result<Tag, Failure> {
    if accepted == ROWLOCK_ANY_TAG { Ok(Tag::Any) } else { tag(accepted).map(Tag::Value) }
}

/// Memory of the caller that a call reads or writes: so many values from an address on.
pub(crate) struct Buffer<T> {
    address: *mut T,
    count: usize,
    name: &'static str,
}

impl<T: Element> Buffer<T> {
    /// The memory at the argument of this name, which may be null if it is empty.
    pub(crate) fn new(address: *const c_void, count: usize, name: &'static str) -> Result<Buffer<T>, Failure> {
        if address.is_null() && count != 0 {
            return Err(Failure::null(name));
        }
        let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if !fits {
            return Err(Failure::invalid(format_args!("`{name}` with {count} values is longer than any memory")));
        }
        let address = address.cast::<T>().cast_mut();
        if !address.is_aligned() {
            let size = size_of::<T>();
            return Err(Failure::invalid(format_args!("`{name}` is not aligned to values of {size} bytes")));
        }
        Ok(Buffer { address, count, name })
    }

    /// Rejects another buffer that has bytes of this one.
    pub(crate) fn expect_apart<U>(&self, other: &Buffer<U>) -> Result<(), Failure> {
        let range = |address: usize, bytes: usize| address..address.saturating_add(bytes);
        let own = range(self.address.addr(), self.count * size_of::<T>());
        let others = range(other.address.addr(), other.count * size_of::<U>());
        if own.start.max(others.start) < own.end.min(others.end) {
            return Err(Failure::invalid(format_args!("`{}` and `{}` overlap", self.name, other.name)));
        }
        Ok(())
    }

    /// The values, to be read.
    ///
    /// # Safety
    /// The memory is readable, and does not change while the result is in use.
    pub(crate) unsafe fn read<'a>(self) -> &'a [T] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: the address is not null and aligned, and the length was checked. Any bits are
        // valid. The caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.address, self.count) }
    }

    /// The values, to be written.
    ///
    /// # Safety
    /// The memory is readable and writable, and nothing else uses it while the result is in use.
    pub(crate) unsafe fn written<'a>(self) -> &'a mut [T] {
        if self.count == 0 {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(address: usize, count: usize) -> Result<Buffer<u32>, Failure> {
        Buffer::new(std::ptr::without_provenance(address), count, "values")
    }

    #[test]
    fn memory_that_cannot_be_a_buffer_is_rejected() {
        assert!(buffer(0, 0).is_ok() && buffer(4, 1).is_ok());
        for (address, count) in [(0, 1), (2, 1), (4, usize::MAX), (4, usize::MAX / 8 + 1)] {
            assert!(buffer(address, count).is_err(), "{address} {count}");
        }
    }

    #[test]
    fn buffers_that_share_a_byte_overlap() {
        let overlap = |one: (usize, usize), other: (usize, usize)| {
            let [one, other] = [one, other].map(|(address, count)| buffer(address, count).unwrap());
            one.expect_apart(&other).is_err()
        };
        assert!(overlap((40, 2), (44, 1)) && overlap((44, 1), (40, 2)) && overlap((40, 1), (40, 1)));
        assert!(!overlap((40, 1), (44, 1)) && !overlap((44, 9), (40, 1)));
        // Nothing has no bytes.
        assert!(!overlap((44, 0), (40, 2)) && !overlap((0, 0), (0, 0)));
    }

    #[test]
    fn negative_numbers_are_no_ranks_and_no_tags() {
        assert_eq!((rank(0).ok(), rank(-1).ok(), rank(c_int::MIN).ok()), (Some(0), None, None));
        assert_eq!((tag(i64::from(u32::MAX)).ok(), tag(1 << 32).ok(), tag(-1).ok()), (Some(u32::MAX), None, None));
        assert_eq!((source(-1).ok(), source(-2).ok(), source(3).ok()), (Some(Source::Any), None, Some(3.into())));
        assert_eq!((accepted_tag(-1).ok(), accepted_tag(-2).ok()), (Some(Tag::Any), None));
    }
}
