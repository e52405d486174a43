//! What this process may ask of the kernel's scheduler: better nice values, real time, timeslices of its own.
//!
//! The kernel's rules for this are many (limits, capabilities, user namespaces, groups, filters of system calls), so it is
//! tried. Each trial is made by a thread of its own, which ends with it: no other thread is touched.

use std::io;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use rustix::process::{getpriority_process, setpriority_process};

use crate::scheduling::{Policy, RawAttributes, Thread, set_scheduler};

/// The nice values that there are, the best first.
const NICE: RangeInclusive<i32> = -20..=19;

/// The nice value of the calling thread.
///
/// # Errors
/// Where a filter of system calls forbids to ask.
pub fn nice() -> io::Result<i32> {
    // To the kernel, "this process" is the thread that asks, here and where the value is set.
    Ok(getpriority_process(None)?)
}

/// The best nice value, which is the smallest, that a thread of this process may give itself. It is that of the calling
/// thread where it may not have a better one.
///
/// # Errors
/// Where no thread can be started, or the value cannot be read.
pub fn best_nice() -> io::Result<i32> {
    in_a_thread(|| {
        let now = nice()?;
        let may = |&nice: &i32| setpriority_process(None, nice).is_ok();
        Ok(NICE.take_while(|&nice| nice < now).find(may).unwrap_or(now))
    })
}

/// Whether a thread of this process may have a real-time priority: `SCHED_FIFO` with the lowest one.
///
/// # Errors
/// Where it may not, with the kernel's reason.
pub fn check_real_time() -> io::Result<()> {
    in_a_thread(|| Ok(set_scheduler(Thread::current(), Policy::Fifo(1))?))
}

/// The timeslice that an ordinary thread of this process gets when it asks for `wanted`; nothing where the kernel takes
/// the wish and ignores it, as it did before Linux 6.12.
///
/// # Errors
/// Where the kernel refuses the wish, with its reason.
pub fn try_timeslice(wanted: Duration) -> io::Result<Option<Duration>> {
    in_a_thread(|| {
        let thread = Thread::current();
        RawAttributes::ordinary(nice()?).with_slice(wanted).apply_to(thread)?;
        Ok(RawAttributes::of(thread)?.slice())
    })
}

fn in_a_thread<T: Send>(trial: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let trial = thread::Builder::new().name("trial".to_owned()).spawn_scoped(scope, trial)?;
        trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial did not come to its end")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> RawAttributes {
        RawAttributes::of(Thread::current()).unwrap()
    }

    #[test]
    fn trials_change_nothing_for_the_thread_that_asks_and_for_those_it_starts() {
        let before = attributes();
        let _ = (best_nice(), check_real_time(), try_timeslice(Duration::from_micros(300)));
        assert_eq!(attributes(), before);
        assert_eq!(thread::scope(|scope| scope.spawn(attributes).join()).unwrap(), before);
    }

    #[test]
    fn the_best_nice_value_is_no_worse_than_the_present_one() {
        let (now, best) = (nice().unwrap(), best_nice().unwrap());
        assert!((-20..=now).contains(&best), "{best}, {now}");
    }

    #[test]
    fn a_thread_that_has_made_itself_weaker_gets_no_better_value_than_the_kernel_lets_it_have() {
        let best = best_nice().unwrap();
        let of_a_weak_one = in_a_thread(|| {
            setpriority_process(None, 19)?;
            best_nice()
        });
        let of_a_weak_one = of_a_weak_one.unwrap();
        assert!((best..=19).contains(&of_a_weak_one), "{of_a_weak_one}, {best}");
    }

    #[test]
    fn a_timeslice_is_granted_as_asked_for_or_refused_or_ignored() {
        let wanted = Duration::from_micros(300);
        if let Ok(Some(granted)) = try_timeslice(wanted) {
            assert_eq!(granted, wanted);
        }
    }
}
