//! The trace of a run on the host, put together from what its threads took down of themselves.
//!
//! What a CPU did is known only where a thread looked. A CPU shows the thread that was last seen there, until another is
//! seen there, or that thread is seen elsewhere, goes to sleep, ends, or was away. Everything else is shown as idleness: other
//! programs, the kernel, and the stretch up to a thread's first look after it has got the CPU back.

use std::io::{self, Write};

use host::Diaries;
use host::diary::{Diary, Entry, What};
use policy::{CpuId, Instant, JobId, ThreadId};

use trace::Writer;
use trace::model::{Cast, Event, Job, Leaves, MOST_CPUS, Phase, Thread};

/// Writes the trace of a run of which these are the diaries. Time begins with the first entry. Returns how many entries the
/// diaries had no room for.
///
/// # Errors
///
/// What went wrong first with writing.
pub fn write(to: impl Write, run: &[Diaries]) -> io::Result<u64> {
    let diaries = || run.iter().flat_map(|job| &job.diaries);
    let mut entries: Vec<(ThreadId, Entry)> = (0..)
        .map(ThreadId)
        .zip(diaries())
        .flat_map(|(thread, diary)| diary.entries.iter().map(move |&entry| (thread, entry)))
        .filter(|(_, entry)| entry.cpu < MOST_CPUS)
        .collect();
    // Each thread's own are in their order, and stay so.
    entries.sort_by_key(|(_, entry)| entry.at);
    let cast = cast(run, &entries);
    let origin = entries.first().map_or(Instant::ZERO, |(_, entry)| entry.at);
    let since = |at: Instant| Instant::ZERO + at.since(origin);
    let mut tracer = HostTracer {
        doing: vec![None; cast.threads.len()],
        places: vec![None; cast.threads.len()],
        cpus: vec![None; cast.cpus as usize],
        jobs: cast.threads.iter().map(|thread| thread.job).collect(),
        writer: Writer::new(to, cast, Instant::ZERO),
    };
    for (thread, entry) in &entries {
        tracer.record(*thread, Entry { at: since(entry.at), ..*entry });
    }
    tracer.writer.finish(entries.last().map_or(Instant::ZERO, |(_, entry)| since(entry.at)))?;
    Ok(diaries().map(|diary| diary.lost).sum())
}

fn cast(run: &[Diaries], entries: &[(ThreadId, Entry)]) -> Cast {
    let threads = |(job, of): (usize, &Diaries)| {
        let thread = |diary: &Diary| Thread { id: diary.thread, job, name: format!("{}/{}", of.job, diary.number) };
        of.diaries.iter().map(thread).collect::<Vec<_>>()
    };
    let job =
        |diaries: &Diaries| Job { id: i32::try_from(diaries.process).unwrap_or(i32::MAX), name: diaries.job.clone() };
    Cast {
        cpus: entries.iter().map(|(_, entry)| entry.cpu + 1).max().unwrap_or(0),
        jobs: run.iter().map(job).collect(),
        threads: run.iter().enumerate().flat_map(threads).collect(),
    }
}

/// What is known of threads and CPUs at some moment.
struct HostTracer<W> {
    writer: Writer<W>,
    /// What each thread was last seen doing.
    doing: Vec<Option<What>>,
    /// Where each thread is, if it is anywhere.
    places: Vec<Option<CpuId>>,
    /// Who is on each CPU, if anybody is.
    cpus: Vec<Option<ThreadId>>,
    /// The jobs of the threads.
    jobs: Vec<usize>,
}

impl<W: Write> HostTracer<W> {
    fn record(&mut self, thread: ThreadId, Entry { at, cpu, what }: Entry) {
        let cpu = CpuId(cpu);
        if what != What::Away {
            self.place(at, thread, cpu);
        }
        let begins = |phase| Event::Begins { thread, phase };
        match what {
            What::Computes => self.writer.tell(at, begins(Phase::Compute)),
            What::Spins => self.writer.tell(at, begins(Phase::Spin)),
            What::Yields => self.writer.tell(at, begins(Phase::Yield)),
            What::Blocks => {
                self.writer.tell(at, begins(Phase::Block));
                self.take_off(at, thread, Leaves::Asleep);
            }
            What::Waits => self.writer.tell(at, begins(Phase::Wait)),
            What::Completes => self.complete_round(at, thread, cpu),
            What::Away => self.take_off(at, thread, Leaves::Preempted),
            What::Seen => {}
            What::Ends => {
                self.writer.tell(at, Event::Ends { thread });
                self.take_off(at, thread, Leaves::Ended);
            }
        }
        if !matches!(what, What::Away | What::Seen) {
            self.doing[thread.index()] = Some(what);
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
            if self.doing[woken].take_if(|doing| *doing == What::Blocks).is_some() {
                let woken = ThreadId(woken as u32);
                self.writer.tell(at, Event::Wakes { cpu, waker: Some(last), woken });
            }
        }
    }
}
