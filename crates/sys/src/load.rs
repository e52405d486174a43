//! The load of the machine: its threads and the CPU time that they have used.
//!
//! In containers other programs write these texts, so that no sum of their numbers needs to fit.

use std::time::Duration;

/// The threads of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Those that run or are ready.
    pub runnable: u32,
    /// All.
    pub all: u32,
}

impl ThreadCounts {
    /// Parses the fourth field of `/proc/loadavg`. It does not allocate.
    pub fn parse(text: &[u8]) -> Option<ThreadCounts> {
        let field = std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(3)?;
        let (runnable, all) = field.split_once('/')?;
        Some(ThreadCounts { runnable: runnable.parse().ok()?, all: all.parse().ok()? })
    }
}

/// The time that a CPU has spent since the boot, or all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// In programs, the kernel and interrupts.
    pub busy: Duration,
    /// Without a thread. A CPU that waits for a disk is idle, too.
    pub idle: Duration,
    /// In other virtual machines.
    pub stolen: Duration,
}

impl CpuTime {
    /// The unit of its times on all kernels, as seen by programs.
    pub const TICK: Duration = Duration::from_millis(10);

    /// The time of all CPUs of this machine together. `None` if the kernel does not tell.
    pub fn of_machine() -> Option<CpuTime> {
        CpuTime::parse(&std::fs::read_to_string("/proc/stat").ok()?, "cpu")
    }

    /// Parses the line of `/proc/stat` about a CPU, such as `cpu0`, or about all of them, `cpu`.
    pub fn parse(text: &str, cpu: &str) -> Option<CpuTime> {
        let line = text.lines().find_map(|line| line.strip_prefix(cpu)?.strip_prefix(' '))?;
        // Then come the times of guests, which those of the user include.
        let fields: Vec<u64> =
            line.split_ascii_whitespace().take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let &[user, nice, system, idle, iowait, irq, softirq, stolen] = fields.as_slice() else { return None };
        let time = |ticks: &[u64]| {
            let ticks = ticks.iter().fold(0, |sum: u64, &ticks| sum.saturating_add(ticks));
            Duration::from_secs(ticks / 100) + Duration::from_millis(ticks % 100 * 10)
        };
        Some(CpuTime {
            busy: time(&[user, nice, system, irq, softirq]),
            idle: time(&[idle, iowait]),
            stolen: time(&[stolen]),
        })
    }

    /// The time that was stolen from a CPU with work or without, in percent. Returns `None` if no
    /// time has passed.
    pub fn stolen_percent(self) -> Option<f64> {
        let all = self.busy.saturating_add(self.idle).saturating_add(self.stolen);
        (!all.is_zero()).then(|| self.stolen.as_millis() as f64 / all.as_millis() as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_field_counts_runnable_threads_and_all() {
        let counts = ThreadCounts { runnable: 17, all: 801 };
        assert_eq!(ThreadCounts::parse(b"0.20 0.18 0.12 17/801 11206\n"), Some(counts));
        for other in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 17 801", "0.20 0.18 0.12 x/801 1", "\u{fffd}"] {
            assert_eq!(ThreadCounts::parse(other.as_bytes()), None, "{other}");
        }
    }

    const STAT: &str =
        "cpu  1 20 300 4000 50000 600000 7000000 8 9 10\ncpu1 1 1 1 7 0 0 0 0\ncpu10 5 0 5 8 1 0 0 1 0\n";

    #[test]
    fn the_time_of_a_cpu_is_busy_idle_or_stolen() {
        let millis = Duration::from_millis;
        let times = |cpu: &str| CpuTime::parse(STAT, cpu).map(|CpuTime { busy, idle, stolen }| [busy, idle, stolen]);
        assert_eq!(times("cpu"), Some([millis(76_003_210), millis(540_000), millis(80)]));
        assert_eq!(times("cpu1"), Some([millis(30), millis(70), millis(0)]));
        assert_eq!(times("cpu10"), Some([millis(100), millis(90), millis(10)]));
        assert_eq!(times("cpu2"), None);
        for text in ["", "cpu  1 2 3\n", "cpu  a b c d e f g h"] {
            assert_eq!(CpuTime::parse(text, "cpu"), None, "{text}");
        }
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let percent = |text: &str| CpuTime::parse(text, "cpu").unwrap().stolen_percent();
        assert_eq!(percent("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1\n"), Some(10.0));
        assert_eq!(percent("cpu  0 0 0 0 0 0 0 0"), None);
    }

    #[test]
    fn times_that_do_not_fit_are_the_longest() {
        let text = format!("cpu {}", "18446744073709551615 ".repeat(8));
        let time = CpuTime::parse(&text, "cpu").unwrap();
        assert_eq!(time.busy, time.stolen);
        assert!(time.stolen_percent().is_some_and(|share| (0.0..=100.0).contains(&share)));
    }
}
