//! The executor of `barrier`, `lock` and `cpu` jobs: their threads.
//!
//! All threads are created and wait at a gate before the run starts any of them. The main thread
//! reads from the run, and the collector thread collects the figures. Both sleep while the other
//! threads compute.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier as Gate, OnceLock};
use std::thread;
use std::time::Instant;

use policy::Span;
use policy::record::{Log, Off, Recorder};
use scenario::JobKind;
use scenario::draw::{Law, Stream};
use scenario::result::JobOutcome;
use sys::process::{Usage, thread_usage};
use wait::{Barrier, Mutex, Statistics, Waiting};

use super::{begun, next_request, outcome, reply_ready};
use crate::event_log::{Activity, ActivityLogger, Event, EventLog, EventLogger};
use crate::protocol::{Failure, Order, Recording, Reply, Request, RequestReader, reply};
use crate::scheduling;
use crate::workload::Workload;

/// The time that a thread of an endless job computes between two checks of its phase: much shorter
/// than a timeslice, much longer than the check.
const CHUNK: Span = Span::from_micros(50);

/// Enough for a workload, a draw and a barrier. Small, so that thousands of threads fit into
/// memory.
const STACK: usize = 256 << 10;

/// The phases of an endless job.
const WARMING_UP: u8 = 0;
const COUNTING: u8 = 1;
const STOPPED: u8 = 2;

/// The state that the threads share.
struct ThreadJob<R: Recorder> {
    order: Order,
    /// The number of threads.
    threads: u32,
    task: SharedTask<R>,
    gate: Gate,
    phase: AtomicU8,
    started: OnceLock<Instant>,
    /// Whether the outcome has been sent: by the collector, or by the main thread if the job is cut
    /// off.
    is_reported: AtomicBool,
}

/// The work of the threads, with the objects that they share for it.
enum SharedTask<R: Recorder> {
    Barrier {
        rounds: u64,
        compute: Law,
        /// The barrier of the rounds that count.
        barrier: Box<Barrier<R>>,
        /// The barrier of later rounds. It is separate, so that the figures of the first one are
        /// final.
        afterwards: Box<Barrier<R>>,
    },
    Lock {
        rounds: u64,
        compute: Law,
        critical: Law,
        mutex: Box<Mutex<()>>,
    },
    Cpu {
        work: Law,
    },
    Endless,
}

/// A message from a thread to the main thread or the collector.
enum Message {
    /// The thread waits at the gate: its id.
    Ready(i32),
    Done(ThreadOutcome),
}

/// The result of one thread.
struct ThreadOutcome {
    ended: Instant,
    usage: Usage,
    work: Span,
    event_log: Option<EventLog>,
}

pub(crate) fn serve(order: &Order, requests: RequestReader) -> Result<(), Failure> {
    match order.recording {
        Recording::Decisions => serve_with::<Log>(order, requests),
        Recording::Nothing | Recording::Events => serve_with::<Off>(order, requests),
    }
}

fn serve_with<R>(order: &Order, mut requests: RequestReader) -> Result<(), Failure>
where
    R: Recorder + Default + Send + Sync + 'static,
{
    let threads = order.job.kind.threads(order.cpus);
    let job = Arc::new(ThreadJob {
        order: order.clone(),
        threads,
        task: shared_task::<R>(order)?,
        gate: Gate::new(threads as usize + 1),
        phase: AtomicU8::new(WARMING_UP),
        started: OnceLock::new(),
        is_reported: AtomicBool::new(false),
    });
    let (sender, receiver) = channel();
    let start = |number| {
        let (for_thread, sender) = (Arc::clone(&job), sender.clone());
        let body = move || for_thread.thread(number, &sender);
        let refused = |why: std::io::Error| {
            let message = format!("thread {} of {threads} could not be started: {why}", number + 1);
            Failure { message, is_input: true }
        };
        thread::Builder::new().name(format!("thread {number}")).stack_size(STACK).spawn(body).map_err(refused)
    };
    scheduling::start(&order.job.attributes, || (0..threads).try_for_each(|number| start(number).map(drop)))??;
    let id = |message| if let Message::Ready(id) = message { Some(id) } else { None };
    let ids = receiver.iter().take(threads as usize).filter_map(id).collect();
    let collector = Arc::clone(&job);
    let body = move || collector.collect(&receiver);
    thread::Builder::new()
        .name("collector".into())
        .stack_size(STACK)
        .spawn(body)
        .map_err(Failure::io("its figures cannot be collected"))?;
    reply_ready(ids)?;

    // Threads that still run are not joined: they end with the process.
    while let Some(request) = next_request(&mut requests)? {
        match request {
            Request::Go(at) => {
                let _ = job.started.set(begun(at));
                job.gate.wait();
            }
            Request::Count => job.phase.store(COUNTING, Ordering::Relaxed),
            Request::Stop => {
                job.phase.store(STOPPED, Ordering::Relaxed);
                job.cut_off();
            }
        }
    }
    Ok(())
}

