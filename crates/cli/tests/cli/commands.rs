//! The commands that the suites of harm run, and the folder that they start in: `faults`,
//! `environments`, `kills` and `planted`. A command in this table is in all four.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use testing::Child;

use crate::groups;
use crate::sort::place::records;

/// A command as a user types it, in a [`Place`].
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its words after `rowlock`. `ROWLOCK` is this rowlock, `./program` executes its arguments.
    pub(crate) line: &'static str,
    /// Whether the bytes that it writes depend on its arguments only.
    pub(crate) is_function: bool,
    /// Whether it takes most of the time that all of them take.
    pub(crate) is_long: bool,
}

/// A command whose output depends on its arguments only.
const fn function(line: &'static str) -> Subject {
    Subject { line, is_function: true, is_long: false }
}

/// A command that measures.
const fn measurement(line: &'static str) -> Subject {
    Subject { line, is_function: false, is_long: false }
}

/// A command that takes long.
const fn long(subject: Subject) -> Subject {
    Subject { is_long: true, ..subject }
}

/// All commands. A test compares them with `rowlock --help`.
pub(crate) const COMMANDS: [Subject; 29] = [
    function("sort in out --record 20 --key 0:4 --memory 256KiB --verify"),
    function("sort in out --record 20 --algorithm columnsort --memory 2MiB"),
    function("sort in - --record 20 --memory 256KiB --quiet"),
    function("check crew.toml"),
    function("export crew.toml --to ftrace --out out"),
    function("import tasks.json --out out"),
    function("regress runs.csv --on y --from x"),
    function("policies"),
    long(function("paper list")),
    function("run crew.toml --out results --trace trace"),
    long(measurement("run here.toml --world host --out results --trace trace")),
    long(measurement("paper barrier/fig4 --scheduler linux-o1 --repeat 1 --out results")),
    long(measurement("paper fg/table3 --size 200kB --memory 16MiB --repeat 1 --out results")),
    measurement("paper threads/table2 --fibers 10 --repeat 1 --out results"),
    long(measurement("calibrate --fresh")),
    measurement("doctor"),
    measurement("exec -- ./program true"),
    measurement("exec --report --json out -- ./program ROWLOCK sort in sorted --record 20"),
    measurement("exec --compare --runs 1 --hogs 1 --beside ./program -- ./program true"),
    measurement("pipeline verdict --json out -- ./program ROWLOCK sort in sorted --record 20"),
    long(measurement(
        "pipeline explore --runs 2 --only buffers --prepare ./program -- ./program ROWLOCK sort in sorted --record 20",
    )),
    function("paper ap/example"),
    measurement("prun -n 2 --label -- ./program true"),
    measurement("jobs"),
    measurement("kill 1"),
    measurement("hold 1"),
    measurement("resume 1"),
    measurement("set 1 --weight 2"),
    measurement("attach 1"),
];

/// The commands for a job of `rowlock prun`, which runs beside them.
const FOR_JOBS: [&str; 5] = ["jobs", "kill", "hold", "resume", "set"];

/// A service, which does not end by itself; `prun_pds` has its tests.
const SERVICE: &str = "pds";

/// Whether each error says what could not be done, and not only why, in the words of the system.
pub(crate) fn errors_are_explained(stderr: &str) -> bool {
    let mut errors = stderr.lines().filter_map(|line| line.strip_prefix("error: ")?.split_once(" (os error "));
    errors.all(|(error, _)| error.contains(": "))
}

/// How long the end of a job may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The files that the commands may write in their folder.
const OUTPUTS: [&str; 4] = ["out", "sorted", "trace", "results"];

impl Subject {
    /// The files and folders that it may write, apart from temporary ones.
    pub(crate) fn outputs(&self) -> Vec<&'static str> {
        self.line.split(' ').filter(|word| OUTPUTS.contains(word)).collect()
    }
}

/// A scenario with two arms in a simulated machine.
pub(crate) const CREW: &str = r#"title = "A crew"

[machine]
cpus = 2
scheduler = "rr"

[[job]]
name = "crew"
kind = "barrier"
threads = 3
compute = { mean = "50 us", sd = "5 us" }
rounds = 20
waiting = "cs"

