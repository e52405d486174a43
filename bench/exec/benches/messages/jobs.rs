//! Jobs of ranks that run at the same time, by several commands.

use std::process::Command;
use std::time::Duration;

use rowlock_bench_exec::{Window, number_of, start};

use crate::{Arguments, RANK, print};

/// A way to start jobs: its name, and options of `rowlock prun`. The first one is without turns.
pub(crate) type Arm = (&'static str, &'static [&'static str]);

const NONE: Arm = ("none", &["--how", "none"]);
/// In turns, or not.
pub(crate) const TURNS: [Arm; 4] = [
    NONE,
    ("prun", &[]),
    ("page", &["--how", "strict", "--mechanism", "hint"]),
    ("page 50", &["--how", "strict", "--mechanism", "hint", "--slice", "50 ms"]),
];
/// Lowered out of turn, or stopped.
pub(crate) const LOWERED: [Arm; 4] =
    [NONE, ("prun", &[]), ("moderate", &["--how", "moderate"]), ("strict", &["--how", "strict"])];

pub(crate) struct Jobs<'a> {
    pub(crate) rowlock: &'a str,
    pub(crate) arguments: &'a Arguments,
    /// [`speed`](crate::rank::speed).
    pub(crate) speed: &'a str,
}

impl Jobs<'_> {
    /// Measures the work that jobs of a kind do together, in units of one alone.
    pub(crate) fn measure(&self, kind: &str, arms: &[Arm]) -> anyhow::Result<()> {
        let jobs = &self.arguments.jobs;
        let mut found = vec![vec![Vec::new(); jobs.len()]; arms.len()];
        for _ in 0..self.arguments.repetitions {
            for (place, &jobs) in jobs.iter().enumerate() {
                let alone = self.work(kind, NONE, 1)?;
                for (&arm, found) in arms.iter().zip(&mut found) {
                    found[place].push(self.work(kind, arm, jobs)? / alone);
                }
            }
        }
        for ((name, _), found) in arms.iter().zip(&found) {
            for (&jobs, found) in jobs.iter().zip(found) {
                print(kind, jobs, name, found.clone());
            }
        }
        for ((name, _), others) in arms.iter().zip(&found).skip(1) {
            for (place, &jobs) in jobs.iter().enumerate() {
                let of = others[place].iter().zip(&found[0][place]).map(|(work, none)| work / none).collect();
                print(&format!("{kind}, of none"), jobs, name, of);
            }
        }
        Ok(())
    }

    /// The rounds of all jobs in a window.
    fn work(&self, kind: &str, (_, options): Arm, jobs: usize) -> anyhow::Result<f64> {
        let window = Window::of(self.arguments.seconds);
        let program = std::env::current_exe()?;
        let start = |_| {
            let mut command = Command::new(self.rowlock);
            command.arg("prun").args(options).args(["-n", "2", "--"]).arg(&program).args([RANK, kind, self.speed]);
            window.add_to(&mut command);
            start(&mut command)
        };
        let jobs = (0..jobs).map(start).collect::<Result<Vec<_>, _>>()?;
        let rounds = jobs.into_iter().map(number_of).sum();
        // The next run begins on an idle machine.
        std::thread::sleep(Duration::from_millis(50));
        rounds
    }
}
