//! The measured costs of this machine, their cache, and the simulated twin of the machine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, io};

use policy::Span;
use policy::waiting::Costs;
use scenario::model::{Cfs, default_slice};
use scenario::{Machine as Twin, Scheduler};
use serde::{Deserialize, Serialize};
use sys::files::Folder;
use wait::calibrate::{HIGHEST_PLAUSIBLE, Measured};

use crate::error::Error;
use crate::machine::Machine;
use crate::workload::Rate;

/// The version of the cache's format and of the meaning of its figures.
const VERSION: u32 = 2;

/// A measured cost: the median, the quartiles and the number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCost {
    /// Nanoseconds.
    pub median_ns: f64,
    /// Nanoseconds; a quarter of the samples were below.
    pub low_ns: f64,
    /// Nanoseconds; a quarter of the samples were above.
    pub high_ns: f64,
    /// The number of samples.
    pub samples: u32,
}

impl MeasuredCost {
    /// The median in whole nanoseconds.
    pub fn median(&self) -> Span {
        Span::from_nanos(self.median_ns.round() as u64)
    }

    /// Whether all its figures are from zero up to this many nanoseconds.
    fn is_within(&self, nanos: f64) -> bool {
        [self.median_ns, self.low_ns, self.high_ns].iter().all(|figure| (0.0..=nanos).contains(figure))
    }
}

impl From<&Measured> for MeasuredCost {
    fn from(measured: &Measured) -> MeasuredCost {
        let &Measured { median, low, high, samples } = measured;
        MeasuredCost { median_ns: median, low_ns: low, high_ns: high, samples }
    }
}

/// The costs of operations on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCalibration {
    /// The machine on which they were measured.
    pub machine: Machine,
    /// A context switch between two threads on one CPU.
    pub switch: MeasuredCost,
    /// Waking a thread that sleeps on another CPU, until it runs.
    pub wake: MeasuredCost,
    /// A `sched_yield` when no other thread is ready.
    pub lone_yield: MeasuredCost,
    /// Reading the clock.
    pub clock: MeasuredCost,
    /// The period of the timer interrupt.
    pub tick: MeasuredCost,
    /// Remarks on the figures, in sentences.
    pub notes: Vec<String>,
    /// Whether other programs left the machine idle during the measurement, as far as the figures
    /// tell.
    pub quiet: bool,
    /// The speed of computation. It also depends on how this program was compiled, so it is
    /// measured each time.
    pub rate: Rate,
    /// The file in the cache. `None` if it could not be written.
    pub path: Option<PathBuf>,
    /// Whether the figures come from the cache.
    pub from_cache: bool,
}

/// A file of the cache.
#[derive(Serialize, Deserialize)]
struct Cached<Calibration> {
    version: u32,
    calibration: Calibration,
}

impl HostCalibration {
    /// Invented costs of a machine, for tests that do not depend on them.
    #[doc(hidden)]
    pub fn invented(machine: Machine) -> HostCalibration {
        let cost = |nanos| MeasuredCost { median_ns: nanos, low_ns: nanos, high_ns: nanos, samples: 1 };
        HostCalibration {
            machine,
            switch: cost(2_000.0),
            wake: cost(20_000.0),
            lone_yield: cost(500.0),
            clock: cost(25.0),
            tick: cost(4e6),
            notes: Vec::new(),
            quiet: true,
            rate: Rate { iteration_ps: 500, start_ps: 0 },
            path: None,
            from_cache: false,
        }
    }

    /// The calibration in a file of the cache. `None` if it is not one of this version for this
    /// machine, or if a cost is impossible.
    pub fn from_cached(content: &[u8], machine: &Machine) -> Option<HostCalibration> {
        let Cached { version, calibration } = serde_json::from_slice::<Cached<HostCalibration>>(content).ok()?;
        let HostCalibration { switch, wake, lone_yield, clock, tick, .. } = &calibration;
        let are_plausible = [switch, wake, lone_yield, clock].into_iter().all(|cost| cost.is_within(HIGHEST_PLAUSIBLE));
        let is_valid = version == VERSION && calibration.machine == *machine && tick.is_within(1e9);
        (is_valid && are_plausible).then_some(calibration)
    }

    /// The content of a file of the cache.
    ///
    /// # Errors
    /// If the path is not UTF-8.
    pub fn to_cached(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(&Cached { version: VERSION, calibration: self })
    }
}

/// Returns this machine's costs. They come from the cache if it has any for this processor, kernel
/// and set of CPUs, and `fresh` is false. Otherwise they are measured, in at most three seconds,
/// and cached unless the machine was busy.
///
/// The cache is a file in the folder `rowlock` under `$XDG_CACHE_HOME` or `~/.cache`. An unusable
/// file is replaced. If the file cannot be written, or if another user could change it, a note says
/// so, and nothing is cached.
///
/// # Errors
/// If the machine cannot be measured.
pub fn load_or_measure(fresh: bool) -> Result<HostCalibration, Error> {
    load_or_measure_in(cache_folder().as_deref(), fresh, measure)
}

