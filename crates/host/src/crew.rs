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
use policy::waiting::Rule;
use scenario::draw::{Law, Stream};
use scenario::result::JobOutcome;
use sys::process::{Usage, thread_usage};
use wait::{Barrier, Mutex};

use crate::child::{Requests, reply};
use crate::diary::{Diary, Entry, Keeper, Observer, What};
use crate::protocol::{Compute, Failure, Order, Reply, Request, Task, Waiting};
use crate::units::span;
use crate::work::{Rate, Rod};

/// How long a thread of an endless job computes before it looks whether it is to go on: short beside any timeslice, long
/// beside the look.
const CHUNK: Span = Span::from_micros(50);

/// Enough for a rod, a draw and a barrier; thousands of threads must fit.
const STACK: usize = 256 << 10;

/// The phases of an endless job.
const AHEAD: u8 = 0;
const COUNTING: u8 = 1;
const STOPPED: u8 = 2;

/// What the threads share.
struct Crew<R: Recorder> {
    job: String,
    keep_running: bool,
    /// How many threads keep a diary, if they do.
    diaries: Option<u32>,
    rate: Rate,
    task: Shared<R>,
    gate: Gate,
    phase: AtomicU8,
    started: OnceLock<Instant>,
}

/// What they do, with what they need for it together.
enum Shared<R: Recorder> {
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

/// What a thread says of itself.
enum Word {
    /// It stands at the gate: its id.
    Ready(i32),
    Done(Tally),
}

/// What one thread did.
struct Tally {
    ended: Instant,
    usage: Usage,
    work: Span,
    diary: Option<Diary>,
}

pub(crate) fn serve(order: Order, requests: Requests) -> Result<(), Failure> {
    if order.record { serve_with::<Log>(order, requests) } else { serve_with::<Off>(order, requests) }
}

fn serve_with<R>(order: Order, mut requests: Requests) -> Result<(), Failure>
where
    R: Recorder + Default + Send + Sync + 'static,
{
    let (threads, task) = prepare::<R>(&order)?;
    let crew = Arc::new(Crew {
        job: order.job,
        keep_running: order.keep_running,
        diaries: order.diaries.then_some(threads),
        rate: order.rate,
        task,
        gate: Gate::new(threads as usize + 1),
        phase: AtomicU8::new(AHEAD),
        started: OnceLock::new(),
    });
    let (tell, hear) = channel();
    let start = |number| {
        let (member, tell) = (Arc::clone(&crew), tell.clone());
        let body = move || member.thread(number, &tell);
        let refused =
            |why: std::io::Error| Failure::ThreadRefused { number: number + 1, threads, why: why.to_string() };
        thread::Builder::new().name(format!("thread {number}")).stack_size(STACK).spawn(body).map_err(refused)
    };
    order.scheduling.start(|| (0..threads).try_for_each(|number| start(number).map(drop)))??;
    let ids = hear.iter().take(threads as usize).filter_map(|word| match word {
        Word::Ready(id) => Some(id),
        Word::Done(_) => None,
    });
    let ids = ids.collect();
    let collector = Arc::clone(&crew);
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
                let _ = crew.started.set(Instant::now());
                crew.gate.wait();
            }
            Request::Count => crew.phase.store(COUNTING, Ordering::Relaxed),
            Request::Stop => crew.phase.store(STOPPED, Ordering::Relaxed),
        }
    }
    Ok(())
}

