//! A copy of a station's stages: what processes one buffer at a time, wherever it is carried.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::buffer::Buffer;
use crate::counters::Counters;
use crate::ending::{Ending, Failed};
use crate::entry::Entry;
use crate::error::Cause;
use crate::stage::{Flow, Result, Round, Stage};
use crate::trace::Notes;

/// Calls that take less than this are too short to look at the clock each time, in nanoseconds.
const SHORT: u64 = 2_000;

/// As long as calls are short, so many are made at once at the most.
const MOST_AT_ONCE: usize = 16;

/// Of short calls, so many are not timed for each that is.
const UNTIMED: u32 = 31;

/// One stage in one copy.
pub(crate) struct Part<'a, T> {
    pub(crate) name: Arc<str>,
    pub(crate) stage: Box<dyn Stage<T> + 'a>,
    pub(crate) auxiliary: Vec<Buffer<T>>,
    pub(crate) counters: Arc<Counters>,
    /// Whether it does its input and output twice.
    pub(crate) doubles: bool,
    pub(crate) is_begun: bool,
}

/// One copy of the stages of a station, each buffer going through all of them.
pub(crate) struct Copy<'a, T> {
    pub(crate) parts: Vec<Part<'a, T>>,
    /// Bursts of calls to come that will not be timed.
    pub(crate) untimed: u32,
    /// How many buffers were left in the queue when it last took some.
    pub(crate) left: usize,
    /// How many the next queue held when it last passed some on.
    pub(crate) conveyed: Option<usize>,
    /// What a buffer takes, in nanoseconds, as of late.
    pub(crate) mean: Option<u64>,
    pub(crate) notes: Notes,
}

/// What came of processing one buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Processed {
    Done,
    /// The stream ends with this buffer, which nobody knew before.
    EndsHere,
    /// The run has failed here, or is ending elsewhere.
    Broken,
}

impl<T> Copy<'_, T> {
    /// How many buffers to take at once: more than one only where the stages take so little time that taking would be most of it.
    pub(crate) fn burst(&self) -> usize {
        if self.is_short() { MOST_AT_ONCE } else { 1 }
    }

    /// Whether a call is known to take less than looking at the clock is worth.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.mean.is_some_and(|mean| mean < SHORT)
    }

    /// What so many buffers will take here, in nanoseconds, as far as can be told from those before; for ever, where nothing can be told.
    #[inline]
    pub(crate) fn estimate(&self, buffers: usize) -> u64 {
        self.mean.map_or(u64::MAX, |mean| mean.saturating_mul(buffers as u64))
    }

    /// Calls `init` of those stages that have not been called before.
    pub(crate) fn begin(&mut self, ending: &Ending) -> bool {
        self.parts.iter_mut().filter(|part| !part.is_begun).all(|part| {
            let begun = caught(|| part.stage.init());
            part.is_begun = begun.is_ok();
            report(begun, part, None, ending).is_some()
        })
    }

    /// Processes all of `hand`, in order, and moves it to `done`. Where a stage ends the stream or the run, the rest stays in `hand`.
    pub(crate) fn process(
        &mut self,
        hand: &mut VecDeque<Box<Entry<T>>>,
        done: &mut VecDeque<Box<Entry<T>>>,
        ending: &Ending,
    ) -> Processed {
        let beginning = (self.untimed == 0).then(Instant::now);
        let before = done.len();
        let processed = self.process_all(hand, done, beginning, ending);
        match beginning {
            None => self.untimed -= 1,
            Some(beginning) => self.learn(beginning.elapsed(), done.len() - before),
        }
        processed
    }

    #[inline]
    fn process_all(
        &mut self,
        hand: &mut VecDeque<Box<Entry<T>>>,
        done: &mut VecDeque<Box<Entry<T>>>,
        mut now: Option<Instant>,
        ending: &Ending,
    ) -> Processed {
        while let Some(mut entry) = hand.pop_front() {
            let was_last = entry.is_last;
            for part in &mut self.parts {
                if ending.is_ending() {
                    hand.push_front(entry);
                    return Processed::Broken;
                }
                if let Some(now) = now {
                    part.counters.since.set(self.notes.since_beginning(now) + 1);
                }
                let flow = part.call(&mut entry, (self.left + hand.len(), self.conveyed), ending);
                if let Some(before) = now {
                    let after = Instant::now();
                    part.counters.timed.add(after.duration_since(before).as_nanos() as u64);
                    part.counters.timed_calls.add(1);
                    part.counters.since.set(0);
                    self.notes.called(&part.name, entry.number, before, after);
                    now = Some(after);
                }
                let Some(flow) = flow else {
                    hand.push_front(entry);
                    return Processed::Broken;
                };
                part.counters.calls.add(1);
                if flow != Flow::Convey {
                    entry.is_last = true;
                    if flow == Flow::End {
                        entry.buffer.clear();
                    }
                }
                part.counters.bytes.add(entry.buffer.len() as u64);
            }
            let ends_here = entry.is_last && !was_last;
            done.push_back(entry);
            if ends_here {
                return Processed::EndsHere;
            }
        }
        Processed::Done
    }

    /// So many buffers have taken so long together.
    fn learn(&mut self, time: Duration, buffers: usize) {
        let time = time.as_nanos() as u64 / buffers.max(1) as u64;
        // The last few count for most.
        self.mean = Some(self.mean.map_or(time, |mean| (mean * 3 + time) / 4));
        let calls = self.parts.first().map_or(0, |part| part.counters.timed_calls.get());
        self.untimed = if calls >= 16 && self.is_short() && !self.notes.are_wanted() { UNTIMED } else { 0 };
    }

    /// So many buffers were taken, the last of which left so many.
    pub(crate) fn found_depths(&mut self, left: usize, taken: usize) {
        self.left = left;
        self.parts.iter().take(1).for_each(|part| part.counters.found_depths(left, taken));
    }

    /// Its thread had nothing to do for so long.
    pub(crate) fn waited(&self, time: Duration) {
        self.parts.iter().take(1).for_each(|part| part.counters.waited.add(time.as_nanos() as u64));
    }

    /// It had buffers before it for so long, and no worker.
    pub(crate) fn waited_for_worker(&self, time: Duration) {
        self.parts.iter().take(1).for_each(|part| part.counters.waited_for_worker.add(time.as_nanos() as u64));
    }

    /// Calls `cleanup` of the stages that were begun, and takes them down, whatever they do.
    pub(crate) fn end(self, ending: &Ending) -> Notes {
        for mut part in self.parts {
            if part.is_begun {
                let cleaned = caught(|| part.stage.cleanup());
                report(cleaned, &part, None, ending);
            }
            let Part { name, stage, auxiliary, .. } = part;
            if let Err(cause) = caught(|| {
                drop(stage);
                drop(auxiliary);
                Ok(())
            }) {
                ending.end(Failed { stage: Some(name.to_string()), round: None, cause });
            }
        }
        self.notes
    }
}