/// Returns this machine's costs for waiting rules if they are cached. Measures nothing.
pub fn cached_costs() -> Option<Costs> {
    let machine = Machine::current().ok()?;
    let cached = load(&cache_folder()?, &machine)?;
    Some(twin(&cached).costs())
}

fn load_or_measure_in(
    folder: Option<&Path>,
    fresh: bool,
    measure: impl FnOnce(Machine) -> Result<HostCalibration, Error>,
) -> Result<HostCalibration, Error> {
    let machine = Machine::current()?;
    let path = folder.map(|folder| folder.join(file_name(&machine)));
    if let Some(found) = folder.filter(|_| !fresh).and_then(|folder| load(folder, &machine)) {
        return Ok(HostCalibration { rate: Rate::measure(), path, from_cache: true, ..found });
    }
    let mut calibration = measure(machine)?;
    let cached = match folder {
        _ if !calibration.quiet => Err("the machine was busy".to_owned()),
        Some(folder) => {
            save(folder, &calibration).map_err(|why| format!("{} cannot be a cache: {why}", folder.display()))
        }
        None => Err("neither XDG_CACHE_HOME nor HOME names a folder".to_owned()),
    };
    match cached {
        Ok(()) => calibration.path = path,
        Err(why) => calibration.notes.push(format!("not cached, so the next run will measure again: {why}")),
    }
    Ok(calibration)
}

fn measure(machine: Machine) -> Result<HostCalibration, Error> {
    let measured = wait::calibrate::calibrate().map_err(|why| Error::Calibration(why.to_string()))?;
    let mut notes = measured.notes;
    if machine.scheduler() != "eevdf" {
        notes.push(format!("This kernel schedules by {}; the simulated twin schedules by eevdf.", machine.scheduler()));
    }
    if (machine.cpus as usize) < machine.cpus_allowed.len() {
        notes.push(format!(
            "A quota leaves {} of {} CPUs; the twin has that many whole CPUs.",
            machine.cpus,
            machine.cpus_allowed.len()
        ));
    }
    Ok(HostCalibration {
        machine,
        switch: MeasuredCost::from(&measured.switch),
        wake: MeasuredCost::from(&measured.wake),
        lone_yield: MeasuredCost::from(&measured.lone_yield),
        clock: MeasuredCost::from(&measured.clock),
        tick: MeasuredCost::from(&measured.tick),
        notes,
        quiet: measured.quiet,
        rate: Rate::measure(),
        path: None,
        from_cache: false,
    })
}

fn cache_folder() -> Option<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Some(absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?.join("rowlock"))
}

/// One file for each machine, because several may share the folder. The name is only a shortcut:
/// the content decides.
fn file_name(machine: &Machine) -> String {
    let mut hasher = DefaultHasher::new();
    machine.hash(&mut hasher);
    format!("calibration-{:016x}.json", hasher.finish())
}

fn load(folder: &Path, machine: &Machine) -> Option<HostCalibration> {
    let content = Folder::open_private(folder).and_then(|folder| folder.read_private(&file_name(machine))).ok()?;
    HostCalibration::from_cached(&content, machine)
}

/// Replaces the file atomically: a reader finds either the old one or the new one.
fn save(folder: &Path, calibration: &HostCalibration) -> io::Result<()> {
    Folder::create_private(folder, 0o700)?.replace(&file_name(&calibration.machine), &calibration.to_cached()?, None)
}

/// The simulated machine that corresponds to this one.
///
/// A blocked sibling costs a wakeup. So CS, which includes the wakeup cost, is
/// [`HostCalibration::wake`] (or [`HostCalibration::switch`] if that is higher). Runs on this
/// machine take their costs from the twin, so multiples of CS are equal in the simulator and on the
/// host.
pub fn twin(calibration: &HostCalibration) -> Twin {
    let switch = calibration.switch.median();
    let cpus = calibration.machine.cpus;
    Twin {
        context_switch: switch,
        wakeup_cost: calibration.wake.median() - switch,
        yield_cost: calibration.lone_yield.median(),
        tick: calibration.tick.median(),
        // The kernel counts all CPUs, not only those that this process may use.
        slice: default_slice(calibration.machine.cpus_online),
        cfs: Cfs::with_cpus(calibration.machine.cpus_online),
        scheduler: Scheduler::Eevdf,
        step: Span::from_nanos(1),
        ..Twin::with_cpus(cpus)
    }
}

#[cfg(test)]
fn cost(nanos: f64) -> MeasuredCost {
    MeasuredCost { median_ns: nanos, low_ns: nanos - 0.5, high_ns: nanos + 0.1 + 0.2, samples: 9 }
}

