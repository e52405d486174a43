//! The threads of a `barrier`, a `lock` or a `cpu` job.
//!
//! All threads are created and stand at a gate before the run lets any of them go. The main thread only listens to the
//! run and another only collects the figures: both sleep while the threads compute.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier as Gate, OnceLock};
use std::thread;
use std::time::Instant;

use policy::Span;
use policy::record::{Log, Off, Recorder};
use policy::waiting::WaitingRule;
use scenario::draw::{Law, Stream};
use scenario::result::JobOutcome;
use sys::process::{Usage, thread_usage};
use wait::{Barrier, Mutex};

use crate::event_log::{Activity, ActivityLogger, Event, EventLog, EventLogger};
use crate::protocol::{Compute, Failure, Order, Reply, Request, Task, Waiting};
use crate::protocol::{RequestReader, reply};
use crate::units::span;
use crate::workload::{Rate, Workload};

/// How long a thread of an endless job computes before it looks whether it is to go on: short beside any timeslice, long
/// beside the look.
const CHUNK: Span = Span::from_micros(50);

/// Enough for a workload, a draw and a barrier; thousands of threads must fit.
const STACK: usize = 256 << 10;

/// The phases of an endless job.
const AHEAD: u8 = 0;
const COUNTING: u8 = 1;
const STOPPED: u8 = 2;

/// Activity the threads share.
struct ThreadJob<R: Recorder> {
    job: String,
    keep_running: bool,
    /// How many threads keep a event_log, if they do.
    event_logs: Option<u32>,
    rate: Rate,
    task: SharedTask<R>,
    gate: Gate,
    phase: AtomicU8,
    started: OnceLock<Instant>,
}

/// Activity they do, with what they need for it together.
enum SharedTask<R: Recorder> {
    Barrier {
        rounds: u64,
        seed: u64,
        law: Law,
        step: Span,
        /// Where the rounds that count are met.
        barrier: Box<Barrier<R>>,
        /// Where they go on to meet after these, so that the figures of the other are final by then.
        afterwards: Box<Barrier<R>>,
    },
    Lock {
        rounds: u64,
        seed: u64,
        compute: Law,
        critical: Law,
        step: Span,
        mutex: Box<Mutex<()>>,
    },
    Cpu {
        work: Compute,
    },
    Endless,
}

/// Activity a thread says of itself.
enum Message {
    /// It stands at the gate: its id.
    Ready(i32),
    Done(ThreadOutcome),
}

/// Activity one thread did.
struct ThreadOutcome {
    ended: Instant,
    usage: Usage,
    work: Span,
    event_log: Option<EventLog>,
}

pub(crate) fn serve(order: Order, requests: RequestReader) -> Result<(), Failure> {
    if order.record { serve_with::<Log>(order, requests) } else { serve_with::<Off>(order, requests) }
}

fn serve_with<R>(order: Order, mut requests: RequestReader) -> Result<(), Failure>
where
    R: Recorder + Default + Send + Sync + 'static,
{
    let (threads, task) = prepare::<R>(&order)?;
    let job = Arc::new(ThreadJob {
        job: order.job,
        keep_running: order.keep_running,
        event_logs: order.event_logs.then_some(threads),
        rate: order.rate,
        task,
        gate: Gate::new(threads as usize + 1),
        phase: AtomicU8::new(AHEAD),
        started: OnceLock::new(),
    });
    let (tell, hear) = channel();
    let start = |number| {
        let (member, tell) = (Arc::clone(&job), tell.clone());
        let body = move || member.thread(number, &tell);
        let refused =
            |why: std::io::Error| Failure::ThreadRefused { number: number + 1, threads, why: why.to_string() };
        thread::Builder::new().name(format!("thread {number}")).stack_size(STACK).spawn(body).map_err(refused)
    };
    order.scheduling.start(|| (0..threads).try_for_each(|number| start(number).map(drop)))??;
    let ids = hear.iter().take(threads as usize).filter_map(|message| match message {
        Message::Ready(id) => Some(id),
        Message::Done(_) => None,
    });
    let ids = ids.collect();
    let collector = Arc::clone(&job);
    let body = move || collector.collect(threads, &hear);
    thread::Builder::new()
        .name("collector".into())
        .stack_size(STACK)
        .spawn(body)
        .map_err(Failure::io("its figures cannot be collected"))?;
    reply(&Reply::Ready { threads: ids }).map_err(Failure::io("cannot reply"))?;

    // Nobody waits for threads that still run: they end with the process.
    while let Some(request) = requests.wait().map_err(Failure::io("cannot hear the run"))? {
        match request {
            Request::Go => {
                let _ = job.started.set(Instant::now());
                job.gate.wait();
            }
            Request::Count => job.phase.store(COUNTING, Ordering::Relaxed),
            Request::Stop => job.phase.store(STOPPED, Ordering::Relaxed),
        }
    }
    Ok(())
}

