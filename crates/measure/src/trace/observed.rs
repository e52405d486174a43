//! The trace of a run on the host, put together from what its threads took down of themselves.
//!
//! What a CPU did is known only where a thread looked. A CPU shows the thread that was last seen there, until another is
//! seen there, or that thread is seen elsewhere, goes to sleep, ends, or was away. Everything else is shown as idleness: other
//! programs, the kernel, and the stretch up to a thread's first look after it has got the CPU back.

use std::io::{self, Write};

use host::JobEventLogs;
use host::event_log::{Activity, Event as LoggedEvent, EventLog};
use policy::{CpuId, Instant, JobId, ThreadId};

use trace::Writer;
use trace::model::{Cast, Event, Job, Leaves, MOST_CPUS, Phase, Thread};

/// Writes the trace of a run of which these are the logs. Time begins with the first event. Returns how many events the
/// logs had no room for.
///
/// # Errors
///
/// What went wrong first with writing.
pub fn write(to: impl Write, run: &[JobEventLogs]) -> io::Result<u64> {
    let logs = || run.iter().flat_map(|job| &job.event_logs);
    let mut events: Vec<(ThreadId, LoggedEvent)> = (0..)
        .map(ThreadId)
        .zip(logs())
        .flat_map(|(thread, log)| log.events.iter().map(move |&event| (thread, event)))
        .filter(|(_, event)| event.cpu < MOST_CPUS)
        .collect();
    // Each thread's own are in their order, and stay so.
    events.sort_by_key(|(_, event)| event.at);
    let cast = cast(run, &events);
    let origin = events.first().map_or(Instant::ZERO, |(_, event)| event.at);
    let since = |at: Instant| Instant::ZERO + at.since(origin);
    let mut tracer = HostTracer {
        doing: vec![None; cast.threads.len()],
        places: vec![None; cast.threads.len()],
        cpus: vec![None; cast.cpus as usize],
        jobs: cast.threads.iter().map(|thread| thread.job).collect(),
        writer: Writer::new(to, cast, Instant::ZERO),
    };
    for (thread, event) in &events {
        tracer.record(*thread, LoggedEvent { at: since(event.at), ..*event });
    }
    tracer.writer.finish(events.last().map_or(Instant::ZERO, |(_, event)| since(event.at)))?;
    Ok(logs().map(|log| log.lost).sum())
}

fn cast(run: &[JobEventLogs], events: &[(ThreadId, LoggedEvent)]) -> Cast {
    let threads = |(job, of): (usize, &JobEventLogs)| {
        let thread = |log: &EventLog| Thread { id: log.thread, job, name: format!("{}/{}", of.job, log.number) };
        of.event_logs.iter().map(thread).collect::<Vec<_>>()
    };
    let job = |logs: &JobEventLogs| Job { id: i32::try_from(logs.process).unwrap_or(i32::MAX), name: logs.job.clone() };
    Cast {
        cpus: events.iter().map(|(_, event)| event.cpu + 1).max().unwrap_or(0),
        jobs: run.iter().map(job).collect(),
        threads: run.iter().enumerate().flat_map(threads).collect(),
    }
}

/// What is known of threads and CPUs at some moment.
struct HostTracer<W> {
    writer: Writer<W>,
    /// What each thread was last seen doing.
    doing: Vec<Option<Activity>>,
    /// Where each thread is, if it is anywhere.
    places: Vec<Option<CpuId>>,
    /// Who is on each CPU, if anybody is.
    cpus: Vec<Option<ThreadId>>,
    /// The jobs of the threads.
    jobs: Vec<usize>,
}

impl<W: Write> HostTracer<W> {
    fn record(&mut self, thread: ThreadId, LoggedEvent { at, cpu, activity }: LoggedEvent) {
        let cpu = CpuId(cpu);
        if activity != Activity::Away {
            self.place(at, thread, cpu);
        }
        let begins = |phase| Event::Begins { thread, phase };
        match activity {
            Activity::Compute => self.writer.tell(at, begins(Phase::Compute)),
            Activity::Spin => self.writer.tell(at, begins(Phase::Spin)),
            Activity::Yield => self.writer.tell(at, begins(Phase::Yield)),
            Activity::Block => {
                self.writer.tell(at, begins(Phase::Block));
                self.take_off(at, thread, Leaves::Asleep);
            }
            Activity::Lock => self.writer.tell(at, begins(Phase::Wait)),
            Activity::Complete => self.complete_round(at, thread, cpu),
            Activity::Away => self.take_off(at, thread, Leaves::Preempted),
            Activity::Seen => {}
            Activity::End => {
                self.writer.tell(at, Event::Ends { thread });
                self.take_off(at, thread, Leaves::Ended);
            }
        }
        if !matches!(activity, Activity::Away | Activity::Seen) {
            self.doing[thread.index()] = Some(activity);
        }
    }

    /// A thread is seen on a CPU.
    fn place(&mut self, at: Instant, thread: ThreadId, cpu: CpuId) {
        if self.cpus[cpu.index()] == Some(thread) {
            return;
        }
        self.take_off(at, thread, Leaves::Preempted);
        if let Some(other) = self.cpus[cpu.index()].replace(thread) {
            self.places[other.index()] = None;
        }
        self.places[thread.index()] = Some(cpu);
        self.writer.tell(at, Event::Switch { cpu, leaves: Leaves::Preempted, to: Some(thread) });
    }

    /// A thread is on no CPU any more, if it was on one.
    fn take_off(&mut self, at: Instant, thread: ThreadId, leaves: Leaves) {
        if let Some(cpu) = self.places[thread.index()].take() {
            self.cpus[cpu.index()] = None;
            self.writer.tell(at, Event::Switch { cpu, leaves, to: None });
        }
    }

    /// The last one has arrived, and wakes those that sleep.
    fn complete_round(&mut self, at: Instant, last: ThreadId, cpu: CpuId) {
        let job = self.jobs[last.index()];
        self.writer.tell(at, Event::Round { job: JobId(job as u32) });
        for woken in (0..self.jobs.len()).filter(|&thread| self.jobs[thread] == job) {
            if self.doing[woken].take_if(|doing| *doing == Activity::Block).is_some() {
                let woken = ThreadId(woken as u32);
                self.writer.tell(at, Event::Wakes { cpu, waker: Some(last), woken });
            }
        }
    }
}
