//! The executor of a `pipeline` job: runs the stages of a scenario on `rowlock-pipeline`.
//!
//! Computation is a calibrated number of iterations. The device is a timer: nothing is read or
//! written. A thread that makes a request sleeps until a device of the scenario's depth, which
//! serves requests in order, would have completed it. So the CPU time that a real device needs is
//! missing, and so are caches and merged requests. A message is a sleep of its length. Each process
//! has its own device.
//!
//! The pipeline creates the threads. They wait for the start of the run in the first stage, before
//! its first buffer. The other stages wait for their buffers meanwhile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pipeline::structure::{RequestedAttribute, StageTurn, Structure, Threads};
use pipeline::{Buffer, Flow, Pipeline, Round, RunReport, Stage, StageKind, StageReport};
use policy::Span;
use scenario::Distribution;
use scenario::draw::{Law, Stream};
use scenario::result::{JobOutcome, StageOutcome};
use sys::process::{Usage, own_usage};

use super::{ProgramError, Start, outcome, run_program, serve_program};
use crate::protocol::{Failure, Order, RequestReader};
use crate::workload::{Rate, Workload};

/// The state that the threads of the job share.
struct Shared {
    job: String,
    seed: u64,
    step: Span,
    rate: Rate,
    of: scenario::Pipeline,
    device: Device,
    start: Start,
    /// By the number of the stage.
    stages: Vec<SharedStage>,
}

/// A stage: what it draws, and its totals so far.
struct SharedStage {
    kind: StageKind,
    /// The name of its random stream.
    stream: String,
    compute: Option<Law>,
    device: Option<Law>,
    iterations: AtomicU64,
    computations: AtomicU64,
    device_ns: AtomicU64,
}

impl SharedStage {
    fn new(stage: &scenario::pipeline::Stage, job: &str) -> SharedStage {
        SharedStage {
            kind: stage.kind,
            stream: stage.stream_name(job),
            compute: stage.compute.as_ref().map(Distribution::law),
            device: stage.device.as_ref().map(Distribution::law),
            iterations: AtomicU64::new(0),
            computations: AtomicU64::new(0),
            device_ns: AtomicU64::new(0),
        }
    }
}

pub(crate) fn serve(order: &Order, of: &scenario::Pipeline, requests: RequestReader) -> Result<(), Failure> {
    let job = &order.job.name;
    let shared = Arc::new(Shared {
        job: job.clone(),
        seed: order.seed,
        step: order.step,
        rate: order.rate,
        of: of.clone(),
        device: Device::new(order.device_depth),
        start: Start::default(),
        stages: of.stages.iter().map(|stage| SharedStage::new(stage, job)).collect(),
    });
    let (keep_running, runner) = (order.keep_running, Arc::clone(&shared));
    serve_program(order, "pipeline", move || runner.run(keep_running), &shared.start, requests)
}

impl Shared {
    /// Runs the pipeline and reports the outcome. Then repeats it forever if the job keeps running.
    fn run(self: Arc<Shared>, keep_running: bool) {
        let before = own_usage();
        let first = || Ok(self.outcome(&self.run_once()?, own_usage().since(before)));
        run_program(keep_running, first, || self.run_once().map(drop));
    }

    fn run_once(self: &Arc<Shared>) -> Result<RunReport, ProgramError> {
        let of = &self.of;
        let mut pipeline = Pipeline::new(&self.job).buffers(of.buffers as usize, 0).rounds(of.rounds);
        for (number, stage) in of.stages.iter().enumerate() {
            let make = move || StageExecutor::new(Arc::clone(self), number);
            pipeline = pipeline.forkable_stage(&stage.name, stage.kind, make).fork(stage.fork as usize);
        }
        Ok(pipeline.structured(&structure(of)).run()?)
    }

    fn outcome(&self, report: &RunReport, usage: Usage) -> JobOutcome {
        let mut work = Span::ZERO;
        let stages = self.of.stages.iter().zip(&self.stages).map(|(stage, totals)| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let computed = self.rate.time(count(&totals.iterations), count(&totals.computations));
            work += computed;
            let of = report.stage(&stage.name);
            let nanos = |of: fn(&StageReport) -> u64| report.stage(&stage.name).map(of).map(Span::from_nanos);
            StageOutcome {
                stage: stage.name.clone(),
                busy_ns: nanos(|of| of.busy_ns + of.waiting_for_worker_ns),
                computed_ns: Some(computed),
                device_ns: of.map(|_| Span::from_nanos(count(&totals.device_ns))),
                starved_ns: nanos(|of| of.starved_ns + of.blocked_ns),
                refused: of.map_or_else(Vec::new, refused_requests),
            }
        });
        let stages = stages.collect();
        JobOutcome {
            rounds: report.pipelines.first().map(|pipeline| pipeline.rounds),
            delivered_work_ns: Some(work),
            stages,
            ..outcome(&self.job, self.start.elapsed(), usage)
        }
    }
}

