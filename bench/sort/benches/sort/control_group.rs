//! A control group with limited memory, including the page cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sys::cgroups::Hierarchy;
use sys::files::write_control;

/// A control group for one run. Removed when it is dropped.
pub(crate) struct ControlGroup {
    folder: PathBuf,
    version: u32,
}

impl ControlGroup {
    /// A group with this much memory.
    ///
    /// # Errors
    /// Why this process cannot create one.
    pub(crate) fn new(memory: u64) -> Result<ControlGroup, String> {
        let limits_memory =
            |hierarchy: &Hierarchy| hierarchy.version == 2 || hierarchy.controllers.iter().any(|it| it == "memory");
        let hierarchies: Vec<Hierarchy> = Hierarchy::all().into_iter().filter(limits_memory).collect();
        let mut failed = "there is no control group of memory".to_owned();
        for hierarchy in &hierarchies {
            // In version 2, groups with processes cannot delegate memory, but their ancestors may.
            for folder in hierarchy.folders() {
                match ControlGroup::create_below(folder, hierarchy.version, memory) {
                    Ok(control_group) => return Ok(control_group),
                    Err(why) => failed = format!("no group can be made in {}: {why}", folder.display()),
                }
            }
        }
        Err(failed)
    }

    #[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
    fn create_below(folder: &Path, version: u32, memory: u64) -> std::io::Result<ControlGroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = folder.join(format!("rowlock-sort-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        fs::create_dir(&folder)?;
        // From here on it is removed in any case.
        let control_group = ControlGroup { folder, version };
        let limit = if version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
        write_control(&control_group.folder.join(limit), &memory.to_string())?;
        // Disable swapping, so that the limit holds. Without this setting, continue silently.
        let _ = match version {
            1 => write_control(&control_group.folder.join("memory.swappiness"), "0"),
            _ => write_control(&control_group.folder.join("memory.swap.max"), "0"),
        };
        Ok(control_group)
    }

    /// A command that runs this program in the group.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs")).arg(program);
        command
    }

    /// The peak memory of the group, in bytes.
    pub(crate) fn peak(&self) -> Option<u64> {
        let name = if self.version == 1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.folder.join(name)).ok()?.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    #[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
    fn drop(&mut self) {
        // Its processes have been waited for.
        let _ = fs::remove_dir(&self.folder);
    }
}
