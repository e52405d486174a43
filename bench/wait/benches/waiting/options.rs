//! The command line.

use std::path::PathBuf;

/// Ways to wait at a barrier or for a lock, on this machine: a table of all cells, and how near each arm comes to the best.
///
/// Runs are interleaved, since the machine changes from minute to minute: within a cell all arms run once in random order,
/// then once more, and so on. Leave the machine alone meanwhile.
#[derive(clap::Parser)]
#[command(name = "waiting")]
pub(crate) struct Options {
    /// Which cells: all, alone (without hogs), hogs (with some), or a list of THREADS:HOGS:GRAIN as in 2:0:0.5us,4:2:50us;
    /// for locks of THREADS:HOGS:INSIDE/OUTSIDE as in 4:1:100ns/400ns, where one thread with 0ns/0ns times the lock itself.
    #[arg(long, default_value = "all")]
    pub(crate) cells: String,
    /// Which arms, as in "pthread,rule:2cs+,rule:44 us"; rule:RULE is our own under any waiting rule. What is listed
    /// twice gives the noise. By default all that are known.
    #[arg(long)]
    pub(crate) arms: Option<String>,
    /// How often every arm runs in every cell: at least 2, for one half to choose the best and the other to score.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reps: u32,
    /// How long a run takes.
    #[arg(long, default_value_t = 0.25, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Orders the arms and draws the intervals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Adds the raw runs to this file, as comma-separated values.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Locks instead of barriers.
    #[arg(long)]
    pub(crate) locks: bool,
    /// Hands what the machine costs, measured once, to all runs of our rules. By default each process measures for itself,
    /// in a few milliseconds before its time begins, as programs do.
    #[arg(long)]
    pub(crate) same_costs: bool,
    /// Runs nothing, and scores the raw runs in this file; several add up.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) score: Vec<PathBuf>,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|why| why.to_string())?;
    if (0.001..=60.0).contains(&seconds) { Ok(seconds) } else { Err("a run takes 0.001 to 60 seconds".to_owned()) }
}
