//! The scheduling of a job's threads: their nice value, CPUs and slice.
//!
//! Threads inherit all three from the thread that creates them, and also through `fork` and `exec`.
//! So a thread with the requested scheduling creates the job's threads. The threads that
//! communicate with the run keep the default.

use std::thread;
use std::time::Duration;

use policy::Span;
use serde::{Deserialize, Serialize};
use sys::scheduling::{Thread, affinity, set_affinity, set_nice, set_slice};

use crate::machine::cpu_set;

/// A request to the kernel. Fields are `None` if nothing is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scheduling {
    nice: Option<i8>,
    cpus: Option<Vec<u32>>,
    slice: Option<Span>,
}

/// A request that the kernel refused, as a scenario writes it, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) request: String,
    pub(crate) reason: String,
}

impl Scheduling {
    /// The scheduling in a job's attributes. A nice value of zero keeps the value of this process.
    pub(crate) fn of(attributes: &scenario::Attributes) -> Scheduling {
        Scheduling {
            nice: Some(attributes.nice).filter(|nice| *nice != 0),
            cpus: attributes.cpus.as_ref().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect()),
            slice: attributes.slice,
        }
    }

    /// Applies the scheduling to the calling thread. Threads and processes that it starts inherit
    /// it.
    pub(crate) fn apply(&self) -> Result<(), Refusal> {
        let own = Thread::current();
        if let Some(nice) = self.nice {
            let refused = |why: String| Refusal { request: format!("nice = {nice}"), reason: why };
            let got = set_nice(own, nice.into()).map_err(|why| refused(why.to_string()))?;
            if got != i32::from(nice) {
                return Err(refused(format!("the kernel gives {got}")));
            }
        }
        if let Some(cpus) = &self.cpus {
            set_affinity(own, cpus).map_err(|why| {
                let here = affinity(own).map_or(String::new(), |here| format!("; here are CPUs {}", cpu_set(&here)));
                Refusal { request: format!("cpus = \"{}\"", cpu_set(cpus)), reason: format!("{why}{here}") }
            })?;
        }
        if let Some(slice) = self.slice {
            let refused = |why: String| Refusal { request: format!("slice = \"{slice}\""), reason: why };
            let requested = Duration::from_nanos(slice.as_nanos());
            match set_slice(own, requested).map_err(|why| refused(why.to_string()))? {
                Some(got) if got == requested => {}
                Some(got) => {
                    let got = crate::units::span(got);
                    return Err(refused(format!("the kernel gives {got}; it has slices from 100 us to 100 ms")));
                }
                None => return Err(refused("this kernel ignores it; it takes Linux 6.12".to_owned())),
            }
        }
        Ok(())
    }

    /// Checks on a temporary thread whether the kernel grants the scheduling.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.start(|| ())
    }

    /// Calls `start` on a thread with this scheduling and returns its value. The threads and
    /// processes that `start` creates inherit the scheduling. If there is nothing to request, calls
    /// `start` directly.
    pub(crate) fn start<T: Send>(&self, start: impl FnOnce() -> T + Send) -> Result<T, Refusal> {
        if *self == Scheduling::default() {
            return Ok(start());
        }
        thread::scope(|scope| {
            let body = move || self.apply().map(|()| start());
            let refused = |why: std::io::Error| Refusal { request: "a thread".to_owned(), reason: why.to_string() };
            let thread = thread::Builder::new().name("start".into()).spawn_scoped(scope, body).map_err(refused)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::scheduling::{attributes, nice};

    fn own() -> (i32, Vec<u32>, Option<Duration>) {
        let own = Thread::current();
        (nice(own).unwrap(), affinity(own).unwrap(), attributes(own).unwrap().slice)
    }

    #[test]
    fn a_started_thread_inherits_the_scheduling_and_the_starter_keeps_its_own() {
        let (before, mut cpus, kernel) = own();
        cpus.truncate(1);
        let worse = (before + 3).min(19) as i8;
        // A kernel that does not report slices also ignores them.
        let slice = kernel.map(|_| Span::from_millis(5));
        let scheduling = Scheduling { nice: Some(worse), cpus: Some(cpus.clone()), slice };
        let started = scheduling.start(|| thread::spawn(own).join().unwrap()).unwrap();
        assert_eq!(started, (worse.into(), cpus, slice.map(|_| Duration::from_millis(5))));
        assert_eq!(own().0, before);
        assert_eq!(own().2, kernel);
    }

    #[test]
    fn a_refusal_says_what_the_machine_has() {
        let of = |cpus, slice| Scheduling { nice: None, cpus, slice }.check().unwrap_err();
        let refused = of(Some(vec![1000, 1001]), None);
        assert_eq!(refused.request, "cpus = \"1000-1001\"");
        assert!(refused.reason.contains("here are CPUs "), "{refused:?}");
        let refused = of(None, Some(Span::from_nanos(5)));
        assert!(refused.request == "slice = \"5 ns\"" && refused.reason.contains("kernel"), "{refused:?}");
    }
}
