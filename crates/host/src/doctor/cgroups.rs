//! The control groups around this process: what they take away, and whether it may make groups of its own.

use std::path::PathBuf;

use policy::Span;
use sys::cgroups::Hierarchy;

/// Which controllers anybody here would use.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "freezer", "memory", "io", "pids"];

/// A kind of resource that groups can be given shares or limits of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its name: `cpu`, `cpuset`, `freezer`, `memory`, `io` or `pids`.
    pub name: String,
    /// Whether the file system lets this process make groups below its own, and put processes into them.
    pub writable: bool,
}

/// A limit of the running time that a group gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How much running time it gets on all CPUs together
    pub time: Span,
    /// in each such period.
    pub period: Span,
    /// The file that says so.
    pub file: PathBuf,
}

impl Quota {
    /// How many CPUs' worth of running that is.
    pub(super) fn cpus(&self) -> f64 {
        self.time.as_nanos() as f64 / self.period.as_nanos() as f64
    }
}

impl From<sys::cgroups::Quota> for Quota {
    fn from(quota: sys::cgroups::Quota) -> Quota {
        let span = |time: std::time::Duration| Span::from_nanos(time.as_nanos().try_into().unwrap_or(u64::MAX));
        Quota { time: span(quota.time), period: span(quota.period), file: quota.file }
    }
}

/// The groups around this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// The version of the interface, 1 or 2, that has the CPU controller; nothing where neither is mounted.
    pub version: Option<u32>,
    /// Its group's folder in that.
    pub folder: Option<PathBuf>,
    /// What it may be given shares or limits of.
    pub controllers: Vec<Controller>,
    /// The tightest limit of running time of its own group and those around it.
    pub quota: Option<Quota>,
    /// Whether its group, or one around it, has a share of the CPUs of its own, beside those of other groups.
    pub has_a_share: bool,
}

impl Cgroups {
    /// Those around this process.
    pub(super) fn here() -> Cgroups {
        let hierarchies = Hierarchy::all();
        let has_cpu = |hierarchy: &&Hierarchy| hierarchy.available().iter().any(|name| name == "cpu");
        let newest = || hierarchies.iter().max_by_key(|hierarchy| hierarchy.version);
        let Some(of_cpus) = hierarchies.iter().find(has_cpu).or_else(newest) else { return Cgroups::default() };
        Cgroups {
            version: Some(of_cpus.version),
            folder: Some(of_cpus.folder.clone()),
            controllers: controllers(&hierarchies),
            quota: of_cpus.quota().map(Quota::from),
            has_a_share: match of_cpus.version {
                // In version 1 the outermost group has the file, too.
                1 => of_cpus.folder != of_cpus.mount,
                _ => of_cpus.folders().any(|folder| folder.join("cpu.weight").exists()),
            },
        }
    }
}

/// What of [`CONTROLLERS`] there is in any of these hierarchies.
fn controllers(hierarchies: &[Hierarchy]) -> Vec<Controller> {
    let of = |name: &str| {
        let is_it = |available: &String| available == name || (name == "io" && available == "blkio");
        let hierarchy = hierarchies.iter().find(|hierarchy| hierarchy.available().iter().any(is_it))?;
        Some(Controller { name: name.to_owned(), writable: hierarchy.is_writable() })
    };
    CONTROLLERS.into_iter().filter_map(of).collect()
}
