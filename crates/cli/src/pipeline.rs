//! `rowlock pipeline explore`: finds the structure in which a pipelined program runs fastest.

mod verdict;

use std::env;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use exec::{Execution, Interruption, Invocation, RunLimits};
use indicatif::ProgressBar;
use measure::explore::double::{self, DoubledKind, Doubling};
use measure::explore::json::ExploredProgram;
use measure::explore::profile::Profile;
use measure::explore::variants::{StructureChange, variants};
use measure::explore::{ExplorationEnd, ExplorationSettings, ProgramRunner, RunOutcome, explore, json, text};
use pipeline::environment::{REPORT, STRUCTURE, TRACE};
use pipeline::structure::Structure;
use policy::priority::StageKind;
use report::words;
use sys::unnamed::UnnamedFile;

use crate::arguments::{self, PipelineCommand, TextOrJson};
use crate::output::{print, print_message};
use crate::progress;
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// A variant times out after this multiple of the first run's time.
const TIMEOUT_FACTOR: u32 = 10;
/// The least time that a variant gets beyond that of the first run.
const MIN_TIMEOUT_MARGIN: Duration = Duration::from_secs(10);

/// The greatest length of a program's report. A run of a pipeline has some kilobytes.
const LONGEST_REPORT: u64 = 64 << 20;

/// Reads the report that a program has written.
fn read_report(file: &UnnamedFile) -> anyhow::Result<String> {
    file.text(LONGEST_REPORT).context("cannot read the program's report")
}

/// Runs the subcommand.
pub(crate) fn pipeline(command: &PipelineCommand) -> Result<(), Stop> {
    match command {
        PipelineCommand::Explore(arguments) => run(arguments),
        PipelineCommand::Verdict(arguments) => verdict::verdict(arguments),
    }
}

fn run(arguments: &arguments::Explore) -> Result<(), Stop> {
    let base = base()?;
    let signals = Signals::catch()?;
    let mut program = Program::new(arguments, base, &signals);
    let (first, profile) = program.profile(&Structure::default())?;
    program.limit = Some((first.elapsed * TIMEOUT_FACTOR).max(first.elapsed + MIN_TIMEOUT_MARGIN));
    let settings = ExplorationSettings { pairs: arguments.runs, limit: arguments.time_limit, seed: arguments.seed };
    let prepare = arguments.prepare.as_deref().map(|prepare| prepare.to_string_lossy().into_owned());
    let (command, base) = (arguments.program.words(), program.base.clone());
    let subject = ExploredProgram { command, base, prepare, pipelines: &profile.pipelines };
    let (rendered, end) = if arguments.double {
        let found = doubled(&profile, settings, &mut program)?;
        let rendered = match arguments.format {
            TextOrJson::Text => Ok(text::doubling(&profile, &found)),
            TextOrJson::Json => json::doubling(&subject, settings, &found),
        };
        (rendered, found.end)
    } else {
        let variants = requested_variants(arguments, &profile)?;
        let found = explore(variants, (first.elapsed.as_secs_f64(), first.stdout_sha256), settings, &mut program);
        let rendered = match arguments.format {
            TextOrJson::Text => Ok(text::exploration(&profile, &program.base, &found)),
            TextOrJson::Json => json::exploration(&subject, settings, &found),
        };
        (rendered, found.end)
    };
    program.bar.finish_and_clear();
    print(&rendered.context("cannot write what was found")?)?;
    match (program.error.take(), end) {
        (Some(stop), _) => Err(stop),
        (None, ExplorationEnd::OwnFailed(why)) => Err(Stop::Failed(anyhow!("the program failed by itself: {why}"))),
        (None, ExplorationEnd::Stopped) => {
            print_message(format_args!("interrupted: {} runs were made", program.runs));
            Err(signals.interruption())
        }
        (None, ExplorationEnd::Complete | ExplorationEnd::TimeIsUp) => Ok(()),
    }
}

/// The structure in the environment, which applies to all variants.
fn base() -> Result<Structure, Stop> {
    let text = env::var_os(STRUCTURE).unwrap_or_default();
    let text = text.to_str().ok_or_else(|| Stop::Input(anyhow!("{STRUCTURE} is not valid UTF-8")))?;
    text.parse().with_context(|| format!("{STRUCTURE} in the environment")).or_input()
}

/// The variants: those requested by name and those of the requested keys, or all.
fn requested_variants(arguments: &arguments::Explore, profile: &Profile) -> Result<Vec<Structure>, Stop> {
    let mut requested: Vec<Structure> = arguments.tries.iter().flat_map(|tries| tries.0.clone()).collect();
    let names: Vec<&str> = profile.stages().map(|stage| stage.name.as_str()).collect();
    for structure in &requested {
        structure.check_stages(&names).with_context(|| format!("--try \"{structure}\"")).or_input()?;
    }
    let changes = match (arguments.only.is_empty(), requested.is_empty()) {
        (false, _) => &arguments.only[..],
        (true, true) => &StructureChange::ALL,
        (true, false) => &[],
    };
    for variant in variants(profile, arguments::all_cpus().get(), changes) {
        if !requested.contains(&variant) {
            requested.push(variant);
        }
    }
    Ok(requested)
}

