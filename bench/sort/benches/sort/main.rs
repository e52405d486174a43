//! Compares sorts of files that are larger than memory: `cargo bench -p rowlock-bench-sort --bench
//! sort [-- OPTIONS]`, `-- --help` for the options.
//!
//! Each run is a process that sorts the same file in a control group with the same memory limit,
//! which includes the page cache. The page cache is dropped before. The time ends when all data is
//! on the disk. All arms run once in random order, and this is repeated. Ratios are calculated
//! within a repetition. The output of the first run of each arm is checked.
//!
//! The output goes into docs/results/sorting.md.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod arms;
mod control_group;
mod floor;
#[path = "../../../wait/benches/waiting/machine.rs"]
mod machine;
#[path = "../../../pipeline/benches/pipelines/ratio.rs"]
mod ratio;
#[path = "../../../../crates/sort/examples/records/records.rs"]
mod records;
mod report;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use measure::disturbance::Monitor;
use measure::interleaving;
use rustix::fs::{Advice, fadvise, syncfs};
use sys::files::{self, Folder, create_new, write_control};
use sys::process::{RequestsToEnd, descendants_usage, end_with_this_thread};
use sys::traffic::Traffic;

use crate::arms::{Arm, Task};
use crate::control_group::ControlGroup;
use crate::records::{Check, Kind, SIZE};
use crate::report::{Asked, Goal, Row, Run};

/// The memory of the control group beyond the limit that the programs get as an argument.
const SLACK: u64 = 32 << 20;

/// The name of the sorted file.
const OUTPUT: &str = "sorted";

/// Compares the sorts of this project with others.
///
/// Runs are interleaved, because the machine changes from minute to minute. The machine should be
/// idle otherwise. Takes four times the size on the disk.
#[derive(Debug, Parser)]
#[command(name = "sort")]
struct Options {
    /// The size of the input in records of 100 bytes with keys of 10, as in 4.295GB or 4GiB; 0 for
    /// none
    #[arg(long, default_value = "4GiB", value_parser = size)]
    size: u64,
    /// The number of short lines to sort, numbers and words; 0 for none
    #[arg(long, default_value_t = 100_000_000)]
    lines: u64,
    /// The memory limit
    #[arg(long, default_value = "512MiB", value_parser = size)]
    memory: u64,
    /// Only these arms, as in floor,merge
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// The number of repetitions
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The folder of the files, whose device is measured. The input stays there for the next time
    #[arg(long, default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/sort"))]
    dir: PathBuf,
    /// The seed of the order and of the records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Skips the checks of the output, for more runs in the same time
    #[arg(long)]
    unchecked: bool,
    /// Runs nothing, but prints the tables of all runs in a file that --out has created
    #[arg(long, value_name = "FILE.csv", conflicts_with = "out")]
    score: Option<PathBuf>,
    /// Appends the raw results to this file, as comma-separated values
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// Parses a number of bytes.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 7] = [
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("", 1.0),
    ];
    let found =
        UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim().parse::<f64>().ok()?, bytes)));
    match found {
        Some((number, bytes)) if number >= 0.0 => Ok((number * bytes) as u64),
        _ => Err("a size is a number and kB, MB, GB, KiB, MiB or GiB".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, hidden, input, temporary, output] = words.as_slice()
        && hidden == arms::FLOOR
    {
        return floor::run(Path::new(input), Path::new(temporary), Path::new(output));
    }
    if let [_, hidden, words @ ..] = words.as_slice()
        && hidden == arms::SORT
    {
        return arms::sort(words);
    }
    let options = Options::parse();
    if let Some(path) = &options.score {
        return score(path);
    }
    let priority = machine::Priority::raise();
    println!(
        "{}; {} UTC; {} runs, seed {}; {}.\n",
        machine::describe(),
        now(),
        options.runs,
        options.seed,
        if priority.is_raised() {
            "this session has a higher weight than others"
        } else {
            "this session has the same weight as others"
        },
    );
    if let Err(why) = ControlGroup::new(options.memory + SLACK) {
        println!("No control group: nothing limits the memory of the programs: {why}.\n");
    }
    let count = options.size.div_ceil(SIZE as u64);
    let cells = [
        (Kind::Fixed, count, format!("{count} records of {SIZE} bytes")),
        (Kind::Lines, options.lines, format!("{} short lines", options.lines)),
    ];
    for (kind, count, name) in cells.into_iter().filter(|&(_, count, _)| count > 0) {
        println!("## {name} in {:.0} MiB\n", options.memory as f64 / f64::from(1 << 20));
        measure(kind, count, &options)?;
    }
    Ok(())
}