/// The work of the threads of a job, and the objects that they share.
fn shared_task<R: Recorder + Default>(order: &Order) -> Result<SharedTask<R>, Failure> {
    let waiting = |rule| Waiting::by(rule).with_costs(order.costs).with_cpus(order.cpus);
    Ok(match order.job.kind {
        JobKind::Barrier { threads, ref compute, rounds, waiting: rule } => {
            let barrier = || Box::new(Barrier::with_recorder(threads, waiting(rule), R::default()));
            let (barrier, afterwards) = (barrier(), barrier());
            SharedTask::Barrier { rounds, compute: compute.on(order.costs.cs), barrier, afterwards }
        }
        JobKind::Lock { ref compute, ref critical, rounds, waiting: rule, .. } => {
            let mutex = Box::new(Mutex::with((), waiting(rule)));
            SharedTask::Lock { rounds, compute: compute.law(), critical: critical.law(), mutex }
        }
        JobKind::Cpu { work: Some(ref work), .. } => SharedTask::Cpu { work: work.law() },
        JobKind::Cpu { work: None, .. } => SharedTask::Endless,
        JobKind::Command { .. } | JobKind::Pipeline(_) | JobKind::Fibers(_) | JobKind::Message(_) => {
            return Err("its threads are not made here".to_owned().into());
        }
    })
}

impl<R: Recorder> ThreadJob<R> {
    /// Runs one thread.
    fn thread(&self, number: u32, sender: &Sender<Message>) {
        if self.order.recording == Recording::Events {
            self.run_thread(number, sender, EventLogger::new(number, self.threads, self.order.rate));
        } else {
            self.run_thread(number, sender, ());
        }
    }

    fn run_thread<K: ActivityLogger>(&self, number: u32, sender: &Sender<Message>, mut logger: K) {
        let mut workload = Workload::new();
        // The first pass brings code and data into the cache.
        workload.run(1000);
        let mut stream = Stream::named(self.order.seed, &self.order.job.name, number);
        let mut draw = |law: &Law| self.order.rate.iterations(law.draw(&mut stream, self.order.step));
        match &self.task {
            &SharedTask::Barrier { rounds, ref compute, ref barrier, ref afterwards } => {
                let (mut party, mut later_party) = (barrier.party(number), afterwards.party(number));
                self.measure(sender, logger, rounds, 1, |logger| {
                    let length = draw(compute);
                    logger.run(&mut workload, length);
                    party.wait_observed(logger);
                    length
                });
                self.repeat(|| {
                    workload.run(draw(compute));
                    later_party.wait();
                });
            }
            &SharedTask::Lock { rounds, ref compute, ref critical, ref mutex } => {
                let mut draw = || [compute, critical].map(&mut draw);
                self.measure(sender, logger, rounds, 2, |logger| {
                    let [without, with] = draw();
                    logger.run(&mut workload, without);
                    let guard = logger.lock(mutex);
                    logger.run(&mut workload, with);
                    drop(guard);
                    without + with
                });
                self.repeat(|| {
                    let [without, with] = draw();
                    workload.run(without);
                    let _guard = mutex.lock();
                    workload.run(with);
                });
            }
            SharedTask::Cpu { work } => {
                let iterations = draw(work);
                self.measure(sender, logger, 1, 1, |logger| {
                    logger.run(&mut workload, iterations);
                    iterations
                });
                self.repeat(|| workload.run(iterations));
            }
            SharedTask::Endless => {
                let chunk = self.order.rate.iterations(CHUNK);
                self.enter(sender);
                logger.log(Activity::Compute);
                let phase = || self.phase.load(Ordering::Relaxed);
                let (before, iterations) = compute_until_stopped(|| logger.run(&mut workload, chunk), chunk, phase);
                report(sender, before, self.order.rate.time(iterations, 0), logger);
            }
        }
    }

    /// Runs the rounds that count, from the beginning of the run, and reports them. A round is so
    /// many computations, and returns the number of their iterations.
    fn measure<K: ActivityLogger>(
        &self,
        sender: &Sender<Message>,
        mut logger: K,
        rounds: u64,
        computations: u64,
        mut round: impl FnMut(&mut K) -> u64,
    ) {
        self.enter(sender);
        let before = thread_usage();
        logger.log(Activity::Compute);
        let iterations = (0..rounds).map(|_| round(&mut logger)).sum();
        report(sender, before, self.order.rate.time(iterations, rounds * computations), logger);
    }

    /// Runs rounds that do not count, forever, if the job keeps running.
    fn repeat(&self, mut round: impl FnMut()) {
        if self.order.keep_running {
            loop {
                round();
            }
        }
    }

    /// Waits at the gate until the run begins.
    fn enter(&self, sender: &Sender<Message>) {
        let _ = sender.send(Message::Ready(rustix::thread::gettid().as_raw_nonzero().get()));
        self.gate.wait();
    }

