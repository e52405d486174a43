//! A copy of a group's stages, which processes buffers on any thread. It is a value that only its
//! holder may run, so a serial stage needs no lock around its calls.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::buffer::Buffer;
use crate::counters::Counters;
use crate::ending::{Ending, Failed};
use crate::error::Cause;
use crate::queue::{QueuedBuffer, QueuedBuffers};
use crate::stage::{Flow, Result, Round, Stage};
use crate::trace::CallLog;

/// Calls shorter than this are not all timed, since reading the clock would cost too much. In
/// nanoseconds.
const SHORT: u64 = 2_000;

/// A copy with short calls takes at most this many buffers at once.
const MAX_BATCH: usize = 16;

/// A copy with short calls leaves this many batches untimed after each timed one.
const UNTIMED: u32 = 31;

type CauseResult<V> = std::result::Result<V, Cause>;

/// One copy of one stage.
pub(crate) struct StageCopy<'a, T> {
    pub(crate) name: Arc<str>,
    pub(crate) stage: Box<dyn Stage<T> + 'a>,
    pub(crate) auxiliary: Vec<Buffer<T>>,
    pub(crate) counters: Arc<Counters>,
    /// Whether it repeats its input and output, as a test.
    pub(crate) doubles: bool,
    pub(crate) is_begun: bool,
}

/// One copy of the stages of a group. Each buffer passes through all of them.
pub(crate) struct GroupCopy<'a, T> {
    pub(crate) parts: Vec<StageCopy<'a, T>>,
    /// How many of the next batches are not timed.
    untimed: u32,
    /// How many buffers were left in the queue when it last took some.
    left: usize,
    /// The depth of the next queue when it last passed buffers on.
    pub(crate) output_depth: Option<usize>,
    /// The moving average of the time for a buffer, in nanoseconds.
    mean: Option<u64>,
    log: CallLog,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Processed {
    Done,
    /// A stage ended the stream with this buffer.
    EndsHere,
    /// The run has failed here, or is ending for another reason.
    Broken,
}

impl<T> GroupCopy<'_, T> {
    /// A copy without stages yet.
    pub(crate) fn new(log: CallLog) -> Self {
        GroupCopy { parts: Vec::new(), untimed: 0, left: 0, output_depth: None, mean: None, log }
    }

    /// How many buffers to take at once. More than one only if taking would cost more than the
    /// calls.
    pub(crate) fn batch_size(&self) -> usize {
        if self.is_short() { MAX_BATCH } else { 1 }
    }

    /// Whether calls are known to be so short that reading the clock matters.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.mean.is_some_and(|mean| mean < SHORT)
    }

    /// The expected time for this many buffers, in nanoseconds. `u64::MAX` if unknown.
    #[inline]
    pub(crate) fn estimate(&self, buffers: usize) -> u64 {
        self.mean.map_or(u64::MAX, |mean| mean.saturating_mul(buffers as u64))
    }

    /// Calls `init` of all stages that have not begun. Returns whether all have succeeded.
    pub(crate) fn begin(&mut self, ending: &Ending) -> bool {
        let log = &self.log;
        self.parts.iter_mut().filter(|part| !part.is_begun).all(|part| {
            let StageCopy { counters, stage, .. } = &mut *part;
            let begun = counters.time_setup(|| log.now(), || caught(|| stage.init()));
            part.is_begun = begun.is_ok();
            part.value_or_end(begun, None, ending).is_some()
        })
    }

    /// Processes `input` in order and moves it to `output`. If a stage ends the stream or the run,
    /// the remaining buffers stay in `input`.
    pub(crate) fn process(
        &mut self,
        input: &mut QueuedBuffers<T>,
        output: &mut QueuedBuffers<T>,
        ending: &Ending,
    ) -> Processed {
        let beginning = (self.untimed == 0).then(Instant::now);
        let (before, mut now) = (output.len(), beginning);
        let processed = 'processed: {
            while let Some(mut entry) = input.pop_front() {
                let was_last = entry.is_last;
                for part in &mut self.parts {
                    if ending.is_ending() {
                        input.push_front(entry);
                        break 'processed Processed::Broken;
                    }
                    if let Some(now) = now {
                        part.counters.since.set(self.log.since_beginning(now) + 1);
                    }
                    let flow = part.call(&mut entry, (self.left + input.len(), self.output_depth), ending);
                    if let Some(before) = now {
                        let after = Instant::now();
                        part.counters.timed.add(after.duration_since(before).as_nanos() as u64);
                        part.counters.timed_calls.add(1);
                        part.counters.since.set(0);
                        self.log.record(&part.name, entry.number, before, after);
                        now = Some(after);
                    }
                    let Some(flow) = flow else {
                        input.push_front(entry);
                        break 'processed Processed::Broken;
                    };
                    part.counters.calls.add(1);
                    entry.is_last |= flow != Flow::Convey;
                    if flow == Flow::End {
                        entry.buffer.clear();
                    }
                    part.counters.bytes.add(entry.buffer.len() as u64);
                }
                let ends_here = entry.is_last && !was_last;
                output.push_back(entry);
                if ends_here {
                    break 'processed Processed::EndsHere;
                }
            }
            Processed::Done
        };
        match beginning {
            None => self.untimed -= 1,
            Some(beginning) => self.learn(beginning.elapsed(), output.len() - before),
        }
        processed
    }

    /// Updates the average after a timed batch.
    fn learn(&mut self, time: Duration, buffers: usize) {
        let time = time.as_nanos() as u64 / buffers.max(1) as u64;
        // A moving average: recent batches count most.
        self.mean = Some(self.mean.map_or(time, |mean| (mean * 3 + time) / 4));
        let calls: u64 = self.counters().map(|counters| counters.timed_calls.get()).sum();
        self.untimed = if calls >= 16 && self.is_short() && !self.log.is_enabled { UNTIMED } else { 0 };
    }

    /// Records that `taken` buffers were taken, and that `left` remained after the last one.
    pub(crate) fn record_depths(&mut self, left: usize, taken: usize) {
        self.left = left;
        self.counters().for_each(|counters| counters.record_depths(left, taken));
    }

    /// Records that its thread had no buffer for this long.
    pub(crate) fn record_wait(&self, time: Duration) {
        self.counters().for_each(|counters| counters.waited.add(time.as_nanos() as u64));
    }

    /// Records that buffers waited for a worker for this long.
    pub(crate) fn record_wait_for_worker(&self, time: Duration) {
        self.counters().for_each(|counters| counters.waited_for_worker.add(time.as_nanos() as u64));
    }

    /// The counters of its first stage, for what concerns the group as a whole.
    fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.parts.first().into_iter().map(|part| &*part.counters)
    }

    /// Calls `cleanup` of all stages that have begun, and drops them. Panics become failures of the
    /// run.
    pub(crate) fn end(self, ending: &Ending) -> CallLog {
        let GroupCopy { parts, log, .. } = self;
        for part in parts {
            let counters = part.counters.clone();
            counters.time_setup(|| log.now(), || part.end(ending));
        }
        log
    }
}

