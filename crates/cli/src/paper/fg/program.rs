//! The measured program: `rowlock sort` as a child process, from file to file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use exec::throttle::{Rates, Throttle};
use exec::{Invocation, RunLimits};
use papers::fg::arms::{Arm, Variant};
use papers::fg::report::Settings;
use papers::fg::runs::Observation;
use pipeline::RunReport;
use pipeline::environment::{REPORT, STRUCTURE, TRACE};
use policy::priority::StageKind;
use rustix::fs::{Advice, fadvise, sync};
use scenario::draw::Stream;
use sys::files::{TemporaryFolder, temporary_folder, write_control};

use crate::arguments::paper::{Evict, Measured};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// The file that drops the page cache, and the value for clean pages.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
const PAGES: &str = "1\n";

/// The prefix of our folders, the names of the output and of the reports in them, and all names.
const FOLDER: &str = "rowlock-paper-";
const SORTED: &str = "sorted";
const REPORTS: &str = "reports";
const FILES: &[&str] = &[Variant::ComputeBound.name(), Variant::IoBound.name(), SORTED, REPORTS];

/// The program, with its input.
pub(super) struct Program<'a> {
    executable: PathBuf,
    settings: Settings,
    evict: Evict,
    /// For the I/O-bound program.
    throttle: Option<Throttle>,
    /// Removed at the end, with its content.
    folder: TemporaryFolder,
    signals: &'a Signals,
}

/// The clock time in which the processor time of a run would be this percentage.
pub(super) fn clock_for(run: &Observation, percent: f64) -> f64 {
    (run.user_s + run.system_s) / percent * 100.0
}

/// The bytes that went through the I/O stages in the busier direction: reads or writes.
pub(super) fn traffic(reports: &[RunReport]) -> u64 {
    let stages = || reports.iter().flat_map(|report| &report.stages).filter(|stage| stage.kind == StageKind::Io);
    let of = |name: &str| stages().filter(|stage| stage.name == name).map(|stage| stage.bytes).sum::<u64>();
    stages().map(|stage| of(&stage.name)).max().unwrap_or(0)
}

impl Evict {
    /// A description of the evicted pages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Evict::All => "the page cache",
            Evict::Files => "what is sorted",
        }
    }
}