/// How many threads there are, and what they share.
fn prepare<R: Recorder + Default>(order: &Order) -> Result<(u32, Shared<R>), Failure> {
    match &order.task {
        &Task::Barrier { threads, rounds, ref compute, ref waiting } => {
            let waiting = read(waiting)?;
            let barrier = || Box::new(Barrier::with_recorder(threads, waiting, R::default()));
            let Compute { seed, step, law } = compute.clone();
            let (barrier, afterwards) = (barrier(), barrier());
            Ok((threads, Shared::Barrier { rounds, seed, law, step, barrier, afterwards }))
        }
        &Task::Lock { threads, rounds, ref compute, ref critical, ref waiting } => {
            let mutex = Box::new(Mutex::with((), read(waiting)?));
            let Compute { seed, step, law: compute } = compute.clone();
            let critical = critical.law.clone();
            Ok((threads, Shared::Lock { rounds, seed, compute, critical, step, mutex }))
        }
        &Task::Cpu { threads, work: Some(ref work) } => Ok((threads, Shared::Cpu { work: work.clone() })),
        &Task::Cpu { threads, work: None } => Ok((threads, Shared::Endless)),
        Task::Command { .. } | Task::Pipeline(_) | Task::Fibers(_) => {
            Err(Failure::Other { message: "its threads are not made here".into() })
        }
    }
}

fn read(waiting: &Waiting) -> Result<wait::Waiting, Failure> {
    let Waiting { rule, costs, cpus } = waiting;
    let rule: Rule = rule.parse().map_err(Failure::io("its waiting rule"))?;
    Ok(wait::Waiting::by(rule).with_costs(*costs).with_cpus(*cpus))
}

impl<R: Recorder> Crew<R> {
    /// The life of one thread.
    fn thread(&self, number: u32, tell: &Sender<Word>) {
        match self.diaries {
            Some(threads) => self.live(number, tell, Observer::new(number, threads, self.rate)),
            None => self.live(number, tell, ()),
        }
    }

    fn live<K: Keeper>(&self, number: u32, tell: &Sender<Word>, mut keeper: K) {
        // Nobody is left to hear where these fail: the process is about to end.
        let done = |tally: Tally, mut keeper: K| {
            keeper.note(What::Ends);
            drop(tell.send(Word::Done(Tally { diary: keeper.close(), ..tally })));
        };
        let mut rod = Rod::new();
        // The first pass brings code and data into the cache.
        rod.relax(1000);
        match &self.task {
            &Shared::Barrier { rounds, seed, ref law, step, ref barrier, ref afterwards } => {
                let mut stream = Stream::named(seed, &self.job, number);
                let (mut party, mut later) = (barrier.party(number), afterwards.party(number));
                self.enter(tell);
                let meter = Meter::start();
                keeper.note(What::Computes);
                let mut iterations = 0;
                for _ in 0..rounds {
                    let length = self.rate.iterations(law.draw(&mut stream, step));
                    keeper.relax(&mut rod, length);
                    iterations += length;
                    party.wait_watched(&mut keeper);
                }
                done(meter.stop(self.rate.time(iterations, rounds)), keeper);
                if self.keep_running {
                    loop {
                        rod.relax(self.rate.iterations(law.draw(&mut stream, step)));
                        later.wait();
                    }
                }
            }
            &Shared::Lock { rounds, seed, ref compute, ref critical, step, ref mutex } => {
                let mut stream = Stream::named(seed, &self.job, number);
                let mut lengths = || [compute, critical].map(|law| self.rate.iterations(law.draw(&mut stream, step)));
                self.enter(tell);
                let meter = Meter::start();
                keeper.note(What::Computes);
                let mut iterations = 0;
                for _ in 0..rounds {
                    let [without, with] = lengths();
                    keeper.relax(&mut rod, without);
                    let guard = keeper.lock(mutex);
                    keeper.relax(&mut rod, with);
                    drop(guard);
                    iterations += without + with;
                }
                done(meter.stop(self.rate.time(iterations, 2 * rounds)), keeper);
                if self.keep_running {
                    loop {
                        let [without, with] = lengths();
                        rod.relax(without);
                        let _guard = mutex.lock();
                        rod.relax(with);
                    }
                }
            }
            Shared::Cpu { work: Compute { seed, law, step } } => {
                let work = law.draw(&mut Stream::named(*seed, &self.job, number), *step);
                let iterations = self.rate.iterations(work);
                self.enter(tell);
                let meter = Meter::start();
                keeper.note(What::Computes);
                keeper.relax(&mut rod, iterations);
                done(meter.stop(self.rate.time(iterations, 1)), keeper);
                if self.keep_running {
                    loop {
                        rod.relax(iterations);
                    }
                }
            }
            Shared::Endless => {
                let chunk = self.rate.iterations(CHUNK);
                self.enter(tell);
                keeper.note(What::Computes);
                let phase = || self.phase.load(Ordering::Relaxed);
                let (meter, iterations) = compute_until_stopped(|| keeper.relax(&mut rod, chunk), chunk, phase);
                done(meter.stop(self.rate.time(iterations, 0)), keeper);
            }
        }
    }

