//! A cage: a control group whose memory is limited, the kernel's copies of files counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sys::cgroups::Hierarchy;

/// A control group of its own for one run. It goes when it is dropped.
pub(crate) struct Cage {
    folder: PathBuf,
    version: u32,
}

impl Cage {
    /// One that leaves so many bytes.
    ///
    /// # Errors
    /// In words, where this process may make none.
    pub(crate) fn new(memory: u64) -> Result<Cage, String> {
        let limits_memory =
            |hierarchy: &Hierarchy| hierarchy.version == 2 || hierarchy.controllers.iter().any(|it| it == "memory");
        let hierarchies: Vec<Hierarchy> = Hierarchy::all().into_iter().filter(limits_memory).collect();
        let mut failed = "there is no control group of memory".to_owned();
        for hierarchy in &hierarchies {
            // In version 2 groups with processes in them hand no memory on, but those around them may.
            for folder in hierarchy.folders() {
                match Cage::below(folder, hierarchy.version, memory) {
                    Ok(cage) => return Ok(cage),
                    Err(why) => failed = format!("no group can be made in {}: {why}", folder.display()),
                }
            }
        }
        Err(failed)
    }

    fn below(folder: &Path, version: u32, memory: u64) -> std::io::Result<Cage> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = folder.join(format!("rowlock-sort-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        fs::create_dir(&folder)?;
        // From here on it is removed whatever comes.
        let cage = Cage { folder, version };
        let limit = if version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(cage.folder.join(limit), memory.to_string())?;
        // What is swapped out is not held in memory. Where there is no such limit nothing is said.
        let _ = match version {
            1 => fs::write(cage.folder.join("memory.swappiness"), "0"),
            _ => fs::write(cage.folder.join("memory.swap.max"), "0"),
        };
        Ok(cage)
    }

    /// A command that runs this program within.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs")).arg(program);
        command
    }

    /// The most memory that was in use within, in bytes.
    pub(crate) fn peak(&self) -> Option<u64> {
        let name = if self.version == 1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.folder.join(name)).ok()?.trim().parse().ok()
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // Who was within has been waited for.
        let _ = fs::remove_dir(&self.folder);
    }
}
