//! A program of one or several pipelines, and how it is run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread;
use std::time::Duration;

use policy::priority::StageKind;
use wait::{Event, Mutex, Reset, Waiting, WaitingRule};

use crate::build::{Built, build};
use crate::copy::caught;
use crate::ending::{Canceller, Failed};
use crate::engine::Engine;
use crate::environment;
use crate::error::{Cause, Error, Failure};
use crate::junction::{Port, PortError, Ports};
use crate::machine::MachineReport;
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::registry::Registry;
use crate::report::RunReport;
use crate::roll::Roll;
use crate::scheduling::Scheduling;
use crate::stage::Result;
use crate::usage::{Usages, accounts};
use crate::watcher::Watcher;

/// Several pipelines that run together, each with buffers of its own; they may meet in junctions.
///
/// ```
/// use rowlock_pipeline::{Flow, StageKind, Pipeline, Program};
///
/// // Two sorted streams of numbers, one a buffer, are merged.
/// let stream = |name: &str, step: usize| {
///     Pipeline::<usize>::tagged(name).buffers(2, 0).rounds(3).io(&format!("read {name}"), move |round, buffer| {
///         buffer.tag = round.number() as usize * step;
///         Ok(Flow::Convey)
///     })
/// };
/// let mut merged = Vec::new();
/// Program::new("merge")
///     .pipeline(stream("twos", 2).join_at("merge"))
///     .pipeline(stream("threes", 3).join_at("merge"))
///     .pipeline(Pipeline::tagged("merged").buffers(2, 0).join_at("merge").io("write", |round, buffer| {
///         // What the junction ends with is empty.
///         merged.extend((!round.is_last()).then_some(buffer.tag));
///         Ok(Flow::Convey)
///     }))
///     .junction("merge", |ports| {
///         let names = ["twos", "threes"];
///         let mut heads = [ports.accept(names[0])?, ports.accept(names[1])?];
///         loop {
///             let mut values = [None; 2];
///             for which in 0..2 {
///                 values[which] = if heads[which].is_some() { Some(ports.buffer(names[which])?.tag) } else { None };
///             }
///             let least = (0..2).filter(|&which| values[which].is_some()).min_by_key(|&which| values[which]);
///             let Some(least) = least else { return Ok(()) };
///             ports.accept("merged")?;
///             ports.buffer("merged")?.tag = values[least].unwrap_or_default();
///             ports.convey("merged", Flow::Convey)?;
///             ports.convey(names[least], Flow::Convey)?;
///             heads[least] = ports.accept(names[least])?;
///         }
///     })
///     .run()?;
/// assert_eq!(merged, [0, 0, 2, 3, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a program does nothing until it is run"]
pub struct Program<'a, T = ()> {
    pub(crate) name: String,
    pub(crate) pipelines: Vec<Pipeline<'a, T>>,
    pub(crate) junctions: Vec<Junction<'a, T>>,
    pub(crate) shows_progress: bool,
}

pub(crate) struct Junction<'a, T> {
    pub(crate) name: String,
    pub(crate) run: Meeting<'a, T>,
}

/// What a junction does.
type Meeting<'a, T> = Box<dyn FnOnce(&mut Ports<'_, 'a, T>) -> Result<()> + Send + 'a>;

impl<'a, T: Default + Send + 'a> Program<'a, T> {
    /// A program of this name, with no pipelines yet.
    pub fn new(name: impl Into<String>) -> Program<'a, T> {
        Program { name: name.into(), pipelines: Vec::new(), junctions: Vec::new(), shows_progress: false }
    }

    pub(crate) fn of_one(pipeline: Pipeline<'a, T>) -> Program<'a, T> {
        Program { name: pipeline.name.clone(), pipelines: vec![pipeline], junctions: Vec::new(), shows_progress: false }
    }

    /// Adds a pipeline.
    pub fn pipeline(mut self, pipeline: Pipeline<'a, T>) -> Self {
        self.pipelines.push(pipeline);
        self
    }

    /// Adds what pipelines that [meet](Pipeline::join_at) at this name go through: a function that is called once, on a thread of its own, and
    /// accepts and conveys by itself until it returns.
    pub fn junction(mut self, name: &str, run: impl FnOnce(&mut Ports<'_, 'a, T>) -> Result<()> + Send + 'a) -> Self {
        self.junctions.push(Junction { name: name.to_owned(), run: Box::new(run) });
        self
    }

    /// Shows on the terminal, if the standard error output is one, how far the run is and how busy its stages are.
    pub fn progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// Runs all pipelines to their ends, in threads of their own, and waits for that.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub fn run(self) -> std::result::Result<RunReport, Error> {
        self.run_until(&Canceller::new())
    }

    /// As [`Program::run`], to be ended early by this.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub fn run_until(self, canceller: &Canceller) -> std::result::Result<RunReport, Error> {
        let outcome = carry_out(build(self, &canceller.begin())?);
        environment::tell(&outcome);
        outcome
    }
}

/// How often the one that waits for the run looks after it.
const PERIOD: Duration = Duration::from_millis(50);