    /// Reports what a barrier job has done so far, unless it has ended. The others cannot say it.
    fn cut_off(&self) {
        let SharedTask::Barrier { barrier, .. } = &self.task else { return };
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let statistics = barrier.statistics();
        let ran = self.started.get().map_or(Span::ZERO, |started| started.elapsed().into());
        let mut outcome = JobOutcome { job: self.order.job.name.clone(), ..JobOutcome::default() };
        add_waits(&mut outcome, statistics.waits / u64::from(self.threads.max(1)), statistics);
        // If the run is gone, the main thread sees the end of its input and ends the process.
        let _ = reply(&Reply::CutOff(outcome.into(), ran));
    }

    /// Waits for the figures of all threads and reports the outcome.
    fn collect(&self, receiver: &Receiver<Message>) {
        let (mut usage, mut work, mut ended, mut event_logs) = (Usage::default(), Span::ZERO, None, Vec::new());
        let outcome_in = |message| if let Message::Done(outcome) = message { Some(outcome) } else { None };
        for outcome in receiver.iter().filter_map(outcome_in).take(self.threads as usize) {
            usage += outcome.usage;
            work += outcome.work;
            ended = ended.max(Some(outcome.ended));
            event_logs.extend(outcome.event_log);
        }
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let completion = self.started.get().zip(ended).map(|(started, ended)| Span::from(ended - *started));
        let is_endless = matches!(self.task, SharedTask::Endless);
        let mut outcome = JobOutcome {
            delivered_work_ns: Some(work),
            ..outcome(&self.order.job.name, completion.filter(|_| !is_endless), usage)
        };
        match &self.task {
            SharedTask::Barrier { rounds, barrier, .. } => add_waits(&mut outcome, *rounds, barrier.statistics()),
            SharedTask::Lock { rounds, mutex, .. } => {
                add_waits(&mut outcome, rounds * u64::from(self.threads), mutex.statistics());
            }
            SharedTask::Cpu { .. } | SharedTask::Endless => {}
        }
        if let SharedTask::Barrier { barrier, .. } = &self.task
            && R::ON
        {
            let _ = reply(&Reply::Recorded(barrier.recorder().entries()));
        }
        event_logs.into_iter().for_each(send_event_log);
        // If the run is gone, the main thread sees the end of its input and ends the process.
        let _ = reply(&Reply::Finished(outcome.into()));
    }
}

/// Adds the counts of the waits of a job that has made so many rounds.
fn add_waits(outcome: &mut JobOutcome, rounds: u64, statistics: Statistics) {
    outcome.rounds = Some(rounds);
    outcome.ssr_percent = statistics.ssr_percent();
    outcome.spin_ns = Some(statistics.spin_time);
}

/// Reports a thread that has done all that counts: this work, since it had the usage `before`.
/// Sending only fails if the process is about to end.
fn report<K: ActivityLogger>(sender: &Sender<Message>, before: Usage, work: Span, mut logger: K) {
    let (ended, usage) = (Instant::now(), thread_usage().since(before));
    logger.log(Activity::End);
    let _ = sender.send(Message::Done(ThreadOutcome { ended, usage, work, event_log: logger.finish() }));
}

/// Sends an event log to the run in pieces, because a long line takes long to serialize.
fn send_event_log(event_log: EventLog) {
    const PIECE: usize = 512;
    let EventLog { number, thread, events, lost } = event_log;
    let piece = |events: &[Event], lost| Reply::EventLog(EventLog { number, thread, events: events.to_vec(), lost });
    let _ = reply(&piece(&[], lost));
    for events in events.chunks(PIECE) {
        let _ = reply(&piece(events, 0));
    }
}

/// Computes in chunks until the phase is `STOPPED`. Returns the resource usage when counting began,
/// and the iterations since. If the thread had no CPU during the counted time, there are no
/// iterations.
fn compute_until_stopped(mut run: impl FnMut(), chunk: u64, mut phase: impl FnMut() -> u8) -> (Usage, u64) {
    let mut counted = None;
    loop {
        match (phase(), &mut counted) {
            (STOPPED, _) => return counted.unwrap_or_else(|| (thread_usage(), 0)),
            (COUNTING, None) => counted = Some((thread_usage(), 0)),
            _ => {}
        }
        run();
        if let Some((_, iterations)) = &mut counted {
            *iterations += chunk;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_job_counts_from_the_start_of_the_others() {
        let iterations = |phases: &[u8]| {
            let mut phases = phases.iter().copied();
            compute_until_stopped(|| {}, 10, || phases.next().unwrap()).1
        };
        assert_eq!(iterations(&[WARMING_UP, WARMING_UP, COUNTING, COUNTING, COUNTING, STOPPED]), 30);
        assert_eq!(iterations(&[WARMING_UP, WARMING_UP, STOPPED]), 0, "the thread did not run while it counted");
    }
}
