//! The numbers of turns, by which agents agree on which one has begun: see `protocol.md`.

use policy::{Instant, Span};

/// The number of a turn: different for each version of the table, and for each turn of a version.
pub(super) fn turn(version: u64, next_boundary: Option<Instant>) -> u64 {
    // Boundaries of one version are at least a slice apart, and the number of a version is in the
    // upper half. A turn is only compared with a recent one.
    let boundary = next_boundary.map_or(0, |boundary| boundary.as_nanos() / 1024 % (1 << 32));
    (version & !u64::from(u32::MAX)) | boundary
}

/// The first boundary after the switch that has begun the turn `last`, where `next` is the first
/// one from now on. Later ones may have passed without a switch: then this one is more than a slice
/// late.
pub(super) fn first_boundary(last: u64, next: Instant, slice: Span) -> Instant {
    // Both are numbers of 32 bits, which overflow after 73 minutes. That of `next` is the later
    // one.
    let between = turn(0, Some(next)).wrapping_sub(last) % (1 << 32) * 1024;
    // All boundaries are whole slices apart, but those in the numbers are rounded.
    let slices = (between + slice.as_nanos() / 2) / slice.as_nanos().max(1);
    Instant::ZERO + next.since(Instant::ZERO + slice.scaled(1000 * slices.max(1)))
}
