//! The scheduling of a job's threads: their nice value, CPUs and slice.
//!
//! Threads inherit all three from the thread that creates them, and also through `fork` and `exec`.
//! So a thread with the requested scheduling creates the job's threads. The threads that
//! communicate with the run keep the default.

use std::io;
use std::thread;
use std::time::Duration;

use policy::Span;
use scenario::Attributes;
use sys::scheduling::{Thread, affinity, set_affinity, set_nice, set_slice};

use crate::machine::cpu_set;

/// Applies attributes to the calling thread. Threads and processes that it starts inherit them. A
/// nice value of zero keeps the value of this process. Fails with a sentence about the request that
/// the kernel refused, as a scenario writes it.
pub(crate) fn apply(attributes: &Attributes) -> Result<(), String> {
    let own = Thread::current();
    let &Attributes { nice, ref cpus, slice } = attributes;
    if nice != 0 {
        let refused = |why: String| refusal(&format!("nice = {nice}"), &why);
        let got = set_nice(own, nice.into()).map_err(|why| refused(why.to_string()))?;
        if got != i32::from(nice) {
            return Err(refused(format!("the kernel gives {got}")));
        }
    }
    if let Some(cpus) = cpus {
        let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        set_affinity(own, &numbers).map_err(|why| {
            let here = affinity(own).map_or(String::new(), |here| format!("; here are CPUs {}", cpu_set(&here)));
            refusal(&format!("cpus = \"{cpus}\""), &format!("{why}{here}"))
        })?;
    }
    if let Some(slice) = slice {
        let refused = |why: String| refusal(&format!("slice = \"{slice}\""), &why);
        let requested = Duration::from(slice);
        match set_slice(own, requested).map_err(|why| refused(why.to_string()))? {
            Some(got) if got == requested => {}
            Some(got) => {
                let got = Span::from(got);
                return Err(refused(format!("the kernel gives {got}; it has slices from 100 us to 100 ms")));
            }
            None => return Err(refused("this kernel ignores it; it takes Linux 6.12".to_owned())),
        }
    }
    Ok(())
}

fn refusal(request: &str, why: &str) -> String {
    format!("`{request}` is refused here: {why}")
}

/// Checks on a temporary thread whether the kernel grants the attributes. Fails as [`apply`] does.
pub(crate) fn check(attributes: &Attributes) -> Result<(), String> {
    start(attributes, || ())
}

/// Calls `start` on a thread with these attributes and returns its value. The threads and processes
/// that `start` creates inherit the attributes. If there is nothing to request, calls `start`
/// directly. Fails as [`apply`] does.
pub(crate) fn start<T: Send>(attributes: &Attributes, start: impl FnOnce() -> T + Send) -> Result<T, String> {
    if *attributes == Attributes::default() {
        return Ok(start());
    }
    thread::scope(|scope| {
        let body = move || apply(attributes).map(|()| start());
        let refused = |why: io::Error| format!("no thread can be started to apply its attributes: {why}");
        let thread = thread::Builder::new().name("start".into()).spawn_scoped(scope, body).map_err(refused)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use sys::scheduling::{attributes, nice};

    use super::*;

    fn own() -> (i32, Vec<u32>, Option<Duration>) {
        let own = Thread::current();
        (nice(own).unwrap(), affinity(own).unwrap(), attributes(own).unwrap().slice)
    }

    #[test]
    fn a_started_thread_inherits_the_scheduling_and_the_starter_keeps_its_own() {
        let (before, mut cpus, kernel) = own();
        cpus.truncate(1);
        // Zero would request nothing.
        let worse = (before + 3).clamp(1, 19) as i8;
        // A kernel that does not report slices also ignores them.
        let slice = kernel.map(|_| Span::from_millis(5));
        let requested = Attributes { nice: worse, cpus: Some(cpu_set(&cpus)), slice };
        let started = start(&requested, || thread::spawn(own).join().unwrap()).unwrap();
        assert_eq!(started, (worse.into(), cpus, slice.map(|_| Duration::from_millis(5))));
        assert_eq!(own().0, before);
        assert_eq!(own().2, kernel);
    }

    #[test]
    fn a_refusal_says_what_the_machine_has() {
        let of = |cpus, slice| check(&Attributes { nice: 0, cpus, slice }).unwrap_err();
        let refused = of(Some(cpu_set(&[1000, 1001])), None);
        assert!(refused.starts_with("`cpus = \"1000-1001\"` is refused here: "), "{refused}");
        assert!(refused.contains("here are CPUs "), "{refused}");
        let refused = of(None, Some(Span::from_nanos(5)));
        assert!(refused.starts_with("`slice = \"5 ns\"` is refused here: ") && refused.contains("kernel"), "{refused}");
    }
}
