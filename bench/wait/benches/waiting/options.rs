//! The command line.

use std::path::PathBuf;

/// Compares implementations of waiting at a barrier or for a lock: a table of all cells, and how
/// close each arm is to the best.
///
/// Runs are interleaved, because the machine changes from minute to minute: within a cell, all arms
/// run once in random order, and this is repeated. The machine should be idle otherwise.
#[derive(clap::Parser)]
#[command(name = "waiting")]
pub(crate) struct Options {
    /// The cells: all, alone (without hogs), hogs (with hogs), or a list of THREADS:HOGS:GRAIN as
    /// in 2:0:0.5us,4:2:50us; for locks of THREADS:HOGS:INSIDE/OUTSIDE as in 4:1:100ns/400ns, where
    /// one thread with 0ns/0ns measures the lock itself.
    #[arg(long, default_value = "all")]
    pub(crate) cells: String,
    /// The arms, as in "pthread,rule:2cs+,rule:44 us"; rule:RULE is rowlock's with any waiting
    /// rule. Arms that are listed twice show the noise. All by default.
    #[arg(long)]
    pub(crate) arms: Option<String>,
    /// The number of repetitions, at least 2: one half chooses the best and the other is scored.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reps: u32,
    /// The duration of a run.
    #[arg(long, default_value_t = 0.25, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// The seed of the order and of the intervals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Appends the raw results to this file, as comma-separated values.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Locks instead of barriers.
    #[arg(long)]
    pub(crate) locks: bool,
    /// Measures the costs of the machine once for all runs. By default each process measures them
    /// itself in a few milliseconds before its time starts, as programs do.
    #[arg(long)]
    pub(crate) same_costs: bool,
    /// Runs nothing, but scores the raw results in this file; may be repeated.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) score: Vec<PathBuf>,
    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|why| why.to_string())?;
    if (0.001..=60.0).contains(&seconds) { Ok(seconds) } else { Err("a run takes 0.001 to 60 seconds".to_owned()) }
}
