//! Junctions: a part of a program where several pipelines meet, which accepts from each and conveys to each as it likes.

use std::sync::Arc;

use wait::Event;

use crate::buffer::Buffer;
use crate::copy::Processed;
use crate::counters::Counters;
use crate::engine::{Engine, Hands, Rest};
use crate::entry::Entry;
use crate::patience::Patience;
use crate::queue::Taken;
use crate::stage::Flow;

/// What a junction has hold of: a place in each pipeline that meets there.
///
/// Of each pipeline it holds one buffer at the most, which stays here, so that none can be lost. When the junction returns, each pipeline
/// ends there: a buffer that is held goes on as the last one, or else the next one does, empty.
pub struct Ports<'e, 'a, T> {
    engine: &'e Engine<'a, T>,
    ports: Vec<Port<T>>,
    hands: Hands<'a, T>,
    own: Arc<Event>,
    patience: Patience,
    /// The port that was asked for something last, and when, on the run's clock: what the junction does from then on counts as work for it.
    working: Option<(usize, u64)>,
}

pub(crate) struct Port<T> {
    pub(crate) pipeline: String,
    pub(crate) at: usize,
    pub(crate) counters: Arc<Counters>,
    pub(crate) held: Option<(u64, Box<Entry<T>>)>,
    pub(crate) is_over: bool,
}

/// What a junction is told of a buffer that it has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its number in its pipeline.
    pub number: u64,
    /// Whether it is the last of its pipeline.
    pub is_last: bool,
    /// How many buffers were left in the queue that it came from, at that moment.
    pub left: usize,
}

/// Why a port cannot do what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// No pipeline of this name meets here.
    #[error("no pipeline '{0}' meets here (`.join_at(..)` makes one do so)")]
    Unknown(String),
    /// A buffer is held already.
    #[error("a buffer of pipeline '{0}' is held already: convey it first")]
    Held(String),
    /// No buffer is held.
    #[error("no buffer of pipeline '{0}' is held: accept one first")]
    NotHeld(String),
    /// The run is ending: return, with this error or any.
    #[error("the run is ending")]
    Ending,
}

impl<'e, 'a, T> Ports<'e, 'a, T> {
    pub(crate) fn new(engine: &'e Engine<'a, T>, ports: Vec<Port<T>>, own: Arc<Event>) -> Ports<'e, 'a, T> {
        Ports { engine, ports, hands: Hands::of_thread(), own, patience: Patience::new(), working: None }
    }

    /// From now on the junction works for this port, or for none.
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

    /// Waits for the next buffer of a pipeline and holds it; nothing where the last one has been accepted before. Of a pipeline that begins here it is a free buffer.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn accept(&mut self, pipeline: &str) -> Result<Option<Accepted>, PortError> {
        let index = self.index(pipeline)?;
        if self.ports[index].held.is_some() {
            return Err(PortError::Held(pipeline.to_owned()));
        }
        self.accept_at(index)
    }

    /// The buffer that is held of a pipeline.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn buffer(&mut self, pipeline: &str) -> Result<&mut Buffer<T>, PortError> {
        let [buffer] = self.buffers([pipeline])?;
        Ok(buffer)
    }

    /// The buffers that are held of several pipelines, all at once.
    ///
    /// # Errors
    /// [`PortError`]; naming a pipeline twice is [`PortError::NotHeld`], since there is one buffer only.
    pub fn buffers<const N: usize>(&mut self, pipelines: [&str; N]) -> Result<[&mut Buffer<T>; N], PortError> {
        let mut held: Vec<Option<&mut Buffer<T>>> = Vec::new();
        held.resize_with(N, || None);
        for pipeline in pipelines {
            self.index(pipeline)?;
        }
        for port in &mut self.ports {
            if let Some(place) = pipelines.iter().position(|name| *name == port.pipeline) {
                held[place] = port.held.as_mut().map(|(_, entry)| &mut entry.buffer);
            }
        }
        let missing = held.iter().position(Option::is_none);
        if let Some(missing) = missing {
            return Err(PortError::NotHeld(pipelines[missing].to_owned()));
        }
        let held: Vec<&mut Buffer<T>> = held.into_iter().flatten().collect();
        held.try_into().map_err(|_| PortError::Ending)
    }

    /// Passes on the buffer that is held of a pipeline, and returns how many are in the queue that it went to, at that moment. The last one is the last
    /// whatever `flow` says.
    ///
    /// # Errors
    /// [`PortError`].
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
            let Ports { engine, ports, hands, own, .. } = self;
            let port = &mut ports[index];
            if engine.ending.is_ending() {
                return Err(PortError::Ending);
            }
            if port.is_over {
                return Ok(None);
            }
            match engine.take(port.at, 1, hands, Rest::Thread(own.clone())) {
                Taken::Resting => {
                    self.work_for(None);
                    let time = self.engine.sleep(&self.own, &mut self.patience);
                    self.ports[index].counters.waited.add(time.as_nanos() as u64);
                    self.work_for(Some(index));
                }
                Taken::Closed(_) => port.is_over = true,
                Taken::Some { first, left, .. } => {
                    port.counters.found_depths(left, 1);
                    let Some(entry) = hands.hand.pop_front() else { continue };
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
        let Ports { engine, ports, hands, .. } = self;
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
        hands.done.push_back(entry);
        let processed = if ends_here { Processed::EndsHere } else { Processed::Done };
        Some(engine.deliver(port.at, first, &processed, hands).0)
    }

    /// The junction has returned: its pipelines end here, or what it holds is given back where the run has failed.
    pub(crate) fn close(mut self) {
        // What is held goes on first: others may need it to bring what is waited for then.
        let mut order: Vec<usize> = (0..self.ports.len()).collect();
        order.sort_by_key(|&index| self.ports[index].held.is_none());
        for index in order {
            let port = &mut self.ports[index];
            if self.engine.ending.is_ending() {
                if let Some((_, entry)) = port.held.take() {
                    self.hands.hand.push_back(entry);
                    self.engine.give_back(self.engine.stations[port.at].first, &mut self.hands);
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
