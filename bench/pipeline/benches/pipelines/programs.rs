//! Compares the examples with the usual tools: compression with pigz, word counts with wc,
//! checksums with sha256sum.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use measure::interleaving;
use sys::files::{Folder, create_new};
use sys::process::{RequestsToEnd, descendants_usage, end_with_this_thread};
use walkdir::WalkDir;

use crate::Options;
use crate::ratio::{Ratio, median};

/// The size of the file to compress, and the total size of the files for checksums.
const LENGTH: f64 = 200e6;

/// The number of small files.
const FILES: f64 = 10_000.0;

/// How often the memory of a program is read.
const LOOK: Duration = Duration::from_millis(5);

/// Programs that do the same. The last one is the reference.
struct Contest {
    name: String,
    /// The name and the command line of each.
    programs: Vec<(&'static str, Vec<String>)>,
    /// The file that all of them create, whose size is reported.
    makes: Option<PathBuf>,
}

/// A run of a program.
struct Run {
    seconds: f64,
    cpu: f64,
    /// The peak memory, in MB. For a pipeline of programs, that of the shell.
    memory: f64,
    /// The size of the file that it created, in bytes.
    size: u64,
}

/// Measures the selected programs and prints the results.
pub(crate) fn measure(options: &Options, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    const NAMES: [&str; 3] = ["compress", "words", "checksums"];
    if !NAMES.into_iter().any(&wanted) {
        return Ok(());
    }
    let examples = options.examples.clone().map_or_else(build, Ok)?;
    // Peers may be missing, but these must exist.
    for example in ["compress", "word-count", "checksum"] {
        ensure!(examples.join(example).is_file(), "{} has no example {example}", examples.display());
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let inputs = Inputs::make(folder.path(), options.share)?;
    println!(
        "## programs\n\n{:.0} MB of source text in one file and in four, and {} files of it, {:.0} MB\n",
        inputs.length as f64 / 1e6,
        inputs.count,
        inputs.small as f64 / 1e6
    );
    println!(
        "| | program | seconds | minimum to maximum | CPU seconds | peak memory | size | times the last one |\n|---|---|---|---|---|---|---|---|"
    );
    for contest in contests(options, &examples, &inputs).iter().filter(|contest| wanted(&contest.name)) {
        hold(contest, options)?;
    }
    println!("\n* compress, goal: at most 1 at equal level, with bounded memory\n");
    Ok(())
}

/// All comparisons.
fn contests(options: &Options, examples: &Path, inputs: &Inputs) -> Vec<Contest> {
    let example = |name: &str, arguments: &[&str]| -> Vec<String> {
        let program = examples.join(name).display().to_string();
        std::iter::once(program.as_str()).chain(arguments.iter().copied()).map(str::to_owned).collect()
    };
    let shell = |script: &str, folder: &str| ["sh", "-c", script, "sh", folder].map(str::to_owned).to_vec();
    let one = inputs.one.display().to_string();
    let (four, many) = (inputs.four.display().to_string(), inputs.many.display().to_string());
    let mut contests = Vec::new();
    for level in &options.levels {
        let pigz = ["pigz", "--keep", "--force", &format!("-{level}"), &one].map(str::to_owned).to_vec();
        contests.push(Contest {
            name: format!("compress, level {level}"),
            programs: vec![
                ("rowlock", example("compress", &["--force", &format!("--level={level}"), &one])),
                ("pigz", pigz),
            ],
            makes: Some(inputs.one.with_extension("gz")),
        });
    }
    let mut contest = |name: &str, programs| contests.push(Contest { name: name.to_owned(), programs, makes: None });
    let wc = "find \"$1\" -type f -print0 | LC_ALL=C wc -w --files0-from=-";
    contest(
        "words, small files",
        vec![("rowlock", example("word-count", &["--each", &many])), ("find, wc -w", shell(wc, &many))],
    );
    for (name, folder) in [("checksums, small files", &many), ("checksums, large files", &four)] {
        let alone = "find \"$1\" -type f -print0 | xargs -0 sha256sum";
        let parallel = "find \"$1\" -type f -print0 | xargs -0 -n $(( $(find \"$1\" -type f | wc -l) / 20 + 1 )) -P \"$(nproc)\" sha256sum";
        contest(
            name,
            vec![
                ("rowlock", example("checksum", &[folder])),
                ("find, xargs -P", shell(parallel, folder)),
                ("find, sha256sum", shell(alone, folder)),
            ],
        );
    }
    contests
}

/// Runs the programs, interleaved, and prints a row for each.
fn hold(contest: &Contest, options: &Options) -> anyhow::Result<()> {
    let mut runs: Vec<Vec<Run>> = contest.programs.iter().map(|_| Vec::new()).collect();
    // The first repetition fills the cache and does not count.
    for (repetition, place) in interleaving::rounds(runs.len(), 0..options.runs + 1, options.seed) {
        let (name, words) = &contest.programs[place];
        let run = match run(words, contest.makes.as_deref()) {
            Err(why) if repetition == 0 => {
                println!("\nLeft out: {}, since {name} cannot be run: {why:#}\n", contest.name);
                return Ok(());
            }
            run => run.with_context(|| words.join(" "))?,
        };
        if repetition > 0 {
            runs[place].push(run);
        }
    }
    let times = |place: usize| runs[place].iter().map(|run| run.seconds).collect::<Vec<_>>();
    for (place, (name, _)) in contest.programs.iter().enumerate() {
        let of = |value: fn(&Run) -> f64| runs[place].iter().map(value).collect::<Vec<_>>();
        let size = match contest.makes {
            Some(_) => format!("{:.2} MB", median(&of(|run| run.size as f64)) / 1e6),
            None => "-".to_owned(),
        };
        println!(
            "| {} | {name} | {:.3} | {:.3} to {:.3} | {:.2} | {:.1} MB | {size} | {} |",
            contest.name,
            median(&times(place)),
            times(place).into_iter().fold(f64::INFINITY, f64::min),
            times(place).into_iter().fold(0.0, f64::max),
            median(&of(|run| run.cpu)),
            of(|run| run.memory).into_iter().fold(0.0, f64::max),
            Ratio::of(&times(place), &times(runs.len() - 1)).map_or("-".to_owned(), |ratio| ratio.to_string()),
        );
    }
    Ok(())
}

/// Builds the optimized examples. Returns their folder.
fn build() -> anyhow::Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "--examples"]);
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/pipeline/Cargo.toml"));
    // They are in the folder of this program's build.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(3).context("this program is not in a build folder")?;
    let status = command.arg("--target-dir").arg(target).status()?;
    ensure!(status.success(), "the examples cannot be built: {status}");
    Ok(target.join("release/examples"))
}