    /// Waits at the gate until the run says go.
    fn enter(&self, tell: &Sender<Word>) {
        let _ = tell.send(Word::Ready(rustix::thread::gettid().as_raw_nonzero().get()));
        self.gate.wait();
    }

    /// Waits for the figures of all threads and tells the run.
    fn collect(&self, threads: u32, hear: &Receiver<Word>) {
        let (mut usage, mut work, mut ended, mut diaries) = (Usage::default(), Span::ZERO, None, Vec::new());
        let tallies = hear.iter().filter_map(|word| match word {
            Word::Done(tally) => Some(tally),
            Word::Ready(_) => None,
        });
        for tally in tallies.take(threads as usize) {
            usage += tally.usage;
            work += tally.work;
            ended = ended.max(Some(tally.ended));
            diaries.extend(tally.diary);
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
            Shared::Barrier { rounds, barrier, .. } => {
                let statistics = barrier.statistics();
                outcome.rounds = Some(*rounds);
                outcome.ssr_percent = statistics.ssr_percent();
                outcome.spin_ns = Some(statistics.spin_time);
                if R::ON {
                    let _ = reply(&Reply::Recorded(barrier.recorder().entries()));
                }
            }
            Shared::Lock { rounds, mutex, .. } => {
                let statistics = mutex.statistics();
                outcome.rounds = Some(rounds * u64::from(threads));
                outcome.ssr_percent = statistics.ssr_percent();
                outcome.spin_ns = Some(statistics.spin_time);
            }
            Shared::Cpu { .. } => {}
            Shared::Endless => outcome.completion_ns = None,
        }
        diaries.into_iter().for_each(hand_over);
        // Where the run is gone, the main thread sees the end of its input and ends the process.
        let _ = reply(&Reply::Finished(outcome));
    }
}

/// Tells the run what a thread took down, a piece at a time: long lines take long to be put together.
fn hand_over(diary: Diary) {
    const PIECE: usize = 512;
    let Diary { number, thread, entries, lost } = diary;
    let piece = |entries: &[Entry], lost| Reply::Diary(Diary { number, thread, entries: entries.to_vec(), lost });
    let _ = reply(&piece(&[], lost));
    for entries in entries.chunks(PIECE) {
        let _ = reply(&piece(entries, 0));
    }
}

/// Computes chunk by chunk until the phase says stop. Returns the iterations since counting began, and what measures them;
/// none where the thread had no CPU from the start to the end of what counts.
fn compute_until_stopped(mut relax: impl FnMut(), chunk: u64, mut phase: impl FnMut() -> u8) -> (Meter, u64) {
    let mut counted = None;
    loop {
        match (phase(), &mut counted) {
            (STOPPED, _) => return counted.unwrap_or_else(|| (Meter::start(), 0)),
            (COUNTING, None) => counted = Some((Meter::start(), 0)),
            _ => {}
        }
        relax();
        if let Some((_, iterations)) = &mut counted {
            *iterations += chunk;
        }
    }
}

/// Measures what a thread uses.
struct Meter(Usage);

impl Meter {
    fn start() -> Meter {
        Meter(thread_usage())
    }

    fn stop(&self, work: Span) -> Tally {
        Tally { ended: Instant::now(), usage: thread_usage().since(self.0), work, diary: None }
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
