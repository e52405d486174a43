//! A program of one or several pipelines, and how it runs.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread;
use std::time::Duration;

use policy::priority::{PriorityRule, StageKind};
use wait::{Event, Reset, Waiting, WaitingRule};

use crate::build::{Built, build};
use crate::copy::caught;
use crate::ending::{Canceller, Ending, Failed};
use crate::engine::Engine;
use crate::environment;
use crate::error::{Cause, Error, Failure};
use crate::junction::{Port, PortError, Ports};
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::registry::Registry;
use crate::report::RunReport;
use crate::scheduling::Scheduling;
use crate::stage::Result;
use crate::stage_priorities::StagePriorities;
use crate::thread_table::ThreadTable;
use crate::watcher::Watcher;

/// Several pipelines that run together, each with its own buffers. They may join at junctions.
///
/// ```
/// use rowlock_pipeline::{Flow, StageKind, Pipeline, Program};
///
/// // Merges two sorted streams of numbers, with one number per buffer.
/// let stream = |name: &str, step: usize| {
///     let pipeline = Pipeline::<usize>::tagged(name).buffers(2, 0).rounds(3);
///     pipeline.io(&format!("read {name}"), move |round, buffer| {
///         buffer.tag = round.number as usize * step;
///         Ok(Flow::Convey)
///     })
/// };
/// let mut merged = Vec::new();
/// Program::new("merge")
///     .pipeline(stream("twos", 2).join_at("merge"))
///     .pipeline(stream("threes", 3).join_at("merge"))
///     .pipeline(
///         Pipeline::tagged("merged").buffers(2, 0).join_at("merge").io("write", |round, buffer| {
///             // The last buffer of the junction is empty.
///             merged.extend((!round.is_last).then_some(buffer.tag));
///             Ok(Flow::Convey)
///         }),
///     )
///     .junction("merge", |ports| {
///         let names = ["twos", "threes"];
///         let mut heads = [ports.accept(names[0])?, ports.accept(names[1])?];
///         loop {
///             let mut values = [None; 2];
///             for which in 0..2 {
///                 if heads[which].is_some() {
///                     values[which] = Some(ports.buffer(names[which])?.tag);
///                 }
///             }
///             let present = (0..2).filter(|&which| values[which].is_some());
///             let least = present.min_by_key(|&which| values[which]);
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
}

pub(crate) struct Junction<'a, T> {
    pub(crate) name: String,
    pub(crate) run: JunctionFunction<'a, T>,
}

/// The function of a junction.
type JunctionFunction<'a, T> = Box<dyn FnOnce(&mut Ports<'_, 'a, T>) -> Result<()> + Send + 'a>;

impl<'a, T: Default + Send + 'a> Program<'a, T> {
    /// A program of this name, without pipelines.
    pub fn new(name: impl Into<String>) -> Program<'a, T> {
        Program { name: name.into(), pipelines: Vec::new(), junctions: Vec::new() }
    }

    /// Adds a pipeline.
    pub fn pipeline(mut self, pipeline: Pipeline<'a, T>) -> Self {
        self.pipelines.push(pipeline);
        self
    }

    /// Adds the junction at which pipelines [join](Pipeline::join_at): a function that is called
    /// once, on its own thread, and accepts and conveys buffers itself until it returns.
    pub fn junction(mut self, name: &str, run: impl FnOnce(&mut Ports<'_, 'a, T>) -> Result<()> + Send + 'a) -> Self {
        self.junctions.push(Junction { name: name.to_owned(), run: Box::new(run) });
        self
    }

    /// Runs all pipelines on their own threads, and waits until they end. See [`Pipeline::run`].
    pub fn run(self) -> std::result::Result<RunReport, Error> {
        self.run_until(&Canceller::new())
    }

    /// Like [`Program::run`], but `canceller` can end the run early.
    pub fn run_until(self, canceller: &Canceller) -> std::result::Result<RunReport, Error> {
        let outcome = carry_out(build(self, &canceller.begin())?);
        environment::append_report(&outcome);
        outcome
    }
}