/// Doubles the work of the stages that can repeat it. A run of each, which does not count, finds
/// out which can.
fn doubled(profile: &Profile, settings: ExplorationSettings, program: &mut Program<'_>) -> Result<Doubling, Stop> {
    let (mut kinds, mut others) = (Vec::new(), Vec::new());
    for kind in profile.kinds().into_iter().filter(|kind| kind.blocks()) {
        let why_not = match program.profile(&double::structure(kind)) {
            Ok((_, doubled)) if has_repeated(&doubled, kind) => {
                kinds.push(kind);
                continue;
            }
            Ok(_) => "no stage of this kind can repeat its work (`Stage::again`).".to_owned(),
            Err(Stop::Failed(why)) => format!("{why:#}"),
            Err(stop) => return Err(stop),
        };
        others.push((kind, why_not));
    }
    if kinds.is_empty() && others.is_empty() {
        return Err(Stop::Failed(anyhow!(
            "the program has no stage that reads, writes or communicates: there is nothing to double"
        )));
    }
    let mut found = double::double(&kinds, settings, program);
    let others = others.into_iter();
    found.kinds.extend(others.map(|(kind, why)| DoubledKind { kind, pairs: Vec::new(), why_not: Some(why) }));
    Ok(found)
}

/// Whether stages of this kind have repeated their work. A report without that information counts
/// as yes.
fn has_repeated(profile: &Profile, kind: StageKind) -> bool {
    profile.stages().any(|stage| stage.kind == kind && stage.repeated != Some(0))
}

/// The program, which can run in any structure.
struct Program<'a> {
    invocation: Invocation,
    prepare: Option<Invocation>,
    base: Structure,
    signals: &'a Signals,
    started: Instant,
    /// The longest time of a run.
    limit: Option<Duration>,
    bar: ProgressBar,
    /// The number of runs so far.
    runs: u64,
    /// Why the program cannot be run any more.
    error: Option<Stop>,
}

impl<'a> Program<'a> {
    fn new(arguments: &arguments::Explore, base: Structure, signals: &'a Signals) -> Program<'a> {
        let shell = |prepare: &OsString| Invocation::new(OsStr::new("/bin/sh"), &["-c".into(), prepare.clone()]);
        Program {
            invocation: Invocation::new(&arguments.program.command, &arguments.program.arguments),
            prepare: arguments.prepare.as_ref().map(shell),
            base,
            signals,
            started: Instant::now(),
            limit: None,
            bar: progress::bar(Some(1)),
            runs: 0,
            error: None,
        }
    }

    /// Runs the program to get its profile. The run does not count.
    fn profile(&mut self, structure: &Structure) -> Result<(Execution, Profile), Stop> {
        let file = UnnamedFile::new().context("cannot create a file for the program's report")?;
        let execution = self.execute(structure, Some(file.path().as_os_str()))?;
        let execution = execution.map_err(|why| anyhow!("the program fails: {why}"))?;
        let profile = Profile::read(&read_report(&file)?).or_failed()?;
        Ok((execution, profile))
    }

    /// Runs the program. The inner error is the program's failure.
    fn execute(&mut self, structure: &Structure, report: Option<&OsStr>) -> Result<Result<Execution, String>, Stop> {
        let limits = RunLimits { cancel: self.signals.cancel(), limit: None };
        if let Some(prepare) = &self.prepare {
            self.bar.set_message("preparing");
            let prepared = prepare.execute(&mut prepare.command(), limits)?;
            let prepared = prepared.map_err(|_| self.signals.interruption())?;
            if !prepared.status.success() {
                return Err(anyhow!("the command before each run failed: {}", prepared.ending()).into());
            }
        }
        let structure = structure.laid_over(&self.base);
        let mut command = self.invocation.command();
        command.env_remove(TRACE).env_remove(REPORT).env_remove(STRUCTURE);
        if !structure.is_empty() {
            command.env(STRUCTURE, structure.to_string());
        }
        report.map(|file| command.env(REPORT, file));
        self.bar.set_message(if structure.is_empty() {
            "the program's own structure".to_owned()
        } else {
            words::word(&structure.to_string()).into_owned()
        });
        let execution = self.invocation.execute(&mut command, RunLimits { limit: self.limit, ..limits })?;
        if execution != Err(Interruption::Cancelled) {
            self.runs += 1;
            self.bar.set_position(self.runs);
        }
        match execution {
            Ok(execution) if execution.status.success() => Ok(Ok(execution)),
            Ok(execution) => Ok(Err(execution.ending())),
            Err(Interruption::Cancelled) => Err(self.signals.interruption()),
            Err(Interruption::TimedOut) => {
                let limit = self.limit.unwrap_or_default().as_secs_f64();
                Ok(Err(format!("it had not ended after {}", words::time(limit * 1e9))))
            }
        }
    }
}

impl ProgramRunner for Program<'_> {
    fn run(&mut self, structure: &Structure) -> RunOutcome {
        match self.execute(structure, None) {
            Ok(Ok(execution)) => {
                RunOutcome::Done { seconds: execution.elapsed.as_secs_f64(), output: execution.stdout_sha256 }
            }
            Ok(Err(why)) => RunOutcome::Failed(why),
            Err(Stop::Interrupted(_)) => RunOutcome::Stopped,
            Err(stop) => {
                self.error = Some(stop);
                RunOutcome::Stopped
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn expect(&mut self, runs: u64) {
        self.bar.set_length(self.runs + runs);
    }
}