/// Runs all arms with the same records, interleaved, and prints the results.
fn measure(kind: Kind, count: u64, options: &Options) -> anyhow::Result<()> {
    let mut arms = Vec::new();
    for arm in Arm::all(kind) {
        if options.arms.is_empty() || options.arms.contains(&arm) {
            match arm.prepare() {
                Ok(()) => arms.push(arm),
                Err(why) => {
                    println!("Left out: {arm}: {why}. On Debian, .ci/setup-sort installs it.\n");
                }
            }
        }
    }
    let input = input(kind, count, options)?;
    let length = fs::metadata(&input)?.len();
    let folder = tempfile::tempdir_in(&options.dir)?;
    let output = folder.path().join(OUTPUT);
    let task = Task { kind, input: &input, output: &output, folder: folder.path(), memory: options.memory };
    let mut rows: Vec<Row> = arms.iter().map(|&arm| Row { arm, runs: Vec::new() }).collect();
    let unsorted = if options.unchecked { None } else { Some(check(kind, &input)?) };
    let (mut checked, mut failed) = (Vec::new(), Vec::new());
    let monitor = Monitor::start();
    for (repetition, place) in interleaving::rounds(arms.len(), 0..options.runs, options.seed) {
        let arm = arms[place];
        if failed.contains(&arm) {
            continue;
        }
        let run = match run(arm, &task).with_context(|| arm.to_string()) {
            // A failure of a peer with so little memory is a result too.
            Err(why) if arm.is_peer() => {
                println!("Failed: {why:#}\n");
                failed.push(arm);
                continue;
            }
            run => run?,
        };
        if let Some(path) = &options.out {
            write(path, kind, arm, repetition, length, &run)?;
        }
        if let Some(unsorted) = unsorted
            && repetition == 0
            && arm != Arm::Floor
        {
            judge(arm, check(kind, &output)?, unsorted)?;
            checked.push(arm.to_string());
        }
        rows[place].runs.push(run);
        Folder::open(folder.path())?.remove(OUTPUT)?;
    }
    report_rows(kind, &rows, length);
    if let Some(disturbance) = monitor.finish(Duration::ZERO) {
        println!("* {disturbance}");
    }
    println!("* checked, the order and a sum of all records: {}\n", checked.join(", "));
    Ok(())
}

/// Prints the table, and whether the goals are met.
fn report_rows(kind: Kind, rows: &[Row], length: u64) {
    println!("{}", report::table(rows, length));
    for goal in goals(kind) {
        if let Some(judgement) = goal.judge(rows) {
            println!("* {judgement}");
        }
    }
}

/// Prints the tables of earlier runs. The first runs of all arms are one repetition, the second
/// ones another.
fn score(path: &Path) -> anyhow::Result<()> {
    let mut cells: Vec<(Kind, u64, Vec<Row>)> = Vec::new();
    for line in csv::Reader::from_path(path)?.deserialize() {
        let Line { kind, arm, bytes, seconds, cpu_seconds, peak_memory, bytes_read, bytes_written, .. } = line?;
        let (kind, arm): (Kind, Arm) =
            (kind.parse().map_err(anyhow::Error::msg)?, arm.parse().map_err(anyhow::Error::msg)?);
        let run = Run { seconds, cpu: cpu_seconds, peak: peak_memory, read: bytes_read, written: bytes_written };
        let place = cells.iter().position(|cell| (cell.0, cell.1) == (kind, bytes)).unwrap_or(cells.len());
        if place == cells.len() {
            let rows = Arm::all(kind).into_iter().map(|arm| Row { arm, runs: Vec::new() });
            cells.push((kind, bytes, rows.collect()));
        }
        if let Some(row) = cells[place].2.iter_mut().find(|row| row.arm == arm) {
            row.runs.push(run);
        }
    }
    for (kind, bytes, rows) in cells {
        let runs = rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
        println!("## {kind}, {bytes} bytes, {runs} runs\n");
        report_rows(kind, &rows, bytes);
        println!();
    }
    Ok(())
}

