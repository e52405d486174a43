//! The cost of turns: starting and ending a job, switching, and what other programs notice.
//!
//! `cargo bench -p rowlock-bench-exec --bench turns` takes about twenty minutes. The machine should
//! be idle otherwise. Each round has every case once, so that they alternate.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use rowlock_bench_exec::{Window, build_rowlock, compile, number_of, quantile, start};
use serde_json::Value;

#[derive(Debug, Parser)]
struct Arguments {
    /// The mechanisms to measure, and `moderate` for jobs that are lowered
    #[arg(long, value_delimiter = ',', default_value = "freeze,freezer,signals,moderate")]
    mechanisms: Vec<String>,
    /// The numbers of jobs
    #[arg(long, value_delimiter = ',', default_value = "1,2,8")]
    jobs: Vec<usize>,
    /// The length of a turn
    #[arg(long, default_value = "50 ms")]
    slice: String,
    /// How often each case is run
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// The window, in seconds
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The rowlock command to measure, instead of building it
    #[arg(long)]
    rowlock: Option<String>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The figures of all rounds by what they say.
#[derive(Default)]
struct Figures(BTreeMap<String, Vec<f64>>);

impl Figures {
    fn add(&mut self, name: impl Into<String>, figure: f64) {
        self.0.entry(name.into()).or_default().push(figure);
    }

    fn print(self) {
        println!("{:54} {:>9}  interval", "figure", "median");
        for (name, mut found) in self.0 {
            found.sort_by(f64::total_cmp);
            let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
            println!("{name:54} {median:>9.3}  [{low:.3}, {high:.3}]");
        }
    }
}

struct Programs {
    rowlock: String,
    team: PathBuf,
    bystander: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    let folder = tempfile::tempdir()?;
    let team = compile("coscheduling/team.c", folder.path())?;
    let programs = Programs { rowlock, team, bystander: compile("turns/bystander.c", folder.path())? };
    let mut figures = Figures::default();
    for _ in 0..arguments.repetitions {
        programs.measure_starts(&mut figures)?;
        for &jobs in &arguments.jobs {
            programs.measure_bystanders("plain", &[], jobs, &arguments, &mut figures)?;
            for mechanism in &arguments.mechanisms {
                let option = if mechanism == "moderate" { "--how" } else { "--mechanism" };
                let words = ["prun", "--wait", "none", "--slice", &arguments.slice, option, mechanism, "--"];
                programs.measure_bystanders(mechanism, &words, jobs, &arguments, &mut figures)?;
            }
        }
    }
    figures.print();
    Ok(())
}

impl Programs {
    /// The time of four processes that do nothing, with and without turns.
    fn measure_starts(&self, figures: &mut Figures) -> anyhow::Result<()> {
        let time = |command: &mut Command| {
            let begin = Instant::now();
            let status = command.stdin(Stdio::null()).status()?;
            ensure!(status.success(), "a program has failed: {status}");
            anyhow::Ok(begin.elapsed().as_secs_f64() * 1e3)
        };
        let plain = time(Command::new("sh").args(["-c", "true & true & true & true & wait"]))?;
        figures.add("start and end, 4 processes of a shell, ms", plain);
        for (name, words) in [("", &[][..]), (" --wait none", &["--wait", "none"])] {
            let job = time(Command::new(&self.rowlock).args(["prun", "-n", "4"]).args(words).args(["--", "true"]))?;
            figures.add(format!("start and end, prun -n 4{name}, ms more"), job - plain);
        }
        Ok(())
    }

    /// Another program beside jobs that spin, the cost of their agents, and their switches.
    fn measure_bystanders(
        &self,
        arm: &str,
        words: &[&str],
        jobs: usize,
        arguments: &Arguments,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        for kind in ["compute", "sleep"] {
            let window = Window::of(arguments.seconds);
            let mut command = match words {
                [] => Command::new(&self.team),
                words => {
                    let mut command = Command::new(&self.rowlock);
                    command.args(words).arg(&self.team);
                    command
                }
            };
            command.args(["spin", "20000"]);
            window.add_to(&mut command);
            let started = (0..jobs).map(|_| start(&mut command)).collect::<Result<Vec<_>, _>>()?;
            let mut beside = Command::new(&self.bystander);
            window.add_to(beside.arg(kind));
            let beside = start(&mut beside)?;
            window.sleep_until(0.0);
            let agents = || started.iter().map(|job| cpu_time(job.id())).sum::<anyhow::Result<f64>>();
            let before = agents()?;
            window.sleep_until(0.9);
            let spent = (agents()? - before) / (0.9 * window.seconds()) / jobs as f64;
            let switches = if words.is_empty() { Value::Null } else { self.switches()? };
            let found = number_of(beside)?;
            started.into_iter().try_for_each(|job| number_of(job).map(drop))?;
            let case = format!("{jobs} jobs, {arm}");
            match kind {
                "compute" => figures.add(format!("{case}: share of a busy program"), found / window.seconds() / 1e9),
                _ => figures.add(format!("{case}: lateness of a sleeper, p99, ms"), found / 1e6),
            }
            if !words.is_empty() {
                figures.add(format!("{case}: CPU of an agent beside {kind}, %"), spent * 100.0);
            }
            for (name, value) in switches.as_object().into_iter().flatten() {
                let value = value.as_f64().context("a figure of a switch is no number")?;
                let name = name.trim_end_matches("_ns").replace('_', " ");
                figures.add(format!("{case}: switch beside {kind}, {name}, us"), value / 1e3);
            }
            // The next run begins on an idle machine.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn switches(&self) -> anyhow::Result<Value> {
        let output = Command::new(&self.rowlock).args(["jobs", "--format", "json"]).output()?;
        ensure!(output.status.success(), "`rowlock jobs` has failed: {}", output.status);
        Ok(serde_json::from_slice::<Value>(&output.stdout)?["switches"].take())
    }
}

/// The CPU time of the threads of a process, in seconds.
fn cpu_time(process: u32) -> anyhow::Result<f64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))?;
    let spent = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(spent.sum::<f64>() / 1e9)
}