/// How many threads there are, and what they share.
fn prepare<R: Recorder + Default>(order: &Order) -> Result<(u32, SharedTask<R>), Failure> {
    match &order.task {
        &Task::Barrier { threads, rounds, ref compute, ref waiting } => {
            let waiting = waiting_of(waiting)?;
            let barrier = || Box::new(Barrier::with_recorder(threads, waiting, R::default()));
            let Compute { seed, step, law } = compute.clone();
            let (barrier, afterwards) = (barrier(), barrier());
            Ok((threads, SharedTask::Barrier { rounds, seed, law, step, barrier, afterwards }))
        }
        &Task::Lock { threads, rounds, ref compute, ref critical, ref waiting } => {
            let mutex = Box::new(Mutex::with((), waiting_of(waiting)?));
            let Compute { seed, step, law: compute } = compute.clone();
            let critical = critical.law.clone();
            Ok((threads, SharedTask::Lock { rounds, seed, compute, critical, step, mutex }))
        }
        &Task::Cpu { threads, work: Some(ref work) } => Ok((threads, SharedTask::Cpu { work: work.clone() })),
        &Task::Cpu { threads, work: None } => Ok((threads, SharedTask::Endless)),
        Task::Command { .. } | Task::Pipeline(_) | Task::Fibers(_) => {
            Err(Failure::Other { message: "its threads are not made here".into() })
        }
    }
}

fn waiting_of(waiting: &Waiting) -> Result<wait::Waiting, Failure> {
    let Waiting { rule, costs, cpus } = waiting;
    let rule: WaitingRule = rule.parse().map_err(Failure::io("its waiting rule"))?;
    Ok(wait::Waiting::by(rule).with_costs(*costs).with_cpus(*cpus))
}

impl<R: Recorder> ThreadJob<R> {
    /// The life of one thread.
    fn thread(&self, number: u32, tell: &Sender<Message>) {
        match self.event_logs {
            Some(threads) => self.run_thread(number, tell, EventLogger::new(number, threads, self.rate)),
            None => self.run_thread(number, tell, ()),
        }
    }

    fn run_thread<K: ActivityLogger>(&self, number: u32, tell: &Sender<Message>, mut logger: K) {
        // Nobody is left to hear where these fail: the process is about to end.
        let done = |outcome: ThreadOutcome, mut logger: K| {
            logger.log(Activity::End);
            drop(tell.send(Message::Done(ThreadOutcome { event_log: logger.finish(), ..outcome })));
        };
        let mut workload = Workload::new();
        // The first pass brings code and data into the cache.
        workload.run(1000);
        match &self.task {
            &SharedTask::Barrier { rounds, seed, ref law, step, ref barrier, ref afterwards } => {
                let mut stream = Stream::named(seed, &self.job, number);
                let (mut party, mut later) = (barrier.party(number), afterwards.party(number));
                self.enter(tell);
                let meter = UsageMeter::start();
                logger.log(Activity::Compute);
                let mut iterations = 0;
                for _ in 0..rounds {
                    let length = self.rate.iterations(law.draw(&mut stream, step));
                    logger.run(&mut workload, length);
                    iterations += length;
                    party.wait_observed(&mut logger);
                }
                done(meter.stop(self.rate.time(iterations, rounds)), logger);
                if self.keep_running {
                    loop {
                        workload.run(self.rate.iterations(law.draw(&mut stream, step)));
                        later.wait();
                    }
                }
            }
            &SharedTask::Lock { rounds, seed, ref compute, ref critical, step, ref mutex } => {
                let mut stream = Stream::named(seed, &self.job, number);
                let mut lengths = || [compute, critical].map(|law| self.rate.iterations(law.draw(&mut stream, step)));
                self.enter(tell);
                let meter = UsageMeter::start();
                logger.log(Activity::Compute);
                let mut iterations = 0;
                for _ in 0..rounds {
                    let [without, with] = lengths();
                    logger.run(&mut workload, without);
                    let guard = logger.lock(mutex);
                    logger.run(&mut workload, with);
                    drop(guard);
                    iterations += without + with;
                }
                done(meter.stop(self.rate.time(iterations, 2 * rounds)), logger);
                if self.keep_running {
                    loop {
                        let [without, with] = lengths();
                        workload.run(without);
                        let _guard = mutex.lock();
                        workload.run(with);
                    }
                }
            }
            SharedTask::Cpu { work: Compute { seed, law, step } } => {
                let work = law.draw(&mut Stream::named(*seed, &self.job, number), *step);
                let iterations = self.rate.iterations(work);
                self.enter(tell);
                let meter = UsageMeter::start();
                logger.log(Activity::Compute);
                logger.run(&mut workload, iterations);
                done(meter.stop(self.rate.time(iterations, 1)), logger);
                if self.keep_running {
                    loop {
                        workload.run(iterations);
                    }
                }
            }
            SharedTask::Endless => {
                let chunk = self.rate.iterations(CHUNK);
                self.enter(tell);
                logger.log(Activity::Compute);
                let phase = || self.phase.load(Ordering::Relaxed);
                let (meter, iterations) = compute_until_stopped(|| logger.run(&mut workload, chunk), chunk, phase);
                done(meter.stop(self.rate.time(iterations, 0)), logger);
            }
        }
    }