[experiment]
repeat = 2
compare = "job.crew.waiting"
sweep = { "job.crew.waiting" = ["always-block", "2cs+"] }
"#;

/// A scenario for this machine, with each kind of process.
const HERE: &str = r#"title = "A crew here"
machine.like = "host"
job = [
    { name = "crew", kind = "barrier", threads = 2, compute = "20 us", rounds = 20, waiting = "cs" },
    { name = "command", kind = "command", argv = ["./program", "true"] },
    { name = "hog", kind = "cpu" },
]
experiment.repeat = 2
"#;

/// How long the commands take.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The number of records that they sort.
    pub(crate) records: u32,
    /// The number of rounds that a crew computes.
    pub(crate) rounds: u32,
    /// Shell commands that `./program` executes first.
    pub(crate) before: String,
}

/// A folder with all files that the commands read, a folder for temporary files, and one for the
/// table of jobs.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    temporary: TempDir,
    table: TempDir,
    /// Where the output of detached jobs is.
    state: TempDir,
    /// The job that a command is for.
    job: RefCell<Option<Child>>,
}

impl Place {
    /// With little work.
    pub(crate) fn new() -> Place {
        Place::with(&Work { records: 6_000, rounds: 5, before: String::new() })
    }

    pub(crate) fn with(work: &Work) -> Place {
        let [folder, temporary, table, state] = [(); 4].map(|()| tempfile::tempdir().unwrap());
        let place = Place { folder, temporary, table, state, job: RefCell::default() };
        let rounds = |scenario: &str| scenario.replace("rounds = 20", &format!("rounds = {}", work.rounds));
        let tasks = r#"{ "tasks": { "crew": { "instance": 2, "loop": 5, "run": 50, "sleep": 50 } } }"#;
        let program = format!("#!/bin/sh\n{}\nexec \"$@\"\n", work.before);
        place.write("in", records(work.records, 3));
        place.write("out", "as it was");
        place.write("crew.toml", rounds(CREW));
        place.write("here.toml", rounds(HERE));
        place.write("tasks.json", tasks);
        place.write("runs.csv", "x,y\n1,2\n2,3\n3,5\n4,4\n5,7\n");
        place.write("program", program);
        fs::set_permissions(place.path("program"), Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// Lets every user write in all folders.
    pub(crate) fn share(&self) {
        for folder in [self.folder(), self.temporary(), self.table.path()] {
            fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder().join(name)
    }

    /// The command of a line of the table, or of one like it.
    pub(crate) fn command(&self, line: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_rowlock");
        let words = line.split(' ').map(|word| if word == "ROWLOCK" { program } else { word });
        let mut command = crate::rowlock(&words.collect::<Vec<_>>());
        command.current_dir(self.folder()).env("TMPDIR", self.temporary()).env_remove("XDG_RUNTIME_DIR");
        command.env("ROWLOCK_TABLE", self.table.path());
        if FOR_JOBS.iter().any(|name| line.split(' ').next() == Some(name)) {
            self.job.borrow_mut().get_or_insert_with(|| self.start_job());
        }
        if line.starts_with("attach ") {
            self.run_detached_job();
        }
        command.env("XDG_STATE_HOME", self.state.path());
        if line.contains("--fresh") {
            command.env("XDG_CACHE_HOME", self.path("cache"));
        }
        command
    }

    /// Runs a detached job to its end. It is number 1, unless there is one already.
    fn run_detached_job(&self) {
        let mut command = crate::rowlock(&["prun", "--wait", "none", "--detach", "--", "echo", "here"]);
        command.env("ROWLOCK_TABLE", self.table.path()).env("TMPDIR", self.table.path()).env_remove("XDG_RUNTIME_DIR");
        testing::run(command.env("XDG_STATE_HOME", self.state.path())).expect_success();
        while !names(self.table.path()).is_empty() {
            sleep(Duration::from_millis(1));
        }
    }

    /// Starts job 1. Waits until it is in the table. What it leaves is beside the table.
    fn start_job(&self) -> Child {
        let mut command = crate::rowlock(&["prun", "--wait", "none", "--", "sleep", "1000"]);
        command.env("ROWLOCK_TABLE", self.table.path()).env("TMPDIR", self.table.path()).env_remove("XDG_RUNTIME_DIR");
        let job = Child::start(&mut command);
        let is_entered = || {
            let tables = names(self.table.path()).into_iter().map(|name| names(&self.table.path().join(name)));
            tables.flatten().any(|name| name == "processes-1")
        };
        while !is_entered() {
            sleep(Duration::from_millis(1));
        }
        job
    }

    /// Ends the job, if there is one. Its keeper and the process that removes the table go on.
    fn end_job(&self) {
        if let Some(job) = self.job.take() {
            job.send(Signal::KILL.as_raw());
            job.wait();
        }
    }

    /// All files in the folder and below it, with their contents.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.folder()).unwrap().to_owned();
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
        found
    }
}

impl Place {
    /// Everything that a command has left and should not have, apart from processes and files in
    /// the folder for temporary ones. Its process had this id. The job that it was for is ended.
    pub(crate) fn left(&self, subject: &Subject, process: u32) -> Vec<String> {
        self.end_job();
        let inputs = ["in", "out", "crew.toml", "here.toml", "tasks.json", "runs.csv", "program"];
        let outputs = subject.outputs().into_iter().chain(["cache", "core"]);
        let known: Vec<&str> = inputs.into_iter().chain(outputs).collect();
        let files = names(self.folder()).into_iter().filter(|name| !known.contains(&name.as_str()));
        let shared = names(Path::new("/dev/shm")).into_iter().filter(|name| name.starts_with("rowlock-book"));
        let files = files.chain(drafts(self.folder())).chain(names(self.table.path()));
        files.chain(shared).chain(groups::of(process)).collect()
    }

    /// Lets the next command of the same kind remove temporary files that have names.
    pub(crate) fn remove_abandoned(&self, subject: &Subject) {
        if !self.temporary_files().is_empty() {
            testing::run(&mut self.command(subject.line));
        }
    }

    /// The processes that have started a program now, by its record.
    pub(crate) fn starters(&self) -> Vec<u32> {
        let starter = |name: String| name.strip_prefix(".rowlock-record-")?.split('-').next()?.parse().ok();
        self.temporary_files().into_iter().filter_map(starter).collect()
    }

    /// The names of the files in the folder for temporary ones.
    pub(crate) fn temporary_files(&self) -> Vec<String> {
        names(self.temporary())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end_job();
        // The process that would remove them is not killed.
        let started = Instant::now();
        while !names(self.table.path()).is_empty() && started.elapsed() < LIMIT {
            sleep(Duration::from_millis(1));
        }
    }
}

/// The names in a folder, which need not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The temporary names in a folder and below.
fn drafts(folder: &Path) -> Vec<String> {
    let of = |name: String| {
        let path = folder.join(&name);
        let below = if path.is_dir() { drafts(&path) } else { Vec::new() };
        below.into_iter().chain((name.starts_with('.') || name.contains(".new")).then_some(name))
    };
    names(folder).into_iter().flat_map(of).collect()
}

/// The lines of the table that begin with these words.
fn lines(words: &str) -> usize {
    COMMANDS.iter().filter(|subject| format!("{} ", subject.line).starts_with(&format!("{words} "))).count()
}

/// The subcommands of these words, according to their help.
fn subcommands(words: &str) -> Vec<String> {
    let arguments: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).chain(["--help"]).collect();
    let help = testing::run(&mut crate::rowlock(&arguments)).expect_success().stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(|name| format!("{words} {name}").trim().to_owned()).collect()
}

#[test]
fn every_subcommand_is_in_the_table() {
    let mut next = subcommands("");
    assert!(next.len() > 10, "{next:?}");
    while let Some(words) = next.pop() {
        assert!(lines(&words) > 0 || words == SERVICE, "rowlock {words}");
        next.extend(subcommands(&words));
    }
    for paper in &papers::PAPERS {
        let (study, _) = paper.name.split_once('/').unwrap();
        assert!(COMMANDS.iter().any(|subject| subject.line.starts_with(&format!("paper {study}/"))), "{study}");
    }
}

#[test]
fn every_command_succeeds_in_its_place() {
    for subject in &COMMANDS {
        let place = Place::new();
        testing::run(&mut place.command(subject.line)).expect_success();
        assert!(subject.outputs().into_iter().all(|name| place.path(name).exists()), "{}", subject.line);
    }
}
