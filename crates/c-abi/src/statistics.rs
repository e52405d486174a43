//! Statistics for C.

use crate::argument::{Out, given};
use crate::failure::Failure;

/// Counts of the waits at an object so far. An unfinished wait counts as a wait, but its other
/// counts are added at its end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Statistics {
    /// At a barrier the number of arrivals. Elsewhere the number of waits that did not succeed
    /// immediately.
    pub waits: u64,
    /// Waits in which the thread spun.
    pub spins: u64,
    /// Waits that ended while the thread was spinning.
    pub successful_spins: u64,
    /// Running time spent spinning, in nanoseconds.
    pub spin_nanoseconds: u64,
    /// How often a thread yielded its CPU.
    pub yields: u64,
    /// How often a thread blocked.
    pub blocks: u64,
    /// How often a thread found that yielding cost the others too much, and switched them to
    /// another way of waiting.
    pub strikes: u64,
    /// How often a thread migrated to another CPU.
    pub moves: u64,
    /// Time from blocking to running again, in nanoseconds.
    pub block_nanoseconds: u64,
}

/// Stores the statistics of an object in an output argument.
///
/// # Errors
/// EINVAL if the argument is null.
pub fn write_statistics(out: Out<'_, Statistics>, statistics: wait::Statistics) -> Result<(), Failure> {
    given(out, "statistics")?.write(Statistics {
        waits: statistics.waits,
        spins: statistics.spins,
        successful_spins: statistics.successful_spins,
        spin_nanoseconds: statistics.spin_time.as_nanos(),
        yields: statistics.yields,
        blocks: statistics.blocks,
        strikes: statistics.overload_marks,
        moves: statistics.moves,
        block_nanoseconds: statistics.block_time.as_nanos(),
    });
    Ok(())
}
