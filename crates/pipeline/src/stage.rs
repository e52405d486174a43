//! Stages: what a program does with each buffer, as plain functions or types.

use std::error;
use std::marker::PhantomData;

use crate::buffer::Buffer;
use crate::ending::Ending;

/// What stages return: their own value, or whatever error they met.
pub type Result<T> = std::result::Result<T, Box<dyn error::Error + Send + Sync>>;

/// Where a buffer goes from a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// On to the next stage, filled or empty. The last buffer stays the last.
    Convey,
    /// On to the next stage, as the last one. In the midst of a pipeline that ends the stream early: what the stages before have begun
    /// comes to nothing, and they are not called again.
    Last,
    /// As [`Flow::Last`], but empty: there was nothing more for it. So the last buffer that a stage gets may be an empty one.
    End,
}

/// What a stage is told of the call that it is in.
pub struct Round<'a, T = ()> {
    pub(crate) number: u64,
    pub(crate) is_last: bool,
    pub(crate) ending: &'a Ending,
    pub(crate) left: usize,
    pub(crate) conveyed: Option<usize>,
    pub(crate) auxiliary: &'a mut [Buffer<T>],
}

impl<T> Round<'_, T> {
    /// The number of the buffer in its pipeline, from 0 on, as the first stage got it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether this is the last buffer, which may be empty. To the first stage nobody can say so, unless the number of rounds was given.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// How many buffers were left in the stage's input queue when this one was taken from it, at that very moment.
    pub fn left_in_input(&self) -> usize {
        self.left
    }

    /// How many buffers were in the stage's output queue when this copy of it last passed one on, that one included, at that very moment; nothing before the
    /// first. What the last stage passes on goes to the free buffers.
    pub fn depth_of_output(&self) -> Option<usize> {
        self.conveyed
    }

    /// Whether the run is about to end early, since it was cancelled or some stage has failed: no time for long calls.
    pub fn is_ending(&self) -> bool {
        self.ending.is_ending()
    }

    /// The buffers that were asked for this stage with [`auxiliary`](crate::Pipeline::auxiliary), each copy of a stage its own.
    pub fn auxiliary(&mut self) -> &mut [Buffer<T>] {
        self.auxiliary
    }
}

/// A stage that is more than a function.
///
/// All calls of one copy of a stage come one after the other, though not always from the same thread if workers carry it.
pub trait Stage<T>: Send {
    /// Called once before the first buffer, by the thread that will process it.
    ///
    /// # Errors
    /// Whatever keeps the stage from its work: the run ends with it.
    fn init(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does the stage's work on one buffer.
    ///
    /// # Errors
    /// Whatever keeps the stage from its work: the run ends with it.
    fn process(&mut self, round: &mut Round<'_, T>, buffer: &mut Buffer<T>) -> Result<Flow>;

    /// Does the input or output of the call before once more, to no effect, for the test that doubles it and watches the clock. Returns whether it
    /// did, which a stage that does not know how does not.
    ///
    /// # Errors
    /// As [`Stage::process`].
    fn again(&mut self, _round: &mut Round<'_, T>, _buffer: &mut Buffer<T>) -> Result<bool> {
        Ok(false)
    }

    /// Called once after the last buffer, and also after an error, a panic or a cancellation, if `init` was called and succeeded.
    ///
    /// # Errors
    /// Whatever went wrong: the run has then failed, if it had not before.
    fn cleanup(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A function as a stage.
pub(crate) struct Function<F, T> {
    function: F,
    of: PhantomData<fn(T)>,
}

impl<F, T> Function<F, T> {
    pub(crate) fn new(function: F) -> Function<F, T> {
        Function { function, of: PhantomData }
    }
}

impl<T, F> Stage<T> for Function<F, T>
where
    F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send,
{
    fn process(&mut self, round: &mut Round<'_, T>, buffer: &mut Buffer<T>) -> Result<Flow> {
        (self.function)(round, buffer)
    }
}