impl<'a, T: Default + Send + 'a> Pipeline<'a, T> {
    /// Runs the pipeline on its own threads, and waits until it ends.
    ///
    /// # Errors
    /// [`Error::Structure`] if it cannot be built as described, and [`Error::Memory`] if there is
    /// no memory for the buffers; no stage has been called then. [`Error::Failed`] if a stage
    /// returned an error or panicked, if the run was cancelled, or if all threads wait for each
    /// other. All stages have been cleaned up and all threads have ended even then.
    pub fn run(self) -> std::result::Result<RunReport, Error> {
        self.run_until(&Canceller::new())
    }

    /// Like [`Pipeline::run`], but `canceller` can end the run early.
    pub fn run_until(self, canceller: &Canceller) -> std::result::Result<RunReport, Error> {
        Program::new(self.name.clone()).pipeline(self).run_until(canceller)
    }
}

/// How often the thread that waits for the run updates the observations.
const PERIOD: Duration = Duration::from_millis(50);

fn carry_out<T: Send>(built: Built<'_, T>) -> std::result::Result<RunReport, Error> {
    let Built { engine, threads, junctions, registry, mut machine, waiting, rule, shows_progress } = built;
    // By an adaptive rule, a thread has yielded before it sleeps and need not spin then.
    let sleeping = if waiting.rule().is_adaptive() { Waiting::by(WaitingRule::AlwaysBlock) } else { waiting };
    let (table, alive) = (ThreadTable::default(), AtomicUsize::new(0));
    let running = RunThreads { engine: &engine, registry: &registry, table: &table, rule, sleeping, alive };
    let mut watcher = rule.controller().map(|controller| Watcher::new(controller, &registry));
    let mut progress = shows_progress.then(|| Progress::begin(&registry));
    thread::scope(|scope| {
        let engine = &engine;
        // Count this thread until all others are counted, or the first ones could detect a
        // deadlock.
        engine.activity.join();
        let mut previous = None;
        for (turns, requested) in threads {
            let groups: Vec<usize> = turns.iter().map(|turn| turn.at).collect();
            let names: Vec<&str> = groups.iter().map(|&at| engine.groups[at].name.as_str()).collect();
            // Other copies of a stage can do the work of one without a thread.
            let need = if previous.as_ref() == Some(&groups) { Need::Wanted } else { Need::Required };
            running.start(scope, &names.join(","), &groups, requested, need, move |event, priorities| {
                engine.run_turns(turns, &event, priorities);
            });
            previous = Some(groups);
        }
        for index in 0..registry.run.workers {
            let (name, requested) = (format!("worker {index}"), Scheduling::default());
            let need = if index > 0 { Need::Wanted } else { Need::Required };
            running.start(scope, &name, &[], requested, need, move |event, _| engine.work(&event));
        }
        for (junction, ports, requested) in junctions {
            let groups: Vec<usize> = ports.iter().map(|port| port.at).collect();
            running.start(scope, &junction.name.clone(), &groups, requested, Need::Required, move |event, _| {
                run_junction(engine, junction, ports, event);
            });
        }
        engine.leave();
        while running.alive.load(Acquire) > 0 {
            if engine.ending.is_ending() {
                // A thread that becomes a sleeper after this sees that the run is ending.
                engine.wake_all_threads();
            }
            let _ = engine.ending.attention.wait_timeout(PERIOD);
            let now = engine.since_beginning();
            match &mut watcher {
                Some(watcher) => watcher.observe(now, &registry, &table, &mut machine),
                None => {
                    machine.update_devices();
                }
            }
            if let Some(progress) = &mut progress {
                progress.show(&registry, now);
            }
        }
    });
    drop(progress);
    // Same zero as all other times, or a stage could have waited for longer than the run took.
    let beginning = engine.beginning;
    // This thread cleans up copies of stages of workers, as a worker would.
    let tear_down = |_: &mut StagePriorities<'_>| engine.tear_down();
    let (ending, buffers, call_logs) =
        table.run_registered(&[], &Scheduling::default(), PriorityRule::Default, tear_down);
    let clock = beginning.elapsed();
    environment::trace(&registry.run.program, &call_logs);
    outcome(RunReport { machine: machine.report(), ..registry.report(clock, &table, &buffers) }, &ending)
}