    /// Waits at the gate until the run says go.
    fn enter(&self, tell: &Sender<Message>) {
        let _ = tell.send(Message::Ready(rustix::thread::gettid().as_raw_nonzero().get()));
        self.gate.wait();
    }

    /// Waits for the figures of all threads and tells the run.
    fn collect(&self, threads: u32, hear: &Receiver<Message>) {
        let (mut usage, mut work, mut ended, mut event_logs) = (Usage::default(), Span::ZERO, None, Vec::new());
        let outcomes = hear.iter().filter_map(|message| match message {
            Message::Done(outcome) => Some(outcome),
            Message::Ready(_) => None,
        });
        for outcome in outcomes.take(threads as usize) {
            usage += outcome.usage;
            work += outcome.work;
            ended = ended.max(Some(outcome.ended));
            event_logs.extend(outcome.event_log);
        }
        let completion = self.started.get().zip(ended).map(|(started, ended)| span(ended - *started));
        let mut outcome = JobOutcome {
            job: self.job.clone(),
            completion_ns: completion,
            cpu_ns: Some(span(usage.cpu)),
            delivered_work_ns: Some(work),
            voluntary_switches: Some(usage.voluntary_switches),
            involuntary_switches: Some(usage.involuntary_switches),
            ..JobOutcome::default()
        };
        match &self.task {
            SharedTask::Barrier { rounds, barrier, .. } => {
                let statistics = barrier.statistics();
                outcome.rounds = Some(*rounds);
                outcome.ssr_percent = statistics.ssr_percent();
                outcome.spin_ns = Some(statistics.spin_time);
                if R::ON {
                    let _ = reply(&Reply::Recorded(barrier.recorder().entries()));
                }
            }
            SharedTask::Lock { rounds, mutex, .. } => {
                let statistics = mutex.statistics();
                outcome.rounds = Some(rounds * u64::from(threads));
                outcome.ssr_percent = statistics.ssr_percent();
                outcome.spin_ns = Some(statistics.spin_time);
            }
            SharedTask::Cpu { .. } => {}
            SharedTask::Endless => outcome.completion_ns = None,
        }
        event_logs.into_iter().for_each(send_event_log);
        // Where the run is gone, the main thread sees the end of its input and ends the process.
        let _ = reply(&Reply::Finished(outcome));
    }
}

/// Tells the run what a thread took down, a piece at a time: long lines take long to be put together.
fn send_event_log(event_log: EventLog) {
    const PIECE: usize = 512;
    let EventLog { number, thread, events, lost } = event_log;
    let piece = |events: &[Event], lost| Reply::EventLog(EventLog { number, thread, events: events.to_vec(), lost });
    let _ = reply(&piece(&[], lost));
    for events in events.chunks(PIECE) {
        let _ = reply(&piece(events, 0));
    }
}

/// Computes chunk by chunk until the phase says stop. Returns the iterations since counting began, and what measures them;
/// none where the thread had no CPU from the start to the end of what counts.
fn compute_until_stopped(mut run: impl FnMut(), chunk: u64, mut phase: impl FnMut() -> u8) -> (UsageMeter, u64) {
    let mut counted = None;
    loop {
        match (phase(), &mut counted) {
            (STOPPED, _) => return counted.unwrap_or_else(|| (UsageMeter::start(), 0)),
            (COUNTING, None) => counted = Some((UsageMeter::start(), 0)),
            _ => {}
        }
        run();
        if let Some((_, iterations)) = &mut counted {
            *iterations += chunk;
        }
    }
}

/// Measures what a thread uses.
struct UsageMeter(Usage);

impl UsageMeter {
    fn start() -> UsageMeter {
        UsageMeter(thread_usage())
    }

    fn stop(&self, work: Span) -> ThreadOutcome {
        ThreadOutcome { ended: Instant::now(), usage: thread_usage().since(self.0), work, event_log: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_job_counts_from_where_the_others_start() {
        let iterations = |phases: &[u8]| {
            let mut phases = phases.iter().copied();
            compute_until_stopped(|| {}, 10, || phases.next().unwrap()).1
        };
        assert_eq!(iterations(&[AHEAD, AHEAD, COUNTING, COUNTING, COUNTING, STOPPED]), 30);
        assert_eq!(iterations(&[AHEAD, AHEAD, STOPPED]), 0, "it was not running while it counted");
    }
}
