//! The trace of a run on the host, made from the events that its threads recorded about themselves.
//!
//! The trace knows what a CPU did only when one of the threads recorded an event. A CPU shows the
//! thread that was last seen there until another thread is seen there, or that thread is seen
//! elsewhere, goes to sleep, ends, or was away. All other time is shown as idle: other programs,
//! the kernel, and the time until a thread's first event after it has got the CPU back.

use std::io::{self, Write};

use host::JobEventLogs;
use host::event_log::{Activity, Event as LoggedEvent, EventLog};
use policy::{CpuId, Instant, JobId, ThreadId};

use trace::Writer;
use trace::model::{Event, Job, MOST_CPUS, Participants, Phase, PreviousState, Thread};

/// Writes the trace of a run from the event logs of its threads. Time begins with the first event.
///
/// Returns the number of events that did not fit into the logs.
pub fn write(to: impl Write, run: &[JobEventLogs]) -> io::Result<u64> {
    let logs = || run.iter().flat_map(|job| &job.event_logs);
    let mut events: Vec<(ThreadId, LoggedEvent)> = (0..)
        .map(ThreadId)
        .zip(logs())
        .flat_map(|(thread, log)| log.events.iter().map(move |&event| (thread, event)))
        .filter(|(_, event)| event.cpu < MOST_CPUS)
        .collect();
    // A stable sort keeps the order of each thread's entries.
    events.sort_by_key(|(_, event)| event.at);
    let participants = participants(run, &events);
    let origin = events.first().map_or(Instant::ZERO, |(_, event)| event.at);
    let since = |at: Instant| Instant::ZERO + at.since(origin);
    let mut tracer = HostTracer {
        doing: vec![None; participants.threads.len()],
        places: vec![None; participants.threads.len()],
        cpus: vec![None; participants.cpus as usize],
        jobs: participants.threads.iter().map(|thread| thread.job).collect(),
        writer: Writer::new(to, participants, Instant::ZERO),
    };
    for (thread, event) in &events {
        tracer.record(*thread, LoggedEvent { at: since(event.at), ..*event });
    }
    tracer.writer.finish(events.last().map_or(Instant::ZERO, |(_, event)| since(event.at)))?;
    Ok(logs().map(|log| log.lost).sum())
}

fn participants(run: &[JobEventLogs], events: &[(ThreadId, LoggedEvent)]) -> Participants {
    let threads = |(job, of): (usize, &JobEventLogs)| {
        let thread = |log: &EventLog| Thread { id: log.thread, job, name: format!("{}/{}", of.job, log.number) };
        of.event_logs.iter().map(thread).collect::<Vec<_>>()
    };
    let job = |logs: &JobEventLogs| Job { id: i32::try_from(logs.process).unwrap_or(i32::MAX), name: logs.job.clone() };
    Participants {
        cpus: events.iter().map(|(_, event)| event.cpu + 1).max().unwrap_or(0),
        jobs: run.iter().map(job).collect(),
        threads: run.iter().enumerate().flat_map(threads).collect(),
    }
}

/// The known state of threads and CPUs.
struct HostTracer<W> {
    writer: Writer<W>,
    /// The last recorded event of each thread.
    doing: Vec<Option<Activity>>,
    /// The CPU of each thread, if any.
    places: Vec<Option<CpuId>>,
    /// The thread on each CPU, if any.
    cpus: Vec<Option<ThreadId>>,
    /// The job of each thread.
    jobs: Vec<usize>,
}

impl<W: Write> HostTracer<W> {
    fn record(&mut self, thread: ThreadId, LoggedEvent { at, cpu, activity }: LoggedEvent) {
        let cpu = CpuId(cpu);
        if activity != Activity::Away {
            self.place(at, thread, cpu);
        }
        let begins = |phase| Event::PhaseBegin(thread, phase);
        match activity {
            Activity::Compute => self.writer.record(at, begins(Phase::Compute)),
            Activity::Spin => self.writer.record(at, begins(Phase::Spin)),
            Activity::Yield => self.writer.record(at, begins(Phase::Yield)),
            Activity::Block => {
                self.writer.record(at, begins(Phase::Block));
                self.take_off(at, thread, PreviousState::Blocked);
            }
            Activity::Lock => self.writer.record(at, begins(Phase::Wait)),
            Activity::Complete => self.complete_round(at, thread, cpu),
            Activity::Away => self.take_off(at, thread, PreviousState::Preempted),
            Activity::Seen => {}
            Activity::End => {
                self.writer.record(at, Event::ThreadEnd(thread));
                self.take_off(at, thread, PreviousState::Ended);
            }
        }
        if !matches!(activity, Activity::Away | Activity::Seen) {
            self.doing[thread.index()] = Some(activity);
        }
    }

    /// Puts a thread on the CPU on which it was seen.
    fn place(&mut self, at: Instant, thread: ThreadId, cpu: CpuId) {
        if self.cpus[cpu.index()] == Some(thread) {
            return;
        }
        self.take_off(at, thread, PreviousState::Preempted);
        if let Some(other) = self.cpus[cpu.index()].replace(thread) {
            self.places[other.index()] = None;
        }
        self.places[thread.index()] = Some(cpu);
        self.writer.record(at, Event::Switch { cpu, previous: PreviousState::Preempted, to: Some(thread) });
    }

    /// Takes a thread off its CPU, if it is on one.
    fn take_off(&mut self, at: Instant, thread: ThreadId, previous: PreviousState) {
        if let Some(cpu) = self.places[thread.index()].take() {
            self.cpus[cpu.index()] = None;
            self.writer.record(at, Event::Switch { cpu, previous, to: None });
        }
    }

    /// Completes a round: the last thread has arrived and wakes the blocked ones.
    fn complete_round(&mut self, at: Instant, last: ThreadId, cpu: CpuId) {
        let job = self.jobs[last.index()];
        self.writer.record(at, Event::RoundEnd(JobId(job as u32)));
        for woken in (0..self.jobs.len()).filter(|&thread| self.jobs[thread] == job) {
            if self.doing[woken].take_if(|doing| *doing == Activity::Block).is_some() {
                let woken = ThreadId(woken as u32);
                self.writer.record(at, Event::Wakeup { cpu, waker: Some(last), woken });
            }
        }
    }
}
