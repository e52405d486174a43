//! The processes of jobs, which their command lines tell.

use std::fs;

use testing::processes::is_stopped;

/// A name of a job that no other run of these tests has.
pub(crate) fn own_name(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// The ids of the processes of a job or of its copies, in any order, without keepers.
pub(crate) fn processes(job: &str) -> Vec<u32> {
    find(job, |_| true)
}

/// The ids of those that are ranks.
pub(crate) fn processes_of_ranks(job: &str) -> Vec<u32> {
    find(job, |rank| rank.starts_with(b"rank "))
}

pub(crate) fn is_any_stopped(job: &str) -> bool {
    processes(job).into_iter().any(|id| is_stopped(id) == Some(true))
}

/// The processes of a job with such an argument, which is empty if they have none.
fn find(job: &str, fits: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let ids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_of_job = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0).skip(1);
        let is_job = words.next() == Some(b"__job");
        let copy = words.next().and_then(|name| name.strip_prefix(job.as_bytes()));
        let is_this = copy.is_some_and(|copy| copy.is_empty() || copy.starts_with(b"."));
        is_job && is_this && fits(words.next().unwrap_or_default())
    };
    // A keeper has the same command line.
    let is_keeper = |id: u32| fs::read(format!("/proc/{id}/comm")).is_ok_and(|name| name == b"keeper\n");
    ids.filter_map(|id| id.parse().ok()).filter(|&id| is_of_job(&id) && !is_keeper(id)).collect()
}
