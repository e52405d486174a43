//! How the threads of a job are scheduled, as the scenario asks for it: their nice value, CPUs and slice.
//!
//! All three are inherited: by threads from the one that makes them, and through `fork` and `exec`. So whoever is to be scheduled
//! so is made by a thread that is; the threads that speak with the run stay as they are.

use std::thread;
use std::time::Duration;

use policy::Span;
use serde::{Deserialize, Serialize};
use sys::scheduling::{Thread, affinity, set_affinity, set_nice, set_slice};

/// What is asked of the kernel; nothing where there is nothing to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scheduling {
    nice: Option<i8>,
    cpus: Option<Vec<u32>>,
    slice: Option<Span>,
}

/// What the kernel did not grant, as a scenario writes it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) request: String,
    pub(crate) reason: String,
}

impl Scheduling {
    /// That of a job's threads. A nice value of zero leaves them that of this process.
    pub(crate) fn of(attributes: &scenario::Attributes) -> Scheduling {
        Scheduling {
            nice: Some(attributes.nice).filter(|nice| *nice != 0),
            cpus: attributes.cpus.as_ref().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect()),
            slice: attributes.slice,
        }
    }

    /// Schedules the calling thread so, and all that it will start.
    pub(crate) fn take_effect(&self) -> Result<(), Refusal> {
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
                let set = |cpus: &[u32]| cpus.iter().map(|&cpu| policy::CpuId(cpu)).collect::<policy::CpuSet>();
                let here = affinity(own).map_or(String::new(), |here| format!("; here are CPUs {}", set(&here)));
                Refusal { request: format!("cpus = \"{}\"", set(cpus)), reason: format!("{why}{here}") }
            })?;
        }
        if let Some(slice) = self.slice {
            let refused = |why: String| Refusal { request: format!("slice = \"{slice}\""), reason: why };
            let requested = Duration::from_nanos(slice.as_nanos());
            match set_slice(own, requested).map_err(|why| refused(why.to_string()))? {
                Some(got) if got == requested => {}
                Some(got) => {
                    let got = Span::from_nanos(got.as_nanos().try_into().unwrap_or(u64::MAX));
                    return Err(refused(format!("the kernel gives {got}; it has slices from 100 us to 100 ms")));
                }
                None => return Err(refused("this kernel ignores it; it takes Linux 6.12".to_owned())),
            }
        }
        Ok(())
    }

    /// Whether it would be granted, by trying it on a thread that is made for that.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.start(|| ())
    }

    /// Calls `start` on a thread that is scheduled so, if there is anything to ask for, and returns when it has returned: what it
    /// starts inherits it all.
    pub(crate) fn start<T: Send>(&self, start: impl FnOnce() -> T + Send) -> Result<T, Refusal> {
        if *self == Scheduling::default() {
            return Ok(start());
        }
        thread::scope(|scope| {
            let body = move || self.take_effect().map(|()| start());
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
    fn what_is_started_inherits_what_was_asked_for_and_who_starts_it_keeps_what_it_had() {
        let (before, mut cpus, kernel) = own();
        cpus.truncate(1);
        let worse = (before + 3).min(19) as i8;
        // A kernel that does not tell slices ignores them, too.
        let slice = kernel.map(|_| Span::from_millis(5));
        let scheduling = Scheduling { nice: Some(worse), cpus: Some(cpus.clone()), slice };
        let started = scheduling.start(|| thread::spawn(own).join().unwrap()).unwrap();
        assert_eq!(started, (worse.into(), cpus, slice.map(|_| Duration::from_millis(5))));
        assert_eq!(own().0, before);
        assert_eq!(own().2, kernel);
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused_with_what_it_has() {
        let of = |cpus, slice| Scheduling { nice: None, cpus, slice }.check().unwrap_err();
        let refused = of(Some(vec![1000, 1001]), None);
        assert_eq!(refused.request, "cpus = \"1000-1001\"");
        assert!(refused.reason.contains("here are CPUs "), "{refused:?}");
        let refused = of(None, Some(Span::from_nanos(5)));
        assert!(refused.request == "slice = \"5 ns\"" && refused.reason.contains("kernel"), "{refused:?}");
    }
}
