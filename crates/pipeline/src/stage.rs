//! Stages: functions or types that process each buffer.

use std::error;

use crate::buffer::Buffer;
use crate::ending::Ending;

/// The result of a stage: a value, or any error.
pub type Result<T> = std::result::Result<T, Box<dyn error::Error + Send + Sync>>;

/// The destination of a buffer after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It continues to the next stage, filled or empty. The last buffer remains the last.
    Convey,
    /// It continues as the last one. In the middle of a pipeline this ends the stream early: later
    /// buffers of the stages before it are discarded, and these stages are not called again.
    Last,
    /// Like [`Flow::Last`], but the buffer is emptied. So the last buffer that a stage gets may be
    /// empty.
    End,
}

/// The context of a call of a stage.
pub struct Round<'a, T = ()> {
    /// The number of the buffer in its pipeline, from 0, in the order in which the first stage got
    /// them.
    pub number: u64,
    /// Whether this is the last buffer, which may be empty. The first stage knows this only if the
    /// number of rounds was set.
    pub is_last: bool,
    /// How many buffers were left in the stage's input queue when this one was taken.
    pub left_in_input: usize,
    /// The depth of the stage's output queue after this copy last passed a buffer on. `None` before
    /// that. The output queue of the last stage holds the free buffers.
    pub depth_of_output: Option<usize>,
    /// The [`auxiliary`](crate::Pipeline::auxiliary) buffers of this copy of the stage.
    pub auxiliary: &'a mut [Buffer<T>],
    pub(crate) ending: &'a Ending,
}

impl<T> Round<'_, T> {
    /// Whether the run is about to end early, because it was cancelled or a stage has failed. Long
    /// calls should return soon.
    pub fn is_ending(&self) -> bool {
        self.ending.is_ending()
    }
}

/// A stage with state.
///
/// The calls of one copy of a stage run in sequence, but possibly on different threads if workers
/// run it.
pub trait Stage<T>: Send {
    /// Called once before the first buffer, on the thread that will process it.
    ///
    /// # Errors
    /// Any error ends the run.
    fn init(&mut self) -> Result<()> {
        Ok(())
    }

    /// Processes one buffer.
    ///
    /// # Errors
    /// Any error ends the run.
    fn process(&mut self, round: &mut Round<'_, T>, buffer: &mut Buffer<T>) -> Result<Flow>;

    /// Repeats the input or output of the last call without any effect, for the test that doubles
    /// it and measures the time. Returns whether it did; stages that cannot do this return `false`.
    fn again(&mut self, _round: &mut Round<'_, T>, _buffer: &mut Buffer<T>) -> Result<bool> {
        Ok(false)
    }

    /// Called once after the last buffer if `init` has succeeded, even after an error, a panic or a
    /// cancellation.
    ///
    /// # Errors
    /// Any error fails the run.
    fn cleanup(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A function that processes each buffer.
impl<T, F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send> Stage<T> for F {
    fn process(&mut self, round: &mut Round<'_, T>, buffer: &mut Buffer<T>) -> Result<Flow> {
        self(round, buffer)
    }
}
