//! Junctions: functions that accept buffers from several pipelines and convey buffers to them.

use std::sync::Arc;

use wait::Event;

use crate::buffer::Buffer;
use crate::copy::Processed;
use crate::counters::Counters;
use crate::engine::{Engine, Sleeper, ThreadBuffers};
use crate::queue::{QueuedBuffer, TakeResult};
use crate::stage::Flow;
use crate::yield_budget::YieldBudget;

/// A junction's access to the pipelines that join at it.
///
/// It holds at most one buffer of each pipeline, and keeps its ownership, so that none can be lost.
/// When the junction returns, its pipelines end there: a held buffer continues as the last one. If
/// none is held, the next buffer does, empty.
pub struct Ports<'e, 'a, T> {
    engine: &'e Engine<'a, T>,
    ports: Vec<Port<T>>,
    buffers: ThreadBuffers<'a, T>,
    own: Arc<Event>,
    yield_budget: YieldBudget,
    /// The port that was used last, and when, on the run's clock. The junction's work is attributed
    /// to that port.
    working: Option<(usize, u64)>,
}

pub(crate) struct Port<T> {
    pub(crate) pipeline: String,
    pub(crate) at: usize,
    pub(crate) counters: Arc<Counters>,
    pub(crate) held: Option<(u64, Box<QueuedBuffer<T>>)>,
    pub(crate) is_over: bool,
}

/// A buffer that a junction has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its number in its pipeline.
    pub number: u64,
    /// Whether it is the last of its pipeline.
    pub is_last: bool,
    /// How many buffers were left in its queue when it was taken.
    pub left: usize,
}

/// Why an operation on a port failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// No pipeline of this name joins here.
    #[error("pipeline '{0}' does not join here (add `.join_at(..)` to it)")]
    Unknown(String),
    /// A buffer is already held.
    #[error("a buffer of pipeline '{0}' is already held: convey it first")]
    Held(String),
    /// No buffer is held.
    #[error("no buffer of pipeline '{0}' is held: accept one first")]
    NotHeld(String),
    /// The run is ending. The junction should return, with this error or any other.
    #[error("the run is ending")]
    Ending,
}

impl<'e, 'a, T> Ports<'e, 'a, T> {
    pub(crate) fn new(engine: &'e Engine<'a, T>, ports: Vec<Port<T>>, own: Arc<Event>) -> Ports<'e, 'a, T> {
        let (buffers, yield_budget) = (ThreadBuffers::for_thread(), YieldBudget::new());
        Ports { engine, ports, buffers, own, yield_budget, working: None }
    }

    /// Attributes the work from now on to this port, or to none.
    fn work_for(&mut self, index: Option<usize>) {
        let now = self.engine.since_beginning();
        if let Some((before, since)) = self.working {
            let counters = &self.ports[before].counters;
            counters.since.set(0);
            counters.timed.add(now.saturating_sub(since));
            counters.timed_calls.add(1);
        }
        self.working = index.map(|index| (index, now));
        if let Some(index) = index {
            self.ports[index].counters.since.set(now + 1);
        }
    }

    /// Waits for the next buffer of a pipeline and holds it. If the pipeline begins here, it is a
    /// free buffer. Returns `None` after the last one.
    pub fn accept(&mut self, pipeline: &str) -> Result<Option<Accepted>, PortError> {
        let index = self.index(pipeline)?;
        if self.ports[index].held.is_some() {
            return Err(PortError::Held(pipeline.to_owned()));
        }
        self.accept_at(index)
    }

    /// The held buffer of a pipeline.
    pub fn buffer(&mut self, pipeline: &str) -> Result<&mut Buffer<T>, PortError> {
        let [buffer] = self.buffers([pipeline])?;
        Ok(buffer)
    }

    /// The held buffers of several pipelines. Naming a pipeline twice is [`PortError::NotHeld`],
    /// since it has only one.
    pub fn buffers<const N: usize>(&mut self, pipelines: [&str; N]) -> Result<[&mut Buffer<T>; N], PortError> {
        for pipeline in pipelines {
            self.index(pipeline)?;
        }
        let mut held = [const { None }; N];
        for port in &mut self.ports {
            if let Some(place) = pipelines.iter().position(|name| *name == port.pipeline) {
                held[place] = port.held.as_mut().map(|(_, entry)| &mut entry.buffer);
            }
        }
        let missing = held.iter().position(Option::is_none).map(|missing| pipelines[missing]);
        let held: Vec<&mut Buffer<T>> = held.into_iter().flatten().collect();
        held.try_into().map_err(|_| PortError::NotHeld(missing.unwrap_or_default().to_owned()))
    }