/// What it means if a thread cannot be started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The run fails.
    Required,
    /// The run continues without it.
    Wanted,
}

/// The threads of a run.
struct RunThreads<'e, 'a, T> {
    engine: &'e Engine<'a, T>,
    registry: &'e Registry,
    table: &'e ThreadTable,
    rule: PriorityRule,
    /// How they sleep.
    sleeping: Waiting,
    /// How many of them have not ended.
    alive: AtomicUsize,
}

impl<T: Send> RunThreads<'_, '_, T> {
    /// Starts a thread for these groups. It is counted from before its start until its end.
    fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        name: &str,
        groups: &[usize],
        requested: Scheduling,
        need: Need,
        work: impl FnOnce(Arc<Event>, &mut StagePriorities<'_>) + Send + 'scope,
    ) {
        self.engine.activity.join();
        self.alive.fetch_add(1, AcqRel);
        let event = Arc::new(Event::with(Reset::Auto, self.sleeping));
        let stage = Some(name.to_owned());
        let kinds: Vec<(usize, StageKind)> = groups.iter().map(|&at| (at, self.registry.kind(at))).collect();
        let body = move || {
            let outcome = caught(|| {
                self.table.run_registered(&kinds, &requested, self.rule, |priorities| work(event, priorities));
                Ok(())
            });
            // Panics of stages are caught where stages are called. If the thread panics elsewhere,
            // the run must end too.
            if let Err(cause) = outcome {
                self.engine.ending.end(Failed { stage, round: None, cause });
            }
            self.note_exit();
        };
        // The kernel keeps 15 bytes of a thread's name, and the standard library truncates it.
        let name = name.replace('\0', " ");
        if let Err(why) = thread::Builder::new().name(name.clone()).spawn_scoped(scope, body) {
            if need == Need::Required {
                self.engine.ending.end(Failed { stage: Some(name), round: None, cause: Cause::Thread(why) });
            }
            self.engine.leave();
            self.note_exit();
        }
    }

    fn note_exit(&self) {
        if self.alive.fetch_sub(1, AcqRel) == 1 {
            self.engine.ending.attention.set();
        }
    }
}

fn run_junction<'a, T>(engine: &Engine<'a, T>, junction: Junction<'a, T>, ports: Vec<Port<T>>, event: Arc<Event>) {
    let mut ports = Ports::new(engine, ports, event);
    if let Err(cause) = caught(|| (junction.run)(&mut ports)) {
        // `PortError::Ending` repeats an earlier cause.
        let is_repeated = matches!(&cause, Cause::Failed(why) if why.downcast_ref() == Some(&PortError::Ending));
        if !(is_repeated && engine.ending.is_ending()) {
            engine.ending.end(Failed { stage: Some(junction.name), round: None, cause });
        }
    }
    ports.close();
}

/// The report, as part of a failure if the run ended early.
fn outcome(mut report: RunReport, ending: &Ending) -> std::result::Result<RunReport, Error> {
    let mut failures = ending.take().into_iter();
    let Some(Failed { stage, round, cause }) = failures.next() else { return Ok(report) };
    let others = failures.map(|failed| (failed.stage.unwrap_or_default(), failed.cause)).collect();
    let mut failure = Failure { stage, round, cause, others, report: Box::default() };
    report.failure = Some(failure.to_string());
    *failure.report = report;
    Err(Error::Failed(Box::new(failure)))
}