/// The input of the programs: the text of this workspace, repeated. No program remembers text for
/// that long.
struct Inputs {
    one: PathBuf,
    four: PathBuf,
    many: PathBuf,
    /// The size of a large file, in bytes.
    length: usize,
    /// The number of small files, and their total size.
    count: usize,
    small: usize,
}

impl Inputs {
    fn make(folder: &Path, share: f64) -> anyhow::Result<Inputs> {
        let mut texts = Vec::new();
        for entry in WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates")).sort_by_file_name() {
            let path = entry?.into_path();
            if path.extension().is_some_and(|ending| ending == "rs" || ending == "md" || ending == "toml") {
                texts.push(fs::read(path)?);
            }
        }
        let all = texts.concat();
        let [one, four, many] = ["one", "four", "many"].map(|name| folder.join(name));
        let length = (LENGTH * share) as usize;
        write(&one, &all, length)?;
        Folder::create(&four)?;
        for number in 0..4 {
            write(&four.join(number.to_string()), &all, length / 4)?;
        }
        let (count, mut small) = ((FILES * share).max(1.0) as usize, 0);
        for (number, text) in (0..count).zip(texts.iter().cycle()) {
            let folder = many.join((number / 500).to_string());
            Folder::create(&folder)?;
            create_new(&folder.join(number.to_string()))?.write_all(text)?;
            small += text.len();
        }
        rustix::fs::sync();
        Ok(Inputs { one, four, many, length, count, small })
    }
}

/// Writes a file of this size.
fn write(path: &Path, text: &[u8], length: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::new(create_new(path)?);
    let mut rest = length;
    while rest > 0 {
        let part = rest.min(text.len());
        file.write_all(&text[..part])?;
        rest -= part;
    }
    Ok(file.flush()?)
}

/// Runs a program until it ends.
fn run(words: &[String], makes: Option<&Path>) -> anyhow::Result<Run> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    let before = descendants_usage();
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut memory: f64 = 0.0;
    let done = AtomicBool::new(false);
    let (status, seconds) = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                memory = memory.max(peak_memory(&status_file).unwrap_or(0.0));
                thread::sleep(LOOK);
            }
        });
        let status = child.wait();
        let seconds = start.elapsed().as_secs_f64();
        done.store(true, Relaxed);
        (status, seconds)
    });
    let status = status?;
    ensure!(status.success(), "{status}");
    let cpu = descendants_usage().since(before).cpu.as_secs_f64();
    let size = makes.map(fs::metadata).transpose()?.map_or(0, |made| made.len());
    Ok(Run { seconds, cpu, memory, size })
}

/// The peak memory of a process so far, in MB.
fn peak_memory(status: &str) -> Option<f64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0 / 1e6)
}
