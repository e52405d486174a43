//! The memory that limits of this process leave to a sort.

use std::fs;

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use sys::{heap, memory};

use crate::budget::LEAST;
use crate::error::SortError;

/// Prepares this process for a sort before it starts its first thread: refused memory is an error,
/// and if the address space is limited (`ulimit -v`), all threads share one heap, since each heap
/// reserves 64 MiB.
///
/// # Errors
/// Returns an error if the limits of the process leave too little memory for any sort.
pub fn fit_into_limits() -> Result<(), SortError> {
    heap::handle_refusals();
    if getrlimit(Resource::As).current.is_some() {
        heap::share();
    }
    within_limits(u64::MAX, 1).map(drop)
}

/// The most threads that a sort needs at a time, and one of the program for signals.
const THREADS: u64 = 13;

/// The address space of a thread's stack, with its guard.
const STACK: u64 = (2 << 20) + (64 << 10);

/// The address space for everything else that a sort allocates beside its budget.
const SMALL: u64 = 6 << 20;

/// The address space that a sort needs beside its budget.
const BESIDE: u64 = THREADS * STACK + SMALL;

/// The memory that a sort needs beside its budget in a control group.
const BESIDE_IN_GROUP: u64 = 32 << 20;

/// The budget that fits into a control group that leaves this much memory. It is never too little:
/// the kernel drops pages of files before it ends a process.
fn fitting(left: u64) -> u64 {
    left.saturating_sub(BESIDE_IN_GROUP).max(left / 4).max(LEAST)
}

/// The part of this budget that the limits of the process and of its control groups leave. The
/// groups are shared by so many ranks.
///
/// # Errors
/// Returns an error if that is too little for any sort.
pub(crate) fn within_limits(budget: u64, ranks: u64) -> Result<u64, SortError> {
    let left = limits(&fs::read_to_string("/proc/self/statm").unwrap_or_default());
    match left.map_or(u64::MAX, |left| left.saturating_sub(BESIDE)) {
        // A smaller budget fails for another reason.
        few if few < LEAST.min(budget) => Err(SortError::Limit { left: left.unwrap_or(0), needed: LEAST + BESIDE }),
        left => Ok(memory::left_by_groups().map_or(left, |group| left.min(fitting(group / ranks))).min(budget)),
    }
}

/// The memory that the limits of the process leave, in bytes, by `/proc/self/statm`. Returns `None`
/// without limits.
pub fn limits(statm: &str) -> Option<u64> {
    // size resident shared text lib data dt
    let used = |field: usize| {
        let pages: Option<u64> = statm.split_whitespace().nth(field).and_then(|pages| pages.parse().ok());
        pages.map_or(UNKNOWN, |pages| pages.saturating_mul(page_size() as u64))
    };
    let left = |limit: Resource, field| getrlimit(limit).current.map(|limit| limit.saturating_sub(used(field)));
    left(Resource::As, 0).into_iter().chain(left(Resource::Data, 5)).min()
}

/// The size of the process, in bytes, that is assumed without `/proc`.
const UNKNOWN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use rustix::process::{Rlimit, setrlimit};

    use super::*;

    #[test]
    fn a_size_that_does_not_fit_leaves_no_memory() {
        testing::isolated(|| {
            setrlimit(Resource::As, Rlimit { current: Some(1 << 40), maximum: None }).unwrap();
            assert_eq!(limits("18446744073709551615 1 1 1 1 1 0"), Some(0));
        });
    }

    #[test]
    fn a_budget_within_the_limits_is_kept() {
        for budget in [1 << 10, 1 << 20] {
            assert_eq!(within_limits(budget, 1).unwrap(), budget);
        }
    }

    #[test]
    fn a_budget_in_a_control_group_leaves_room_for_the_program() {
        let mib = |number: u64| number << 20;
        assert_eq!([mib(96), mib(40), mib(8), 0].map(fitting), [mib(64), mib(10), mib(2), LEAST]);
    }

    #[test]
    fn a_budget_is_reduced_to_what_the_limits_leave() {
        testing::isolated(|| {
            let used = || fs::read_to_string("/proc/self/statm").unwrap();
            assert_eq!(limits(&used()), None);
            let pages = |field: usize| used().split_whitespace().nth(field).unwrap().parse::<u64>().unwrap();
            for (limit, field) in [(Resource::Data, 5), (Resource::As, 0)] {
                let current = Some(pages(field) * page_size() as u64 + (256 << 20));
                setrlimit(limit, Rlimit { current, maximum: None }).unwrap();
                let left = within_limits(u64::MAX, 1).unwrap();
                assert!((200 << 20..256 << 20).contains(&left), "{left}");
                let current = Some(pages(field) * page_size() as u64 + (16 << 20));
                setrlimit(limit, Rlimit { current, maximum: None }).unwrap();
                let error = fit_into_limits().unwrap_err().to_string();
                assert!(error.contains("ulimit -v"), "{error}");
                setrlimit(limit, Rlimit { current: None, maximum: None }).unwrap();
            }
        });
    }
}