impl<T> Part<'_, T> {
    #[inline]
    fn call(
        &mut self,
        entry: &mut Entry<T>,
        (left, conveyed): (usize, Option<usize>),
        ending: &Ending,
    ) -> Option<Flow> {
        let Entry { number, is_last, ref mut buffer } = *entry;
        let mut round = Round { number, is_last, ending, left, conveyed, auxiliary: &mut self.auxiliary };
        let stage = &mut self.stage;
        let (doubles, repeated) = (self.doubles, &self.counters.repeated);
        // Nobody looks at a stage again after it panicked, except to clean it up, for which it has to be ready.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let flow = stage.process(&mut round, buffer)?;
            if doubles && stage.again(&mut round, buffer)? {
                repeated.add(1);
            }
            Ok(flow)
        }));
        match outcome {
            Ok(Ok(flow)) => Some(flow),
            other => report(
                other.map_or_else(|panic| Err(Cause::Panicked(message(panic))), |flow| flow.map_err(Cause::Failed)),
                self,
                Some(number),
                ending,
            ),
        }
    }
}

/// What a call returned; or the end of the run.
#[cold]
fn report<T, V>(
    outcome: std::result::Result<V, Cause>,
    part: &Part<'_, T>,
    round: Option<u64>,
    ending: &Ending,
) -> Option<V> {
    outcome.map_err(|cause| ending.end(Failed { stage: Some(part.name.to_string()), round, cause })).ok()
}

/// Calls what the program has given, which may do anything.
pub(crate) fn caught<V>(call: impl FnOnce() -> Result<V>) -> std::result::Result<V, Cause> {
    // Nobody looks at a stage again after it panicked, except to clean it up, for which it has to be ready.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(why)) => Err(Cause::Failed(why)),
        Err(panic) => Err(Cause::Panicked(message(panic))),
    }
}

fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned());
    // What was thrown may panic again as it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    message
}
