//! Checks of limits of threads and processes, and of a command's existence.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit, getuid};
use sys::cgroups::Hierarchy;
use sys::executable::{candidates, may_be_executed};
use sys::load::ThreadCounts;

use crate::error::Error;
use crate::procfs::{number, read};

/// Refuses a number of new threads and processes that exceeds a limit.
///
/// The limits are those of the kernel (`threads-max`, `pid_max`), of the user (RLIMIT_NPROC) and of
/// the cgroups around this process (`pids.max`). A file that cannot be read is no limit.
pub(crate) fn check_threads(wanted: u64) -> Result<(), Error> {
    match available().into_iter().min_by_key(|limit| limit.available) {
        Some(Limit { available, name }) if available < wanted => {
            Err(Error::TooManyThreads { wanted, room: available, limit: name })
        }
        _ => Ok(()),
    }
}

/// Refuses a number of threads in one process whose stacks need more memory maps than the kernel
/// allows.
pub(crate) fn check_threads_per_process(wanted: u64) -> Result<(), Error> {
    /// A stack and a signal stack, each with a guard page.
    const MAPS_OF_A_THREAD: u64 = 4;
    /// Maps of the program itself, with a reserve.
    const OTHER_MAPS: u64 = 100;
    let limit = "/proc/sys/vm/max_map_count";
    let available = |maps: u64| maps.saturating_sub(OTHER_MAPS) / MAPS_OF_A_THREAD;
    match number(limit).map(available) {
        Some(available) if available < wanted => {
            Err(Error::TooManyThreads { wanted, room: available, limit: limit.to_owned() })
        }
        _ => Ok(()),
    }
}

/// A limit and how much it leaves.
struct Limit {
    name: String,
    available: u64,
}

fn available() -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut add = |name: String, most: Option<u64>, used: u64| {
        limits.extend(most.map(|most| Limit { name, available: most.saturating_sub(used) }));
    };
    let all = ThreadCounts::parse(read("/proc/loadavg").as_bytes()).map_or(0, |threads| threads.all.into());
    for path in ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"] {
        add(path.to_owned(), number(path), all);
    }
    // The kernel does not apply this limit to root.
    if !getuid().is_root() {
        let most = getrlimit(Resource::Nproc).current;
        add("the user's limit of processes (ulimit -u)".to_owned(), most, threads_of_user(getuid().as_raw()));
    }
    let counts_threads = |group: &&Hierarchy| group.version == 2 || group.controllers.iter().any(|name| name == "pids");
    for folder in Hierarchy::all().iter().filter(counts_threads).flat_map(Hierarchy::folders) {
        let (most, used) = (folder.join("pids.max"), folder.join("pids.current"));
        add(most.display().to_string(), number(&most), number(&used).unwrap_or(0));
    }
    limits
}

fn threads_of_user(user: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit));
    let own = ids.filter(|entry| entry.metadata().is_ok_and(|about| about.uid() == user));
    // A folder has a link for itself, one for its name, and one for each subfolder, that is, for
    // each thread.
    own.map(|entry| fs::metadata(entry.path().join("task")).map_or(0, |task| task.nlink().saturating_sub(2))).sum()
}

/// Finds `program` as execvp does. Fails with a sentence about a program that does not exist or is
/// not executable.
pub(crate) fn check_command(program: &str) -> Result<(), String> {
    let files = candidates(program.as_ref(), env::var_os("PATH").as_deref());
    if files.iter().any(|path| may_be_executed(path)) {
        return Ok(());
    }
    let unfit = |path: PathBuf, why: &str| format!("`{}` cannot be executed: {why}", path.display());
    Err(match files.into_iter().find(|path| path.exists()) {
        None if program.contains('/') => format!("there is no command `{program}`"),
        None => format!("there is no command `{program}` in any folder of PATH"),
        Some(path) if path.is_dir() => unfit(path, "it is a folder"),
        Some(path) => unfit(path, "no permission (chmod +x makes it a program)"),
    })
}

/// Refuses more ranks of a job than can share memory. Fails with a sentence.
pub(crate) fn check_ranks(ranks: u32) -> Result<(), String> {
    let most = message::memory::MOST_RANKS;
    if ranks <= most {
        Ok(())
    } else {
        Err(format!("it has {ranks} ranks, and on this machine at most {most} exchange messages"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_are_allowed_and_more_than_any_machine_has_are_refused() {
        let refused = check_threads(u64::MAX).unwrap_err();
        assert!(refused.is_input(), "{refused}");
        assert!(check_threads(4).is_ok());
    }

    #[test]
    fn memory_maps_limit_the_stacks_of_a_process() {
        let refused = check_threads_per_process(u64::MAX).unwrap_err();
        assert!(refused.is_input() && refused.to_string().contains("max_map_count"), "{refused}");
        check_threads_per_process(3).unwrap();
    }

    #[test]
    fn threads_are_counted() {
        let before = threads_of_user(getuid().as_raw());
        assert!(before >= 1);
    }

    #[test]
    fn commands_are_found_like_in_a_shell() {
        assert!(check_command("sh").is_ok());
        assert!(check_command("/bin/sh").is_ok());
        for missing in ["no-such-program-here", "./no-such-program-here", ""] {
            let why = check_command(missing).unwrap_err();
            assert!(why.starts_with("there is no command "), "{why}");
        }
        for none in ["/", "/etc/passwd"] {
            let why = check_command(none).unwrap_err();
            assert!(why.contains(" cannot be executed: "), "{why}");
        }
    }
}