impl<T> StageCopy<'_, T> {
    #[inline]
    fn call(
        &mut self,
        entry: &mut QueuedBuffer<T>,
        (left_in_input, depth_of_output): (usize, Option<usize>),
        ending: &Ending,
    ) -> Option<Flow> {
        let QueuedBuffer { number, is_last, ref mut buffer } = *entry;
        let auxiliary = &mut self.auxiliary;
        let mut round = Round { number, is_last, left_in_input, depth_of_output, auxiliary, ending };
        let stage = &mut self.stage;
        let (doubles, repeated) = (self.doubles, &self.counters.repeated);
        let outcome = caught(|| {
            let flow = stage.process(&mut round, buffer)?;
            if doubles && stage.again(&mut round, buffer)? {
                repeated.add(1);
            }
            Ok(flow)
        });
        match outcome {
            Ok(flow) => Some(flow),
            failed => self.value_or_end(failed, Some(number), ending),
        }
    }

    fn end(mut self, ending: &Ending) {
        if self.is_begun {
            let cleaned = caught(|| self.stage.cleanup());
            self.value_or_end(cleaned, None, ending);
        }
        let StageCopy { name, stage, auxiliary, .. } = self;
        let dropped = caught(|| {
            drop((stage, auxiliary));
            Ok(())
        });
        if let Err(cause) = dropped {
            ending.end(Failed { stage: Some(name.to_string()), round: None, cause });
        }
    }

    /// Returns the value, or ends the run with the error.
    #[cold]
    fn value_or_end<V>(&self, outcome: CauseResult<V>, round: Option<u64>, ending: &Ending) -> Option<V> {
        outcome.map_err(|cause| ending.end(Failed { stage: Some(self.name.to_string()), round, cause })).ok()
    }
}

/// Calls code of the program and catches its panics.
#[inline]
pub(crate) fn caught<V>(call: impl FnOnce() -> Result<V>) -> CauseResult<V> {
    // After a panic, the stage is only cleaned up, and `cleanup` must cope with that.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(why)) => Err(Cause::Failed(why)),
        Err(panic) => Err(Cause::Panicked(message(panic))),
    }
}

fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("no message").to_owned();
    // The panic's payload may panic when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    message
}
