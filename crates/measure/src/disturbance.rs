//! Disturbance: how much other programs used the machine during a run.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sys::load::CpuTime;
use sys::process::{descendants_usage, own_usage};

/// How much other programs disturbed a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The CPU time of other programs, in percent of that of all CPUs that this process may use.
    /// Known to a few ticks of 10 ms. Can exceed 100 if other programs may use more CPUs.
    pub others_percent: f64,
}

impl Disturbance {
    fn new(busy: Duration, own: Duration, elapsed: Duration, cpus: u32) -> Disturbance {
        let others = busy.saturating_sub(own).as_secs_f64();
        let all = elapsed.as_secs_f64() * f64::from(cpus);
        Disturbance { others_percent: if all > 0.0 { 100.0 * others / all } else { 0.0 } }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "other programs took {:.1} % of the machine", self.others_percent)
    }
}

/// Measures the disturbance from its start to its end.
#[derive(Clone, Copy, Debug)]
pub struct Monitor {
    started: Instant,
    busy: Option<Duration>,
    own: Duration,
}

impl Monitor {
    /// Starts to measure.
    pub fn start() -> Monitor {
        Monitor { started: Instant::now(), busy: busy_time(), own: own_time() }
    }

    /// The disturbance since the start, without the time of this process, of its descendants that
    /// have ended, and `load`, that of the other descendants. `None` if the kernel does not report
    /// the CPU time of all programs.
    pub fn finish(self, load: Duration) -> Option<Disturbance> {
        let busy = busy_time()?.saturating_sub(self.busy?);
        let own = own_time().saturating_sub(self.own) + load;
        Some(Disturbance::new(busy, own, self.started.elapsed(), sys::cpus::usable()))
    }
}

fn own_time() -> Duration {
    own_usage().cpu + descendants_usage().cpu
}

/// The CPU time that all programs have used since the boot.
fn busy_time() -> Option<Duration> {
    CpuTime::of_machine().map(|time| time.busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disturbance_is_the_share_that_is_neither_ours_nor_idle() {
        let seconds = Duration::from_secs;
        assert_eq!(Disturbance::new(seconds(8), seconds(3), seconds(5), 2).others_percent, 50.0);
        assert_eq!(Disturbance::new(seconds(2), seconds(3), seconds(5), 2).others_percent, 0.0);
        assert_eq!(Disturbance::new(seconds(2), seconds(0), seconds(0), 2).others_percent, 0.0);
        assert_eq!(Disturbance { others_percent: 12.34 }.to_string(), "other programs took 12.3 % of the machine");
    }
}
