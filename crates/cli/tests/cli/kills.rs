//! Any signal at any moment: no process, temporary file, shared memory or control group that a
//! command has created stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testing::family::Family;
use testing::{Child, Output};

/// The signals to draw from: KILL, TERM, INT, HUP and QUIT.
const SIGNALS: [i32; 5] = [9, 15, 2, 1, 3];

/// How long a machine under load may take to end everything. On a quiet one it is two seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// A program with daemons that ignore requests to end, which it obeys itself: some shells lose a
/// SIGINT without a trap. It runs for this many seconds.
fn hostile(seconds: &str) -> String {
    let daemons = "(trap '' TERM INT HUP QUIT; setsid sh -c 'sleep 1000; true' & setsid sleep 1000 &)";
    format!("trap 'exit 1' TERM INT HUP QUIT; {daemons}; sleep {seconds} & wait")
}

/// A command to kill.
struct Killed {
    /// Its arguments. `{hostile}` is a hostile program that ends soon, `{endless}` one that does
    /// not, and `{rowlock}` this rowlock.
    arguments: &'static [&'static str],
    /// What it may leave in its folder, besides what is there before.
    results: &'static [&'static str],
    /// Whether files in the folder for temporary ones may stay until the next such command.
    has_named_files: bool,
}

const fn killed(arguments: &'static [&'static str], results: &'static [&'static str]) -> Killed {
    Killed { arguments, results, has_named_files: false }
}

const COMMANDS: &[Killed] = &[
    killed(&["exec", "--report", "sh", "-c", "{endless}"], &[]),
    killed(&["exec", "--json", "report.json", "--", "sh", "-c", "{endless}"], &["report.json"]),
    killed(
        &["exec", "--compare", "--runs", "3", "--hogs", "1", "--beside", "{hostile}", "--", "sh", "-c", "{hostile}"],
        &[],
    ),
    killed(&["pipeline", "verdict", "--", "sh", "-c", "{endless}"], &[]),
    killed(
        &["pipeline", "verdict", "--json", "verdict.json", "--", "{rowlock}", "sort", "in", "out", "--record", "20"],
        &["out", "verdict.json"],
    ),
    killed(&["pipeline", "explore", "--prepare", "{hostile}", "--", "./program"], &[]),
    killed(&["run", "command.toml", "--out", "results"], &["results"]),
    killed(&["run", "threads.toml", "--out", "results", "--trace", "trace"], &["results", "trace"]),
    killed(&["run", "threads.toml", "--world", "sim", "--out", "results"], &["results"]),
    killed(&["paper", "barrier/fig4", "--repeat", "1", "--out", "results"], &["results"]),
    Killed {
        arguments: &[
            "paper",
            "fg/table3",
            "--size",
            "200kB",
            "--memory",
            "16MiB",
            "--repeat",
            "1",
            "--evict",
            "files",
            "--out",
            "results",
        ],
        results: &["results"],
        has_named_files: true,
    },
    killed(&["paper", "threads/table2", "--fibers", "50", "--repeat", "2", "--out", "results"], &["results"]),
    killed(&["sort", "in", "out", "--record", "20", "--memory", "512KiB"], &["out"]),
    killed(&["calibrate", "--fresh"], &[]),
    killed(&["doctor"], &[]),
    killed(&["export", "threads.toml", "--to", "rt-app", "--out", "exported.json"], &["exported.json"]),
];

