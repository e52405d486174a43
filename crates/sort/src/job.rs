//! What all phases of a sort have in common.

use pipeline::{Buffer, Canceller, Cause, Error, Program, RunReport};

use crate::block_writer::Destinations;
use crate::error::SortError;
use crate::order::Order;
use crate::record_counts::RecordCounts;

/// A sort that is being done.
pub(crate) struct Job<'s> {
    pub(crate) order: &'s Order,
    pub(crate) to: Destinations<'s>,
    pub(crate) counts: &'s RecordCounts,
    /// Whether only the first of equal records is kept.
    pub(crate) is_unique: bool,
    /// The memory that was given.
    pub(crate) memory: u64,
    pub(crate) canceller: &'s Canceller,
}

/// Makes sure that a buffer has the size that was asked for. Whoever runs the program can ask the pipelines for another one, but how many buffers it takes to
/// read everything, and where what is in them belongs, follows from it.
pub(crate) fn check_size<T>(buffer: &Buffer<T>, asked: usize) -> Result<(), SortError> {
    if buffer.capacity() == asked {
        return Ok(());
    }
    let given = buffer.capacity();
    Err(SortError::Unsupported(format!(
        "a sort cannot have buffers of {given} bytes where it asks for {asked}: their size follows from its memory; leave `block` out of ROWLOCK_PIPELINE"
    )))
}

/// Runs pipelines to their end.
pub(crate) fn run_program<'p, T: Default + Send + 'p>(
    program: Program<'p, T>,
    canceller: &Canceller,
) -> Result<RunReport, SortError> {
    program.run_until(canceller).map_err(|error| match error {
        Error::Failed(failure) => match failure.cause {
            Cause::Failed(why) => match why.downcast::<SortError>() {
                Ok(why) => *why,
                Err(why) => SortError::Pipeline(why.to_string()),
            },
            Cause::Cancelled => SortError::Cancelled,
            _ => SortError::Pipeline(failure.to_string()),
        },
        Error::Memory { why, .. } => {
            SortError::Unsupported(format!("as much memory as was given cannot be had: {why}; give less"))
        }
        error => SortError::Pipeline(error.to_string()),
    })
}