/// Checks that the output of an arm has all records in order.
fn judge(arm: Arm, sorted: Check, unsorted: Check) -> anyhow::Result<()> {
    let is_whole = (sorted.count, sorted.sum) == (unsorted.count, unsorted.sum);
    ensure!(is_whole && sorted.disordered == 0, "{arm} has not sorted: {sorted:?} of {unsorted:?}");
    ensure!(sorted.unstable == 0 || !arm.is_stable(), "{arm} has reordered equal records: {sorted:?}");
    Ok(())
}

/// The goals.
fn goals(kind: Kind) -> Vec<Goal> {
    let goal = |arm, to, asked| Goal { arm, to, asked };
    match kind {
        Kind::Fixed => vec![
            goal(Arm::Merge, Arm::Floor, Asked::AtMost(2.0)),
            goal(Arm::Stxxl, Arm::Merge, Asked::AtLeast(2.5)),
            goal(Arm::StxxlInPlace, Arm::Merge, Asked::AtLeast(2.5)),
            goal(Arm::Gnu, Arm::Merge, Asked::AtLeast(3.0)),
            goal(Arm::Columnsort, Arm::Merge, Asked::AtMost(2.0)),
        ],
        Kind::Lines => vec![goal(Arm::Gnu, Arm::Merge, Asked::AtLeast(2.0))],
    }
}

/// The input file: an earlier one, or a new one.
fn input(kind: Kind, count: u64, options: &Options) -> anyhow::Result<PathBuf> {
    Folder::create(&options.dir)?;
    let path = options.dir.join(format!("{kind}-{count}-{}", options.seed));
    if !path.exists() {
        // It gets its name when it is complete.
        let mut file = tempfile::NamedTempFile::new_in(&options.dir)?;
        let mut writer = BufWriter::with_capacity(1 << 20, file.as_file_mut());
        kind.generate(count, options.seed, &mut writer)?;
        writer.flush()?;
        drop(writer);
        file.as_file().sync_all()?;
        file.persist(&path)?;
    }
    Ok(path)
}

fn check(kind: Kind, path: &Path) -> anyhow::Result<Check> {
    Ok(Check::read(kind, BufReader::with_capacity(1 << 20, File::open(path)?))?)
}

/// Runs an arm in a control group, without cached files.
fn run(arm: Arm, task: &Task<'_>) -> anyhow::Result<Run> {
    let disk = File::open(task.folder)?;
    if arm.is_in_place() {
        io::copy(&mut File::open(task.input)?, &mut create_new(task.output)?)?;
    }
    syncfs(&disk)?;
    forget(task.input)?;
    let control_group = ControlGroup::new(task.memory + SLACK).ok();
    let mut command: Command = arm.command(task, control_group.as_ref())?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    let (usage, traffic) = (descendants_usage(), Traffic::own().unwrap_or_default());
    let start = Instant::now();
    let output = command.output()?;
    syncfs(&disk)?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", output.status, said.trim().lines().next_back().unwrap_or("no message"));
    }
    let traffic = Traffic::own().unwrap_or_default().since(traffic);
    Ok(Run {
        seconds,
        cpu: descendants_usage().since(usage).cpu.as_secs_f64(),
        peak: control_group.and_then(|control_group| control_group.peak()),
        read: traffic.read,
        written: traffic.written,
    })
}

/// Drops the page cache, or only that of this file if the former is not permitted.
fn forget(input: &Path) -> anyhow::Result<()> {
    if write_control(Path::new("/proc/sys/vm/drop_caches"), "1").is_err() {
        fadvise(File::open(input)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// A run, as a line of a file.
#[derive(serde::Serialize, serde::Deserialize)]
struct Line {
    kind: String,
    arm: String,
    repetition: u32,
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
    peak_memory: Option<u64>,
    bytes_read: u64,
    bytes_written: u64,
    /// Seconds since 1970.
    time: u64,
}

fn write(path: &Path, kind: Kind, arm: Arm, repetition: u32, bytes: u64, run: &Run) -> anyhow::Result<()> {
    let file = files::append(path)?;
    let is_new = file.metadata()?.len() == 0;
    let mut writer = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
    writer.serialize(Line {
        kind: kind.to_string(),
        arm: arm.to_string(),
        repetition,
        bytes,
        seconds: run.seconds,
        cpu_seconds: run.cpu,
        peak_memory: run.peak,
        bytes_read: run.read,
        bytes_written: run.written,
        time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
    })?;
    Ok(writer.flush()?)
}

/// The date and the time of day.
fn now() -> String {
    let date = Command::new("date").args(["--utc", "+%Y-%m-%d %H:%M"]).output();
    date.map_or_else(|_| "some day".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
