//! Statistics, as C sees them.

use crate::argument::{Out, given};
use crate::failure::Failure;

/// What the waits at an object have come to so far. Waits that are under way count as waits, but what they have done is
/// added when they are over.
#[repr(C)]
pub struct Statistics {
    /// At a barrier all arrivals; elsewhere the waits that were not over at once.
    pub waits: u64,
    /// Waits in which the thread spun.
    pub spins: u64,
    /// Those of them that ended while the thread was spinning.
    pub successful_spins: u64,
    /// Running time spent spinning, in nanoseconds.
    pub spin_nanoseconds: u64,
    /// How often a thread yielded its CPU.
    pub yields: u64,
    /// How often a thread went to sleep until woken.
    pub blocks: u64,
    /// How often a thread found that giving way cost the others too much, and turned them to another way of waiting.
    pub strikes: u64,
    /// How often a thread went over to another CPU.
    pub moves: u64,
    /// Time from going to sleep to running again, in nanoseconds.
    pub block_nanoseconds: u64,
}

/// Leaves an object's statistics where C wants them.
pub(crate) fn leave_statistics(out: Out<'_, Statistics>, statistics: wait::Statistics) -> Result<(), Failure> {
    let wait::Statistics {
        waits,
        spins,
        successful_spins,
        spin_time,
        yields,
        blocks,
        block_time,
        overload_marks,
        moves,
    } = statistics;
    let spin_nanoseconds = spin_time.as_nanos();
    given(out, "statistics")?.write(Statistics {
        waits,
        spins,
        successful_spins,
        spin_nanoseconds,
        yields,
        blocks,
        strikes: overload_marks,
        moves,
        block_nanoseconds: block_time.as_nanos(),
    });
    Ok(())
}