fn carry_out<T: Send>(built: Built<'_, T>) -> std::result::Result<RunReport, Error> {
    let Built { engine, turns, workers, junctions, registry, mut machine, waiting, rule, shows_progress } = built;
    // By the adaptive rule a thread has looked on by yielding, and need not spin after that.
    let sleeping = if waiting == Waiting::ADAPTIVE { Waiting::by(WaitingRule::AlwaysBlock) } else { waiting };
    let engine_of_threads = &engine;
    let crew = Crew { engine: &engine, alive: AtomicUsize::new(0), usages: Mutex::new(Usages::default()), sleeping };
    let roll = Roll::default();
    let mut watcher = rule.controller().map(|controller| Watcher::new(controller, &registry));
    let mut progress = shows_progress.then(|| Progress::begin(&registry));
    thread::scope(|scope| {
        let roll = &roll;
        // Counts itself until all are there, or the first ones could take themselves to be all.
        engine.activity.join();
        for turns in turns {
            let stations: Vec<usize> = turns.iter().map(|turn| turn.at).collect();
            let kinds: Vec<(usize, StageKind)> = stations.iter().map(|&at| (at, registry.kind(at))).collect();
            let names: Vec<&str> = stations.iter().map(|&at| engine.stations[at].name.as_str()).collect();
            // Of several stages on one thread each may wish something; the first says more.
            let requested = turns.iter().rev().fold(Scheduling::default(), |all, turn| turn.scheduling.laid_over(&all));
            crew.start(scope, &names.join(","), stations, move |event| {
                roll.enrolled(&kinds, &requested, rule, |favoured| {
                    engine_of_threads.take_turns(turns, &event, favoured)
                });
            });
        }
        for index in 0..workers {
            crew.start(scope, &format!("worker {index}"), Vec::new(), move |event| {
                roll.enrolled(&[], &Scheduling::default(), rule, |_| engine_of_threads.work(&event));
            });
        }
        for (Junction { name, run }, ports, requested) in junctions {
            let stations: Vec<usize> = ports.iter().map(|port| port.at).collect();
            let kinds: Vec<(usize, StageKind)> = stations.iter().map(|&at| (at, registry.kind(at))).collect();
            crew.start(scope, &name.clone(), stations, move |event| {
                roll.enrolled(&kinds, &requested, rule, |_| meet(engine_of_threads, name, run, ports, event));
            });
        }
        engine.leave();
        while crew.alive.load(Acquire) > 0 {
            if engine.ending.is_ending() {
                // Who comes to rest after this sees that the run is ending.
                engine.call_all();
            }
            let _ = engine.ending.attention.wait_timeout(PERIOD);
            let now = engine.since_beginning();
            match &mut watcher {
                Some(watcher) => watcher.look(now, &registry, roll, &mut machine),
                None => machine.update_devices(),
            }
            if let Some(progress) = &mut progress {
                progress.show(&registry, now);
            }
        }
    });
    // From the same moment as all else that is counted, or stages could have waited for longer than the run took.
    let clock = Duration::from_nanos(engine.since_beginning());
    drop(progress);
    let usages = crew.usages.into_inner();
    finish(engine, &registry, clock, &usages, &roll, machine.report())
}

/// The threads of a run.
struct Crew<'e, 'a, T> {
    engine: &'e Engine<'a, T>,
    /// How many of them have not come to their end.
    alive: AtomicUsize,
    usages: Mutex<Usages>,
    /// How they sleep.
    sleeping: Waiting,
}

impl<T: Send> Crew<'_, '_, T> {
    /// Starts a thread, which is counted from before it begins to after its end.
    fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        name: &str,
        stations: Vec<usize>,
        work: impl FnOnce(Arc<Event>) + Send + 'scope,
    ) {
        self.engine.activity.join();
        self.alive.fetch_add(1, AcqRel);
        let event = Arc::new(Event::with(Reset::Auto, self.sleeping));
        let whose = name.to_owned();
        let body = move || {
            let mut outcome = Ok(());
            let used = accounts(|| {
                outcome = caught(|| {
                    work(event);
                    Ok(())
                });
            });
            self.usages.lock().add(stations, used);
            // All that stages may do is caught where they are called; what is not must not be waited for in vain.
            if let Err(cause) = outcome {
                self.engine.ending.end(Failed { stage: Some(whose), round: None, cause });
            }
            self.is_gone();
        };
        // Of a thread's name the kernel keeps 15 bytes, and the standard library cuts it there.
        let name = name.replace('\0', " ");
        if let Err(why) = thread::Builder::new().name(name.clone()).spawn_scoped(scope, body) {
            self.engine.ending.end(Failed { stage: Some(name), round: None, cause: Cause::Thread(why) });
            self.engine.leave();
            self.is_gone();
        }
    }

    fn is_gone(&self) {
        if self.alive.fetch_sub(1, AcqRel) == 1 {
            self.engine.ending.attention.set();
        }
    }
}

fn meet<'a, T>(engine: &Engine<'a, T>, name: String, run: Meeting<'a, T>, ports: Vec<Port<T>>, event: Arc<Event>) {
    let mut ports = Ports::new(engine, ports, event);
    if let Err(cause) = caught(|| run(&mut ports)) {
        // That the run is ending was told by whoever ended it.
        let says_so = matches!(&cause, Cause::Failed(why) if why.downcast_ref() == Some(&PortError::Ending));
        if !(says_so && engine.ending.is_ending()) {
            engine.ending.end(Failed { stage: Some(name), round: None, cause });
        }
    }
    ports.close();
}

fn finish<T>(
    engine: Engine<'_, T>,
    registry: &Registry,
    clock: Duration,
    usages: &Usages,
    roll: &Roll,
    machine: MachineReport,
) -> std::result::Result<RunReport, Error> {
    let (ending, buffers, notes) = engine.dissolve();
    environment::trace(&registry.program, &notes);
    let mut failures: VecDeque<Failed> = ending.take().into();
    let mut report = RunReport { machine, ..registry.report(clock, usages, roll, &buffers) };
    let Some(Failed { stage, round, cause }) = failures.pop_front() else { return Ok(report) };
    let others = failures.into_iter().map(|failed| (failed.stage.unwrap_or_default(), failed.cause)).collect();
    let mut failure = Failure { stage, round, cause, others, report: Box::default() };
    report.failure = Some(failure.to_string());
    *failure.report = report;
    Err(Error::Failed(Box::new(failure)))
}
