//! The scheduling that this process may request: nice values, real-time policies, timeslices.
//!
//! The rules of the kernel are many (limits, capabilities, user namespaces, groups, system call
//! filters), so the only way is to try. Each trial runs in a thread of its own.

use std::io;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;

use crate::scheduling::{
    Policy, RawAttributes, SchedulingError, Thread, WORST_NICE, nice, set_nice, set_policy, set_scheduler,
};

/// All nice values, best first.
const NICE: RangeInclusive<i32> = -20..=WORST_NICE;

/// The best (smallest) nice value that a thread of this process may have, at least the current one.
pub fn best_nice() -> io::Result<i32> {
    in_a_thread(|| {
        let now = nice(Thread::current())?;
        // To the kernel, "this process" is the calling thread.
        let may = |&nice: &i32| setpriority_process(None, nice).is_ok();
        Ok(NICE.take_while(|&nice| nice < now).find(may).unwrap_or(now))
    })
}

/// Checks whether a thread may have the lowest real-time priority. Returns the kernel's reason.
pub fn check_real_time() -> io::Result<()> {
    in_a_thread(|| Ok(set_scheduler(Thread::current(), Policy::Fifo(1))?))
}

/// The effective timeslice of an ordinary thread of this process that requests `requested`. Returns
/// `None` if the kernel ignores the request, as before Linux 6.12.
pub fn try_timeslice(requested: Duration) -> io::Result<Option<Duration>> {
    in_a_thread(|| {
        let thread = Thread::current();
        RawAttributes::ordinary(nice(thread)?).with_slice(requested).apply_to(thread)?;
        Ok(RawAttributes::of(thread)?.slice())
    })
}

/// Checks whether an ordinary thread may become [`Policy::Idle`] and then ordinary again.
///
/// # Errors
/// The kernel's reason, and the right that it takes.
pub fn check_idle_and_back() -> Result<(), SchedulingError> {
    in_a_thread(|| {
        let thread = Thread::current();
        Ok(set_policy(thread, Policy::Idle).and_then(|_| set_policy(thread, Policy::Other)).map(drop))
    })?
}

/// Checks whether a thread may have the worst nice value and then its own again.
///
/// # Errors
/// The kernel's reason, and the right that it takes.
pub fn check_worst_nice_and_back() -> Result<(), SchedulingError> {
    in_a_thread(|| {
        let thread = Thread::current();
        let own = nice(thread)?;
        Ok(set_nice(thread, WORST_NICE).and_then(|_| set_nice(thread, own)).map(drop))
    })?
}

fn in_a_thread<T: Send>(trial: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let trial = thread::Builder::new().name("trial".to_owned()).spawn_scoped(scope, trial)?;
        trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial did not come to its end")))
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    fn attributes() -> RawAttributes {
        RawAttributes::of(Thread::current()).unwrap()
    }

    #[test]
    fn trials_do_not_affect_the_calling_thread_and_its_children() {
        let before = attributes();
        let _ = (best_nice(), check_real_time(), try_timeslice(Duration::from_micros(300)));
        assert_eq!(attributes(), before);
        assert_eq!(thread::scope(|scope| scope.spawn(attributes).join()).unwrap(), before);
    }

    #[test]
    fn the_best_nice_value_is_no_worse_than_the_current_one() {
        let (now, best) = (nice(Thread::current()).unwrap(), best_nice().unwrap());
        assert!((-20..=now).contains(&best), "{best}, {now}");
    }

    #[test]
    fn a_lowered_thread_gets_no_better_value_than_allowed() {
        let best = best_nice().unwrap();
        let of_lowered = in_a_thread(|| {
            setpriority_process(None, 19)?;
            best_nice()
        });
        let of_lowered = of_lowered.unwrap();
        assert!((best..=19).contains(&of_lowered), "{of_lowered}, {best}");
    }

    #[test]
    fn it_takes_a_right_to_become_ordinary_again() {
        testing::isolated(|| {
            let own = nice(Thread::current()).unwrap();
            let needed = (20 - own).unsigned_abs();
            let without_capabilities = || {
                let mut none = capabilities(None).unwrap();
                none.effective = CapabilitySet::empty();
                set_capabilities(None, none).unwrap();
                [check_idle_and_back(), check_worst_nice_and_back()]
            };
            let try_with = |limit: u64| {
                let limit = Rlimit { current: Some(limit), ..getrlimit(Resource::Nice) };
                setrlimit(Resource::Nice, limit).unwrap();
                thread::scope(|scope| scope.spawn(without_capabilities).join()).unwrap()
            };
            let refused = format!("not permitted; it takes CAP_SYS_NICE, or RLIMIT_NICE of {needed} (it is 0)");
            assert_eq!(try_with(0).map(|answer| answer.unwrap_err().to_string()), [&*refused; 2]);
            if getrlimit(Resource::Nice).maximum.is_none_or(|most| most >= needed.into()) {
                assert_eq!(try_with(needed.into()), [Ok(()), Ok(())]);
            }
        });
    }

    #[test]
    fn a_timeslice_is_as_requested_or_refused_or_ignored() {
        let requested = Duration::from_micros(300);
        if let Ok(Some(effective)) = try_timeslice(requested) {
            assert_eq!(effective, requested);
        }
    }
}