/// A calibration for tests.
#[cfg(test)]
pub(crate) fn sample_calibration(machine: Machine) -> HostCalibration {
    HostCalibration {
        machine,
        switch: cost(2_220.4),
        wake: cost(18_400.0),
        lone_yield: cost(510.0),
        clock: cost(24.7),
        tick: cost(4e6),
        notes: vec!["made up".into()],
        quiet: true,
        rate: Rate { iteration_ps: u64::MAX, start_ps: 0 },
        path: None,
        from_cache: false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    /// A folder that is removed when it is dropped.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(tempfile::tempdir().unwrap())
        }

        fn load(&self, fresh: bool) -> HostCalibration {
            load_or_measure_in(Some(self.0.path()), fresh, |machine| Ok(sample_calibration(machine))).unwrap()
        }

        fn files(&self) -> Vec<PathBuf> {
            fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
        }
    }

    #[test]
    fn costs_are_measured_once_and_then_read_from_the_cache() {
        let folder = Folder::new();
        let measured = folder.load(false);
        let [file] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
        assert_eq!((measured.from_cache, measured.path.as_ref()), (false, Some(file)));
        let found = folder.load(false);
        // The rate is not cached.
        assert_ne!(found.rate, measured.rate);
        assert_eq!(found, HostCalibration { from_cache: true, rate: found.rate, ..measured });
        assert!(!folder.load(true).from_cache);
    }

    #[test]
    fn files_that_cannot_be_used_are_replaced() {
        let folder = Folder::new();
        folder.load(false);
        let [file] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
        let good = fs::read_to_string(file).unwrap();
        let other_version = good.replace("\"version\": 2", "\"version\": 1");
        let other_kernel = good.replace("\"kernel\": \"", "\"kernel\": \"1.");
        let impossible = good.replacen("\"median_ns\": ", "\"median_ns\": -", 1);
        let busy = good.replace("\"median_ns\": 18400.0", "\"median_ns\": 25000000.0");
        for bad in ["", "{}", &good[..good.len() / 2], &other_version, &other_kernel, &impossible, &busy] {
            assert_ne!(bad, good);
            fs::write(file, bad).unwrap();
            assert!(!folder.load(false).from_cache, "{bad}");
            assert!(folder.load(false).from_cache);
        }
    }

    #[test]
    fn figures_of_a_busy_machine_are_not_cached() {
        let folder = Folder::new();
        let measure = |machine| Ok(HostCalibration { quiet: false, ..sample_calibration(machine) });
        let calibration = load_or_measure_in(Some(folder.0.path()), false, measure).unwrap();
        assert_eq!(calibration.path, None);
        assert_eq!(
            calibration.notes.last().unwrap(),
            "not cached, so the next run will measure again: the machine was busy"
        );
        assert_eq!(folder.files(), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_run_works_without_a_writable_cache() {
        let folder = Folder::new();
        // Even root cannot create a folder in place of a file.
        let file = folder.0.path().join("file");
        fs::write(&file, "").unwrap();
        for unwritable in [Some(file.as_path()), None] {
            let calibration = load_or_measure_in(unwritable, false, |machine| Ok(sample_calibration(machine))).unwrap();
            assert_eq!((calibration.from_cache, &calibration.path), (false, &None));
            assert!(calibration.notes.last().unwrap().starts_with("not cached"), "{:?}", calibration.notes);
        }
    }

    #[test]
    fn what_another_user_planted_is_neither_changed_nor_believed() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can own files as two users");
            return;
        }
        let (place, theirs) = (Folder::new(), Folder::new());
        place.load(false);
        let [ours] = &place.files()[..] else { panic!("{:?}", place.files()) };
        let name = ours.file_name().unwrap();
        let victim = place.0.path().join("victim");
        let draft = Path::new(name).with_extension(format!("{}.new", std::process::id()));
        for mode in [0o755, 0o1777, 0o777] {
            fs::write(&victim, "untouched").unwrap();
            fs::set_permissions(theirs.0.path(), fs::Permissions::from_mode(mode)).unwrap();
            // Costs that the other user made up.
            fs::copy(ours, theirs.0.path().join(name)).unwrap();
            symlink(&victim, theirs.0.path().join(&draft)).unwrap();
            lchown(theirs.0.path(), Some(testing::NOBODY), Some(testing::NOBODY)).unwrap();
            for file in theirs.files() {
                lchown(file, Some(testing::NOBODY), Some(testing::NOBODY)).unwrap();
            }
            for fresh in [true, false] {
                let calibration = theirs.load(fresh);
                assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
                assert_eq!((calibration.from_cache, &calibration.path), (false, &None), "{mode:o}");
                assert!(calibration.notes.last().unwrap().starts_with("not cached"), "{:?}", calibration.notes);
            }
            theirs.files().iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }

    #[test]
    fn the_twin_has_the_wakeup_cost_of_this_machine() {
        let twin = twin(&sample_calibration(Machine::current().unwrap()));
        assert_eq!(twin.context_switch, Span::from_nanos(2_220));
        assert_eq!(twin.costs().cs, Span::from_nanos(18_400));
        assert_eq!(twin.costs().margin, Span::from_nanos(9_200));
        assert_eq!(twin.tick, Span::from_millis(4));
        assert_eq!(twin.cpus, sys::cpus::usable());
    }
}
