//! Values that share no cache line with others.

/// Aligned to a pair of cache lines: adjacent lines are fetched together.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
