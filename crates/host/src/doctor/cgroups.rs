//! The control groups of this process: their limits, and whether the process may create groups.

use std::path::PathBuf;

use sys::cgroups::{Hierarchy, Quota};

/// The controllers that rowlock or its users may need.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "freezer", "memory", "io", "pids"];

/// A kind of resource of which groups can have shares or limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// Its name: `cpu`, `cpuset`, `freezer`, `memory`, `io` or `pids`.
    pub(super) name: String,
    /// Whether the file system allows this process to create groups below its own and move
    /// processes into them.
    pub(super) writable: bool,
}

/// The control groups of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroups {
    /// The version, 1 or 2, of the hierarchy with the CPU controller. `None` if neither is mounted.
    pub(super) version: Option<u32>,
    /// The folder of the process's group in that hierarchy.
    pub(super) folder: Option<PathBuf>,
    pub(super) controllers: Vec<Controller>,
    /// The tightest limit of running time of its group and of the groups around that.
    pub(super) quota: Option<Quota>,
    /// Whether its group, or one around it, has a CPU share separate from other groups.
    pub(super) has_a_share: bool,
}

impl Cgroups {
    /// The control groups of this process.
    pub(super) fn current() -> Cgroups {
        let hierarchies = Hierarchy::all();
        let Some(of_cpus) = Hierarchy::of_cpus(&hierarchies) else { return Cgroups::default() };
        Cgroups {
            version: Some(of_cpus.version),
            folder: Some(of_cpus.folder.clone()),
            controllers: controllers(&hierarchies),
            quota: of_cpus.quota(),
            has_a_share: of_cpus.has_a_cpu_share(),
        }
    }
}

/// Those of [`CONTROLLERS`] that exist in any of these hierarchies.
fn controllers(hierarchies: &[Hierarchy]) -> Vec<Controller> {
    let of = |name: &str| {
        let is_it = |available: &String| available == name || (name == "io" && available == "blkio");
        let hierarchy = hierarchies.iter().find(|hierarchy| hierarchy.available().iter().any(is_it))?;
        Some(Controller { name: name.to_owned(), writable: hierarchy.is_writable() })
    };
    CONTROLLERS.into_iter().filter_map(of).collect()
}
