//! What this process may ask of the kernel's scheduler: better nice values, real time, timeslices of its own.
//!
//! The kernel's rules for this are many (limits, capabilities, user namespaces, groups, filters of system calls), so it is
//! tried. Each trial is made by a thread of its own, which ends with it: no other thread is touched.

use std::io;
use std::mem::size_of;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use rustix::process::{getpriority_process, setpriority_process};

/// The nice values that there are, the best first.
const NICE: RangeInclusive<i32> = -20..=19;

/// The size of the first version of `sched_attr`, which all kernels know that know any.
const ATTRIBUTES: u32 = size_of::<libc::sched_attr>() as u32;

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
pub fn real_time() -> io::Result<()> {
    in_a_thread(|| {
        let priority = libc::sched_param { sched_priority: 1 };
        // The system call itself, since not every C library passes it on.
        // SAFETY: the kernel reads a `sched_param`, which is there, and nothing else.
        done(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) })
    })
}

/// The timeslice that an ordinary thread of this process gets when it asks for `wanted`; nothing where the kernel takes
/// the wish and ignores it, as it did before Linux 6.12.
///
/// # Errors
/// Where the kernel refuses the wish, with its reason.
pub fn timeslice(wanted: Duration) -> io::Result<Option<Duration>> {
    in_a_thread(|| {
        let wish = libc::sched_attr {
            size: ATTRIBUTES,
            sched_policy: libc::SCHED_OTHER as u32,
            sched_flags: 0,
            sched_nice: nice()?,
            sched_priority: 0,
            sched_runtime: wanted.as_nanos().try_into().unwrap_or(u64::MAX),
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the kernel reads as many bytes as the first field says, which are there, and may write that field.
        done(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wish, 0) })?;
        let mut granted = libc::sched_attr { size: 0, sched_runtime: 0, ..wish };
        // SAFETY: the kernel writes no more than as many bytes as it is told, for which there is room.
        done(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut granted, ATTRIBUTES, 0) })?;
        Ok(Some(granted.sched_runtime).filter(|&nanos| nanos > 0).map(Duration::from_nanos))
    })
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

    /// What the scheduler knows of the calling thread: policy, nice value, priority, timeslice.
    fn attributes() -> (u32, i32, u32, u64) {
        // SAFETY: zeroes are a valid value of these integers.
        let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: as in `timeslice`.
        done(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, ATTRIBUTES, 0) }).unwrap();
        (now.sched_policy, now.sched_nice, now.sched_priority, now.sched_runtime)
    }

    #[test]
    fn trials_change_nothing_for_the_thread_that_asks_and_for_those_it_starts() {
        let before = attributes();
        let _ = (best_nice(), real_time(), timeslice(Duration::from_micros(300)));
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
        if let Ok(Some(granted)) = timeslice(wanted) {
            assert_eq!(granted, wanted);
        }
    }
}