impl<'a> Program<'a> {
    /// Creates the folder of its files.
    pub(super) fn new(settings: &Settings, arguments: &Measured, signals: &'a Signals) -> Result<Program<'a>, Stop> {
        let executable = std::env::current_exe().context("cannot find this program's own file")?;
        let parent = arguments.tmp.clone().map_or_else(temporary_folder, Ok).or_input()?;
        let folder = TemporaryFolder::create(&parent, FOLDER, FILES)
            .with_context(|| format!("cannot create a folder in {}; use --tmp for another one", parent.display()))
            .or_input()?;
        let evict = arguments.evict.unwrap_or_default();
        Ok(Program { executable, settings: settings.clone(), evict, throttle: None, folder, signals })
    }

    /// Generates the input of a variant.
    pub(super) fn generate(&self, variant: Variant) -> Result<(), Stop> {
        let file = self.folder.create_file(variant.name());
        let generated = file.and_then(|file| generate(file, variant, &self.settings));
        Ok(generated.with_context(|| format!("cannot write {}", self.input(variant).display()))?)
    }

    /// Removes the files.
    pub(super) fn end(self) -> Result<(), Stop> {
        let Program { throttle, folder, .. } = self;
        drop(throttle);
        let path = folder.path().to_owned();
        Ok(folder
            .close()
            .with_context(|| format!("cannot remove {}, which may hold what was sorted", path.display()))?)
    }

    /// Throttles the disk of the I/O-bound program in its next runs: this many bytes per second to
    /// read, and as many to write.
    pub(super) fn throttle(&mut self, rate: u64) -> Result<(), Stop> {
        let failed = |why: exec::throttle::ThrottleError| Stop::Failed(why.into());
        let throttle = match self.throttle.take() {
            Some(throttle) => throttle,
            None => Throttle::new(self.folder.path()).map_err(failed)?,
        };
        throttle.limit(Rates { read: rate, write: rate }).map_err(failed)?;
        self.throttle = Some(throttle);
        Ok(())
    }

    /// Runs the program once, with a cold cache.
    pub(super) fn run(&self, arm: &Arm, round: u32) -> Result<Observation, Stop> {
        let reports = self.folder.path().join(REPORTS);
        let target = self.folder.path().join(SORTED);
        for old in [REPORTS, SORTED] {
            let removed = self.folder.remove(old);
            removed.with_context(|| format!("cannot remove {}", self.folder.path().join(old).display()))?;
        }
        let evicted = self.evict(&self.input(arm.variant));
        evicted.context("cannot empty the page cache; --evict files needs no privileges")?;

        let throttle = self.throttle.as_ref().filter(|_| arm.variant == Variant::IoBound);
        let arguments = self.arguments(arm.variant, &target);
        let invocation = match throttle {
            Some(throttle) => throttle.invocation(&self.executable, &arguments),
            None => Invocation::new(self.executable.as_os_str(), &arguments),
        };
        let mut command = invocation.command();
        command.env_remove(TRACE).env(STRUCTURE, arm.structure).env(REPORT, &reports);
        let limits = RunLimits { cancel: self.signals.cancel(), limit: None };
        let execution = invocation.execute(&mut command, limits).or_failed()?;
        let execution = execution.map_err(|_| self.signals.interruption())?;
        if !execution.status.success() {
            let (variant, ending) = (arm.variant.name(), execution.ending());
            return Err(Stop::Failed(anyhow!("the {variant} sort by `{}` failed: {ending}", arm.structure)));
        }
        let lines = self.folder.read(REPORTS).unwrap_or_default();
        let reports =
            RunReport::read(&String::from_utf8_lossy(&lines)).context("this rowlock cannot read the sort's report")?;
        let [user, system, clock] =
            [execution.user, execution.system, execution.elapsed].map(|time| time.as_secs_f64());
        Ok(Observation { reports, ..Observation::new(arm, round, user, system, clock) })
    }

    fn input(&self, variant: Variant) -> PathBuf {
        self.folder.path().join(variant.name())
    }

    fn arguments(&self, variant: Variant, target: &Path) -> Vec<OsString> {
        let Settings { record, key, memory, .. } = self.settings;
        let mut arguments: Vec<OsString> = vec!["sort".into(), self.input(variant).into(), target.into()];
        arguments.extend(["--algorithm", "columnsort", "--variant", variant.name(), "--quiet"].map(OsString::from));
        arguments.extend(["--record".into(), record.to_string().into(), "--key".into(), format!("0:{key}").into()]);
        arguments.extend(["--memory".into(), format!("{memory}B").into(), "--tmp".into(), self.folder.path().into()]);
        arguments
    }

    fn evict(&self, input: &Path) -> io::Result<()> {
        match self.evict {
            Evict::All => {
                // Only pages that are already on the disk can be dropped.
                sync();
                write_control(Path::new(DROP_CACHES), PAGES)
            }
            Evict::Files => evict_file(&File::open(input)?),
        }
    }
}

fn evict_file(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Generates records with random keys. The rest of each is its number and padding.
fn generate(file: File, variant: Variant, settings: &Settings) -> io::Result<()> {
    let mut stream = Stream::named(settings.seed, variant.name(), 0);
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let (record, key) = (settings.record as usize, settings.key as usize);
    let mut bytes = vec![b'.'; record];
    for number in 0..settings.size * variant.times() / settings.record {
        let random = [stream.below(u64::MAX).to_ne_bytes(), stream.below(u64::MAX).to_ne_bytes()].concat();
        bytes[..key].copy_from_slice(&random[..key]);
        bytes[key..key + 8].copy_from_slice(&number.to_ne_bytes());
        file.write_all(&bytes)?;
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    evict_file(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::StageReport;

    #[test]
    fn the_busier_direction_determines_the_traffic() {
        let stage = |name: &str, kind, bytes| StageReport { name: name.into(), kind, bytes, ..StageReport::default() };
        let pass = |read, written| RunReport {
            stages: vec![
                stage("read", StageKind::Io, read),
                stage("sort", StageKind::Compute, 1 << 40),
                stage("write", StageKind::Io, written),
            ],
            ..RunReport::default()
        };
        assert_eq!(traffic(&[pass(100, 110), pass(110, 90)]), 210);
    }

    #[test]
    fn a_run_of_two_processors_would_take_twice_as_long_with_one() {
        let run = Observation::new(&papers::fg::arms::RULES[0], 0, 1.5, 0.5, 1.0);
        assert_eq!((run.used_percent, clock_for(&run, 100.0)), (200.0, 2.0));
    }
}