/// The folder of a command, with what the commands read and the folder of their temporary files.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let hostile = hostile("0.1");
        let machine = "machine = { like = \"host\" }\nexperiment = { repeat = 3, worlds = [\"host\"] }\n";
        let crew = "{ name = \"crew\", kind = \"barrier\", threads = 2, compute = \"20 us\", rounds = 2000, waiting = \"cs\" }";
        let hog = "{ name = \"hog\", kind = \"cpu\", threads = 1 }";
        let command = format!("{{ name = \"command\", kind = \"command\", argv = [\"sh\", \"-c\", \"{hostile}\"] }}");
        fs::create_dir(place.path("tmp")).unwrap();
        fs::write(place.path("command.toml"), format!("job = [{command}, {hog}]\n{machine}")).unwrap();
        fs::write(place.path("threads.toml"), format!("job = [{crew}, {hog}]\n{machine}")).unwrap();
        fs::write(place.path("in"), crate::sort::place::records(60_000, 7)).unwrap();
        fs::write(place.path("program"), format!("#!/bin/sh\n{hostile}\n")).unwrap();
        fs::set_permissions(place.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let meant = |argument: &&str| match *argument {
            "{hostile}" => hostile("0.05"),
            "{endless}" => hostile("1000"),
            "{rowlock}" => env!("CARGO_BIN_EXE_rowlock").to_owned(),
            other => other.to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(meant).collect();
        let mut command = crate::rowlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.current_dir(self.0.path()).env("TMPDIR", self.path("tmp"));
        if arguments.iter().any(|argument| argument == "--fresh") {
            command.env("XDG_CACHE_HOME", self.path("cache"));
        }
        command
    }
}

/// The names in a folder that are not among these.
fn names(folder: &Path, known: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !known.contains(&name.as_str())).collect()
}

/// The temporary names in a folder and below.
fn drafts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = if entry.path().is_dir() { drafts(&entry.path()) } else { Vec::new() };
            below.into_iter().chain((name.starts_with('.') || name.contains(".new")).then_some(name))
        })
        .collect()
}

/// The control groups that a process created to throttle a disk.
fn groups(process: u32) -> Vec<String> {
    crate::paper_fg::groups_of(process, Path::new("/sys/fs/cgroup"))
}

/// Everything that a command has left and should not have.
fn left(place: &Place, family: &Family, results: &[&str], process: u32) -> Vec<String> {
    let before = ["tmp", "cache", "command.toml", "threads.toml", "in", "program", "core"];
    let processes = family.members().into_iter().map(testing::processes::describe_tree);
    let files = names(place.0.path(), &[&before[..], results].concat());
    let shared = names(Path::new("/dev/shm"), &[]).into_iter().filter(|name| name.starts_with("rowlock-book"));
    processes.chain(files).chain(drafts(place.0.path())).chain(shared).chain(groups(process)).collect()
}

/// Draws numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// From 0.1 ms to a second. Short times are as likely as long ones.
    fn moment(&mut self) -> Duration {
        Duration::from_micros((100 << self.below(13)) + self.below(100))
    }
}

/// Starts a command, sends it a signal at a moment, and expects that nothing stays.
fn kill(number: usize, draws: &mut Draws) {
    let Killed { arguments, results, has_named_files } = &COMMANDS[number];
    let (place, signal, moment) = (Place::new(), SIGNALS[draws.below(5) as usize], draws.moment());
    let family = Family::new(&format!("killed-{number}-{}", draws.below(1 << 30)));
    let mut command = place.command(arguments);
    family.adopt(&mut command);
    let child = Child::start(&mut command);
    std::thread::sleep(moment);
    let process = child.id();
    child.send(signal);
    let output: Output = child.with_limit(2 * LIMIT).wait();
    let what = format!("signal {signal} after {moment:?}");
    assert!(!output.stderr.contains("panicked"), "{what}: {output}");
    let ended = Instant::now();
    let stays = || left(&place, &family, results, process);
    while !stays().is_empty() && ended.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stays(), [""; 0], "{what} {output}");
    if *has_named_files && !names(&place.path("tmp"), &[]).is_empty() {
        testing::run(&mut place.command(arguments)).expect_success();
    }
    assert_eq!(names(&place.path("tmp"), &[]), [""; 0], "{what} {output}");
}

fn kill_each(times: u64, seed: u64) {
    let mut draws = Draws(seed);
    for _ in 0..times {
        (0..COMMANDS.len()).for_each(|number| kill(number, &mut draws));
    }
}

#[test]
fn nothing_stays_of_a_command_that_a_signal_ends_at_any_moment() {
    kill_each(5, 1);
}

#[test]
#[ignore = "takes a while; ./check --full runs it, and ./soak with other seeds"]
fn nothing_stays_of_many_killed_commands() {
    testing::for_each_seed(10, |seed| kill_each(1, seed));
}