/// A pipeline's threads and their scheduling, as `rowlock-pipeline` represents them.
fn structure(line: &scenario::Pipeline) -> Structure {
    let turn = |turn: &scenario::pipeline::StageTurn| StageTurn {
        stage: line.stages.get(turn.stage).map(|stage| stage.name.clone()).unwrap_or_default(),
        repeat: turn.times as usize,
    };
    let niced = line.stages.iter().filter(|stage| stage.nice != 0);
    let nice = |stage: &scenario::pipeline::Stage| RequestedAttribute {
        key: "nice",
        stage: stage.name.clone(),
        value: stage.nice.to_string(),
    };
    Structure {
        threads: Some(match line.structure {
            scenario::pipeline::Structure::Workers => Threads::Blocking,
            scenario::pipeline::Structure::Threads => Threads::Each,
        }),
        thread: line.shared.iter().map(|turns| turns.iter().map(turn).collect()).collect(),
        priority: Some(line.priority),
        requested: niced.map(nice).collect(),
        waiting: Some(line.waiting),
        ..Structure::default()
    }
}

/// The requests about the scheduling of a stage's threads that the kernel refused.
fn refused_requests(stage: &StageReport) -> Vec<String> {
    stage.effective_attributes.iter().filter(|grant| grant.is_refused()).map(ToString::to_string).collect()
}

/// One copy of a stage.
struct StageExecutor {
    shared: Arc<Shared>,
    number: usize,
    workload: Workload,
}

impl StageExecutor {
    fn new(shared: Arc<Shared>, number: usize) -> StageExecutor {
        StageExecutor { shared, number, workload: Workload::new() }
    }
}

impl Stage<()> for StageExecutor {
    fn init(&mut self) -> pipeline::Result<()> {
        // The first pass brings code and data into the cache.
        self.workload.run(1000);
        if self.number == 0 {
            self.shared.start.wait(Vec::new());
        }
        Ok(())
    }

    fn process(&mut self, round: &mut Round<'_>, _: &mut Buffer) -> pipeline::Result<Flow> {
        let shared = &self.shared;
        let stage = &shared.stages[self.number];
        let mut stream = Stream::named(shared.seed, &stage.stream, round.number as u32);
        let mut draw = |law: &Law| law.draw(&mut stream, shared.step);
        let (compute, device) = (stage.compute.as_ref().map(&mut draw), stage.device.as_ref().map(&mut draw));
        if let Some(length) = compute {
            let iterations = shared.rate.iterations(length);
            self.workload.run(iterations);
            stage.iterations.fetch_add(iterations, Ordering::Relaxed);
            stage.computations.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(time) = device {
            let (start, time) = (Instant::now(), Duration::from(time));
            match stage.kind {
                StageKind::Communicate => thread::sleep(time),
                StageKind::Io | StageKind::Compute => thread::sleep(shared.device.enqueue(start, time)),
            }
            stage.device_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(Flow::Convey)
    }
}

/// A device that is a timer: it knows when each of its slots will be free.
struct Device {
    slots: Mutex<BinaryHeap<Reverse<Instant>>>,
}

impl Device {
    fn new(depth: u32) -> Device {
        let now = Instant::now();
        Device { slots: Mutex::new((0..depth.max(1)).map(|_| Reverse(now)).collect()) }
    }

    /// Adds a request that takes `time` to serve. Returns how long it takes until it is completed.
    fn enqueue(&self, now: Instant, time: Duration) -> Duration {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slots.pop().map_or(now, |Reverse(free)| free);
        let done = free.max(now) + time;
        slots.push(Reverse(done));
        done - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_serves_requests_in_order_and_up_to_its_depth_at_once() {
        let ms = Duration::from_millis;
        let device = Device::new(2);
        let start = Instant::now();
        let asked = [(0, 10), (2, 3), (3, 4), (3, 1), (50, 5)];
        let served = asked.map(|(at, time)| (at + device.enqueue(start + ms(at), ms(time)).as_millis() as u64, time));
        assert_eq!(served.map(|(done, _)| done), [10, 5, 9, 10, 55]);
    }
}
