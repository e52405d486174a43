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
use trace::model::{Event, Participants, Phase, PreviousState};

/// Writes the events of a simulation.
#[derive(Debug)]
pub struct SimulationTracer<W> {
    writer: Writer<W>,
    /// The number of the first thread that stands for switches. There is one for each CPU.
    switches: u32,
    /// For each CPU that is switching: since when, and the state in which its last thread left.
    switching: Vec<Option<(Instant, PreviousState)>>,
    /// The CPU on which each thread last ran.
    cpus: Vec<CpuId>,
}

impl<W: Write> SimulationTracer<W> {
    /// Begins the trace of a simulation of `setting` on `cpus` CPUs, at most
    /// [`MOST_CPUS`](trace::model::MOST_CPUS).
    pub fn new(to: W, setting: &Setting, cpus: u32) -> SimulationTracer<W> {
        let mut participants = Participants::of(setting, cpus);
        let threads = participants.threads.len();
        participants.add("switch".to_owned(), cpus);
        let writer = Writer::new(to, participants, Instant::ZERO);
        let switching = vec![None; cpus as usize];
        SimulationTracer { writer, switches: threads as u32, switching, cpus: vec![CpuId(0); threads] }
    }

    /// Ends the trace of a simulation that ended at this moment.
    pub fn finish(mut self, over: Instant) -> std::io::Result<W> {
        for cpu in 0..self.switching.len() {
            if let Some((since, previous)) = self.switching[cpu].take_if(|(since, _)| *since < over) {
                self.write_switch(since, CpuId(cpu as u32), previous);
            }
        }
        self.writer.finish(over)
    }

    fn write_switch(&mut self, since: Instant, cpu: CpuId, previous: PreviousState) {
        let switch = ThreadId(self.switches + cpu.0);
        self.writer.record(since, Event::Switch { cpu, previous, to: Some(switch) });
    }

    fn end_switch(&mut self, at: Instant, cpu: CpuId, to: Option<ThreadId>) {
        let previous = match self.switching[cpu.index()].take() {
            Some((since, previous)) if since < at => {
                self.write_switch(since, cpu, previous);
                PreviousState::Blocked
            }
            Some((_, previous)) => previous,
            None => PreviousState::Preempted,
        };
        self.writer.record(at, Event::Switch { cpu, previous, to });
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
                let previous = match from.map(|(_, how)| how) {
                    None | Some(LeaveReason::Yielding) => PreviousState::Yielded,
                    Some(LeaveReason::Preempted) => PreviousState::Preempted,
                    Some(LeaveReason::Blocking) => PreviousState::Blocked,
                    Some(LeaveReason::Stopped) => PreviousState::Stopped,
                    Some(LeaveReason::Ending) => PreviousState::Ended,
                };
                self.switching[cpu.index()] = Some((at, previous));
            }
        }
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        let phase = match what {
            ThreadPhase::Computation => Phase::Compute,
            ThreadPhase::Spin => Phase::Spin,
            ThreadPhase::Yield => Phase::Yield,
            ThreadPhase::Block => Phase::Block,
            ThreadPhase::End => return self.writer.record(at, Event::ThreadEnd(thread)),
        };
        self.writer.record(at, Event::PhaseBegin(thread, phase));
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        if why == ReadyReason::New {
            self.writer.record(at, Event::PhaseBegin(thread, Phase::Compute));
            self.writer.record(at, Event::Wakeup { cpu: CpuId(0), waker: None, woken: thread });
        }
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, _last: ThreadId) {
        self.writer.record(at, Event::RoundEnd(job));
    }

    fn thread_woken(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.writer.record(at, Event::Wakeup { cpu: self.cpus[waker.index()], waker: Some(waker), woken });
    }
}
