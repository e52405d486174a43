//! Traces a simulation while it runs.
//!
//! A switch takes time that belongs to neither thread. The trace shows a switch on CPU N as a
//! thread `switch/N` of its own, and these times add up to the share of switches in the report. If
//! one of the two threads ran during the switch, the trace would show work that was not done. If
//! the CPU were idle, the trace would hide the cost of switches. Switches that take no time are not
//! shown.

use std::io::Write;

use policy::{CpuId, Instant, JobId, ThreadId};
use sim::observer::{CpuState, LeaveReason, Observer, ThreadPhase};
use sim::scheduler::ReadyReason;

use scenario::Setting;

use trace::Writer;
use trace::model::{Cast, Event, Leaves, Phase};

/// Writes the events of a simulation.
#[derive(Debug)]
pub struct SimulationTracer<W> {
    writer: Writer<W>,
    /// The number of the first thread that stands for switches. There is one for each CPU.
    switches: u32,
    /// For each CPU that is switching: since when, and how the last thread leaves.
    switching: Vec<Option<(Instant, Leaves)>>,
    /// The CPU on which each thread last ran.
    cpus: Vec<CpuId>,
}

impl<W: Write> SimulationTracer<W> {
    /// Begins the trace of a simulation of `setting` on `cpus` CPUs, at most
    /// [`MOST_CPUS`](trace::model::MOST_CPUS).
    pub fn new(to: W, setting: &Setting, cpus: u32) -> SimulationTracer<W> {
        let mut cast = Cast::of(setting, cpus);
        let threads = cast.threads.len();
        cast.add("switch".to_owned(), cpus);
        let writer = Writer::new(to, cast, Instant::ZERO);
        let switching = vec![None; cpus as usize];
        SimulationTracer { writer, switches: threads as u32, switching, cpus: vec![CpuId(0); threads] }
    }

    /// Ends the trace of a simulation that ended at this moment.
    ///
    /// # Errors
    ///
    /// The first error of the writer.
    pub fn finish(mut self, over: Instant) -> std::io::Result<W> {
        for cpu in 0..self.switching.len() {
            if let Some((since, leaves)) = self.switching[cpu].take_if(|(since, _)| *since < over) {
                self.write_switch(since, CpuId(cpu as u32), leaves);
            }
        }
        self.writer.finish(over)
    }

    fn write_switch(&mut self, since: Instant, cpu: CpuId, leaves: Leaves) {
        let switch = ThreadId(self.switches + cpu.0);
        self.writer.tell(since, Event::Switch { cpu, leaves, to: Some(switch) });
    }

    fn end_switch(&mut self, at: Instant, cpu: CpuId, to: Option<ThreadId>) {
        let leaves = match self.switching[cpu.index()].take() {
            Some((since, leaves)) if since < at => {
                self.write_switch(since, cpu, leaves);
                Leaves::Asleep
            }
            Some((_, leaves)) => leaves,
            None => Leaves::Preempted,
        };
        self.writer.tell(at, Event::Switch { cpu, leaves, to });
    }
}

impl<W: Write> Observer for SimulationTracer<W> {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        match state {
            CpuState::Idle => self.end_switch(at, cpu, None),
            CpuState::Running(thread) => {
                self.cpus[thread.index()] = cpu;
                self.end_switch(at, cpu, Some(thread));
            }
            CpuState::Switching { from, .. } => {
                let leaves = match from.map(|(_, how)| how) {
                    None | Some(LeaveReason::Yielding) => Leaves::Ready,
                    Some(LeaveReason::Preempted) => Leaves::Preempted,
                    Some(LeaveReason::Blocking) => Leaves::Asleep,
                    Some(LeaveReason::Ending) => Leaves::Ended,
                };
                self.switching[cpu.index()] = Some((at, leaves));
            }
        }
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        let phase = match what {
            ThreadPhase::Computation => Phase::Compute,
            ThreadPhase::Spin => Phase::Spin,
            ThreadPhase::Yield => Phase::Yield,
            ThreadPhase::Block => Phase::Block,
            ThreadPhase::End => return self.writer.tell(at, Event::Ends { thread }),
        };
        self.writer.tell(at, Event::Begins { thread, phase });
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        if why == ReadyReason::New {
            self.writer.tell(at, Event::Begins { thread, phase: Phase::Compute });
            self.writer.tell(at, Event::Wakes { cpu: CpuId(0), waker: None, woken: thread });
        }
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, _last: ThreadId) {
        self.writer.tell(at, Event::Round { job });
    }

    fn thread_woken(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.writer.tell(at, Event::Wakes { cpu: self.cpus[waker.index()], waker: Some(waker), woken });
    }
}