    /// Passes on the held buffer of a pipeline. Returns the depth of the next queue after that. The
    /// last buffer remains the last for any `flow`.
    pub fn convey(&mut self, pipeline: &str, flow: Flow) -> Result<usize, PortError> {
        let index = self.index(pipeline)?;
        self.convey_at(index, flow).ok_or_else(|| PortError::NotHeld(pipeline.to_owned()))
    }

    /// Whether the run is about to end early.
    pub fn is_ending(&self) -> bool {
        self.engine.ending.is_ending()
    }

    fn index(&self, pipeline: &str) -> Result<usize, PortError> {
        let index = self.ports.iter().position(|port| port.pipeline == pipeline);
        index.ok_or_else(|| PortError::Unknown(pipeline.to_owned()))
    }

    fn accept_at(&mut self, index: usize) -> Result<Option<Accepted>, PortError> {
        self.work_for(Some(index));
        loop {
            let Ports { engine, ports, buffers, own, .. } = self;
            let port = &mut ports[index];
            if engine.ending.is_ending() {
                return Err(PortError::Ending);
            }
            if port.is_over {
                return Ok(None);
            }
            match engine.take(port.at, 1, buffers, Sleeper::Thread(own.clone())) {
                TakeResult::Sleeping => {
                    self.work_for(None);
                    let time = self.engine.sleep(&self.own, &mut self.yield_budget);
                    self.ports[index].counters.waited.add(time.as_nanos() as u64);
                    self.work_for(Some(index));
                }
                TakeResult::Closed(_) => port.is_over = true,
                TakeResult::Buffers { first, left, .. } => {
                    port.counters.record_depths(left, 1);
                    let Some(entry) = buffers.input.pop_front() else { continue };
                    let accepted = Accepted { number: entry.number, is_last: entry.is_last, left };
                    port.is_over = entry.is_last;
                    port.held = Some((first, entry));
                    return Ok(Some(accepted));
                }
            }
        }
    }

    fn convey_at(&mut self, index: usize, flow: Flow) -> Option<usize> {
        self.work_for(Some(index));
        let Ports { engine, ports, buffers, .. } = self;
        let port = &mut ports[index];
        let (first, mut entry) = port.held.take()?;
        if flow == Flow::End {
            entry.buffer.clear();
        }
        port.counters.calls.add(1);
        port.counters.bytes.add(entry.buffer.len() as u64);
        let ends_here = flow != Flow::Convey && !entry.is_last;
        entry.is_last |= ends_here;
        port.is_over |= ends_here;
        buffers.output.push_back(entry);
        let processed = if ends_here { Processed::EndsHere } else { Processed::Done };
        Some(engine.deliver(port.at, first, &processed, buffers).0)
    }

    /// Ends the pipelines after the junction has returned. If the run has failed, only frees the
    /// held buffers.
    pub(crate) fn close(mut self) {
        // Held buffers go first: other stages may need them to deliver the buffers that the rest
        // waits for.
        let mut order: Vec<usize> = (0..self.ports.len()).collect();
        order.sort_by_key(|&index| self.ports[index].held.is_none());
        for index in order {
            let port = &mut self.ports[index];
            if self.engine.ending.is_ending() {
                if let Some((_, entry)) = port.held.take() {
                    self.buffers.input.push_back(entry);
                    self.engine.return_free(self.engine.groups[port.at].first, &mut self.buffers);
                }
                continue;
            }
            let held_last = port.held.as_ref().is_some_and(|(_, entry)| entry.is_last);
            if port.held.is_some() {
                self.convey_at(index, if held_last { Flow::Convey } else { Flow::Last });
            } else if !port.is_over && matches!(self.accept_at(index), Ok(Some(_))) {
                self.convey_at(index, Flow::End);
            }
        }
        self.work_for(None);
        self.engine.leave();
    }
}
