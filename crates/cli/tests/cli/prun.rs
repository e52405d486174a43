//! `rowlock prun` and the commands for its jobs.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use sys::cgroups::Hierarchy;
use tempfile::TempDir;
pub(crate) use testing::processes::{is_stopped, state};
use testing::{Child, processes};

use crate::json;

/// A table of jobs that no other test uses.
pub(crate) struct Table(TempDir);

impl Table {
    pub(crate) fn new() -> Table {
        Table(tempfile::tempdir().unwrap())
    }

    pub(crate) fn place(&self) -> &Path {
        self.0.path()
    }

    /// `rowlock` with these arguments and this table.
    pub(crate) fn rowlock(&self, arguments: &[&str]) -> Command {
        let mut command = crate::rowlock(arguments);
        command.env("ROWLOCK_TABLE", self.place()).current_dir(self.place());
        command.env("XDG_STATE_HOME", self.place().join("state"));
        command
    }

    /// Starts a job of these ranks, which run a shell script. Waits until it is in the table.
    pub(crate) fn start(&self, options: &[&str], script: &str) -> Child {
        let before = self.jobs().len();
        let arguments = [&["prun", "--wait", "none"], options, &["--", "sh", "-c", script]].concat();
        let child = Child::start(&mut self.rowlock(&arguments));
        until(|| self.jobs().len() > before);
        child
    }

    /// All jobs.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let output = testing::run(&mut self.rowlock(&["jobs", "--format", "json"])).expect_success();
        json(&output)["jobs"].as_array().unwrap().clone()
    }

    /// Nothing is left of the table, nor of the records of keepers that some tests keep beside it.
    #[track_caller]
    pub(crate) fn expect_gone(&self) {
        let folders = || std::fs::read_dir(self.place()).unwrap().map(|entry| entry.unwrap().path());
        let left = || folders().find(|path| path.to_string_lossy().contains("rowlock-"));
        let deadline = std::time::Instant::now() + testing::child::limit();
        while let Some(path) = left() {
            let files = || std::fs::read_dir(&path).into_iter().flatten().flatten().map(|file| file.file_name());
            let is_over = std::time::Instant::now() >= deadline;
            assert!(!is_over, "{} stays: {:?}", path.display(), files().collect::<Vec<_>>());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    fn run(&self, arguments: &[&str]) -> testing::Output {
        testing::run(&mut self.rowlock(&[&["prun", "--wait", "none"], arguments].concat()))
    }
}

/// Waits until a condition holds. The runner limits the time of each test.
#[track_caller]
pub(crate) fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A CPU that this process may use.
pub(crate) fn cpu() -> &'static str {
    static CPU: LazyLock<String> = LazyLock::new(|| sys::cpus::allowed().unwrap()[0].to_string());
    &CPU
}

/// A loop that never ends by itself.
pub(crate) const SPIN: &str = "while :; do :; done";

/// The ranks of the job of an agent: the children of its keepers, but not its PMIx server.
pub(crate) fn ranks(agent: u32) -> Vec<u32> {
    let children = processes::children(agent).into_iter().flat_map(processes::children);
    children.filter(|process| !is_pmix_server(*process)).collect()
}

fn is_pmix_server(process: u32) -> bool {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words.split(|&byte| byte == 0).nth(1) == Some(b"__pmix")
}

/// The state of a process, such as `T`. `None` if it has ended.
/// The mechanisms that stop jobs here.
pub(crate) fn mechanisms() -> &'static [&'static str] {
    static WORKING: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let works = |mechanism: &&str| {
            let output = Table::new().run(&["--mechanism", mechanism, "--", "true"]);
            assert!(output.status.success() || output.stderr.contains("jobs cannot be stopped by the mechanism"));
            output.status.success()
        };
        ["signals", "freezer", "freeze"].into_iter().filter(works).collect()
    });
    &WORKING
}

/// Whether a process is stopped, or will be when it next has a CPU. Beside the ranks of another job,
/// that can be in a later turn. `None` if there is no such process.
pub(crate) fn is_to_stop(process: u32) -> Option<bool> {
    Some(processes::has_pending_stop(process) || is_in_frozen_group(process) || is_stopped(process)?)
}

/// Whether a process is in a control group that is frozen or being frozen, or below one.
fn is_in_frozen_group(process: u32) -> bool {
    let read = |path: &str| std::fs::read(path).unwrap_or_default();
    let hierarchies = Hierarchy::parse(&read("/proc/self/mountinfo"), &read(&format!("/proc/{process}/cgroup")));
    let has = |folder: &Path, file: &str, states: &[&str]| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|state| states.contains(&state.trim_end()))
    };
    hierarchies
        .iter()
        .flat_map(Hierarchy::folders)
        .any(|folder| has(folder, "freezer.state", &["FREEZING", "FROZEN"]) || has(folder, "cgroup.freeze", &["1"]))
}

/// Whether all ranks of an agent are stopped.
pub(crate) fn are_stopped(agent: u32) -> bool {
    are_all(agent, true)
}

/// Whether no rank of an agent is stopped.
pub(crate) fn are_running(agent: u32) -> bool {
    are_all(agent, false)
}

fn are_all(agent: u32, stopped: bool) -> bool {
    let ranks = ranks(agent);
    !ranks.is_empty() && ranks.iter().all(|&rank| is_to_stop(rank) == Some(stopped))
}

#[test]
fn ranks_know_their_number_and_how_many_they_are() {
    let table = Table::new();
    let script = "echo $ROWLOCK_JOB/$ROWLOCK_RANK/$ROWLOCK_RANKS";
    let output = table.run(&["-n", "3", "--", "sh", "-c", script]).expect_success();
    let mut lines: Vec<_> = output.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1/0/3", "1/1/3", "1/2/3"], "{output}");
    let output = table.run(&["--label", "-n", "2", "--", "sh", "-c", script]).expect_success();
    let mut lines: Vec<_> = output.stdout.lines().collect();
    lines.sort_unstable();
    // The table was removed, so the jobs begin with 1 again.
    assert_eq!(lines, ["[0] 1/0/2", "[1] 1/1/2"], "{output}");
    table.expect_gone();
}

#[test]
fn jobs_are_listed_again_and_again_in_both_formats_until_a_signal_or_the_end_of_the_reader() {
    let table = Table::new();
    for (format, sign) in [("text", "no jobs"), ("json", "schema_version")] {
        let mut jobs = Child::start_piped(&mut table.rowlock(&["jobs", "--watch", "--format", format]));
        for _ in 0..2 {
            while !jobs.read_line().contains(sign) {}
        }
        jobs.send(2);
        jobs.wait().expect_exit(130);
        let (_, writer) = std::io::pipe().unwrap();
        let mut jobs = table.rowlock(&["jobs", "--watch", "--format", format]);
        Child::start_into(&mut jobs, writer).wait().expect_success();
    }
}

#[test]
fn several_programs_are_one_job() {
    let table = Table::new();
    let output =
        table.run(&["--label", "--", "echo", "first", ":", "-n", "2", "--", "echo", "other", "-n", ":", "echo"]);
    let output = output.expect_success();
    let mut lines: Vec<_> = output.stdout.lines().map(str::trim_end).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] first", "[1] other -n", "[2] other -n", "[3]"], "{output}");
}

#[test]
fn output_that_is_lost_is_a_failure() {
    let table = Table::new();
    for (script, code) in [("echo lost", 1), ("echo lost; exit 3", 3)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = table.rowlock(&["prun", "--label", "--", "sh", "-c", script]);
        let ended = Child::start_into(&mut command, full).wait().expect_exit(code);
        ended.expect_stderr("a part of the output is lost");
    }
    table.expect_gone();
}

#[test]
fn a_job_within_a_job_is_not_bound_also_in_a_dry_run() {
    let table = Table::new();
    let script = "$0 prun --dry-run -- true; $0 prun --report-bindings -- true";
    let output = table.run(&["--", "sh", "-c", script, env!("CARGO_BIN_EXE_rowlock")]).expect_success();
    let why = "ranks are not bound to CPUs, because the job is a part of another";
    output.expect_stdout(why).expect_stderr(why);
}

#[test]
fn the_environment_and_the_folder_of_ranks_can_be_set() {
    let table = Table::new();
    std::fs::create_dir(table.place().join("inner")).unwrap();
    let script = "echo $A:$B:$OMP_NUM_THREADS; pwd";
    let here = table.place().canonicalize().unwrap();
    let set = ["--env", "A=1=2", "--env", "B=", "--chdir", "inner", "-n", "1", "-c", "1", "--bind", "none", "--"];
    let output = table.run(&[&set[..], &["sh", "-c", script]].concat()).expect_success();
    assert_eq!(output.stdout, format!("1=2::1\n{}/inner\n", here.display()));
    let output = table.run(&["-c", "1", "--env", "OMP_NUM_THREADS=7", "--", "sh", "-c", script]).expect_success();
    assert!(output.stdout.starts_with("::7\n"), "{output}");
}

#[test]
fn standard_input_reaches_the_ranks_that_are_to_have_it() {
    let table = Table::new();
    std::fs::write(table.place().join("input"), "").unwrap();
    for (option, expected) in
        [(&[][..], [true, false]), (&["--stdin", "all"], [true; 2]), (&["--stdin", "none"], [false; 2])]
    {
        let which = ["-n", "2", "--output", "out-%r", "--", "readlink", "/proc/self/fd/0"];
        let prun = table.rowlock(&[&["prun", "--wait", "none"], option, &which].concat());
        let mut shell = testing::command("sh");
        shell.args(["-c", "exec \"$@\" < input", "sh"]).current_dir(table.place());
        testing::run(&mut testing::through(shell, &prun)).expect_success();
        let read = |rank| std::fs::read_to_string(table.place().join(format!("out-{rank}"))).unwrap();
        assert_eq!([0, 1].map(|rank| read(rank).ends_with("/input\n")), expected, "{option:?}");
    }
}

#[test]
fn a_mesh_that_fits_is_what_the_job_gets() {
    let table = Table::new();
    let job = table.start(&["--mesh", "1x1"], "exec sleep 1000");
    assert!(table.jobs()[0]["cells"].as_str().unwrap().starts_with("1x1+"));
    job.send(15);
    job.wait().expect_signal(15);
    table.expect_gone();
}

#[test]
fn a_job_that_is_to_start_now_does_not_wait_for_the_cells_of_another() {
    let table = Table::new();
    let other = table.start(&["--cpus", cpu()], "exec sleep 1000");
    let output = table.run(&["--now", "--cpus", cpu(), "--", "echo", "here"]).expect_success();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("here\n", ""));
    other.send(15);
    other.wait().expect_signal(15);
    table.expect_gone();
}

/// The latest version of the table in a folder keeps only its first half.
fn tear(folder: &Path) {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for version in files.filter(|path| path.to_string_lossy().contains("/version-")) {
        let whole = std::fs::read(&version).unwrap();
        std::fs::write(version, &whole[..whole.len() / 2]).unwrap();
    }
}

#[test]
fn a_torn_table_is_refused_as_long_as_it_is_used_and_then_made_anew() {
    let table = Table::new();
    let job = table.start(&["--how", "strict"], "exec sleep 1000");
    // It would make another version from that which it knows.
    job.send(19);
    until(|| state(job.id()) == Some('T'));
    let folder = std::fs::read_dir(table.place()).unwrap().map(|entry| entry.unwrap().path());
    let [folder] = &folder.filter(|path| path.to_string_lossy().contains("/rowlock-")).collect::<Vec<_>>()[..] else {
        panic!("one folder")
    };
    tear(folder);
    // As if all of its users had been killed.
    let left = Table::new();
    testing::run(testing::command("cp").arg("-a").arg(folder).arg(left.place())).expect_success();
    for command in [&["prun", "--", "true"][..], &["jobs"], &["hold", "1"]] {
        let output = testing::run(&mut table.rowlock(command)).expect_exit(1).expect_stderr("is damaged: ");
        assert!(
            output.stderr.starts_with("error: the table of jobs in ") && output.stderr.lines().count() == 1,
            "{output}"
        );
    }
    left.run(&["--", "echo", "$ROWLOCK_JOB"]).expect_success();
    left.expect_gone();
    job.send(18);
    job.send(15);
    job.wait().expect_signal(15);
    table.expect_gone();
}

#[test]
fn the_output_of_each_rank_can_go_to_a_file() {
    let table = Table::new();
    table.run(&["-n", "2", "--output", "out-%r", "--", "sh", "-c", "echo $ROWLOCK_RANK; echo e >&2"]).expect_success();
    for rank in 0..2 {
        let text = std::fs::read_to_string(table.place().join(format!("out-{rank}"))).unwrap();
        assert_eq!(text, format!("{rank}\ne\n"));
    }
    table.run(&["-n", "2", "--output", "out", "--", "true"]).expect_exit(2).expect_stderr("%r");
}

#[test]
fn the_first_rank_that_fails_ends_the_others_and_gives_the_exit_code() {
    let table = Table::new();
    let script = "[ $ROWLOCK_RANK = 1 ] && exit 7; sleep 1000";
    table.run(&["-n", "3", "--", "sh", "-c", script]).expect_exit(7).expect_stderr("rank 1 has failed");
    table.run(&["-n", "2", "--", "sh", "-c", "kill -SEGV $$"]).expect_signal(11);
    table.run(&["--time-limit", "10 ms", "--", "sleep", "1000"]).expect_exit(124).expect_stderr("time limit");
    table.expect_gone();
}

#[test]
fn bad_input_is_explained_and_leaves_nothing() {
    let table = Table::new();
    for (arguments, code, said) in [
        (&["prun", "-n", "0", "--", "true"][..], 2, "write a whole number from 1 to 65536"),
        (&["prun", "-n", "70000", "--", "true"], 2, "65536"),
        (&["prun", "-np", "2", "true"], 2, "write `-n 4` for the `-np 4` of mpirun"),
        (&["prun", "--misspelt", "true"], 2, "unexpected argument '--misspelt'"),
        (&["prun", "--", "true", ":", "-c", "2", "--", "true"], 2, "-c: `-n` is the only option after ` : `"),
        (&["prun", "--env", "ROWLOCK_RANK=1", "--", "true"], 2, "`prun` itself sets this variable"),
        (&["prun", "--time-limit", "5", "--", "true"], 2, "write a time as \"90 s\""),
        (&["prun", "--dry-run", "--with", "7", "--", "true"], 2, "there is no job 7"),
        (&["prun", "--dry-run", "--memory", "4000 TiB", "--", "true"], 2, "--memory: a job can have at most"),
        (&["prun", "--dry-run", "-n", "2", "--output", "one", "--", "true"], 2, "`%r` in its name stands for the rank"),
        (&["prun", "--mesh", "9999x1", "--", "true"], 2, "does not fit"),
        (&["prun", "-c", "9999", "--", "true"], 2, "-c 9999: the permitted CPUs have only"),
        (&["prun", "--mechanism", "hint", "--how", "moderate", "--", "true"], 2, "does not give way by itself"),
        (&["prun", "--slice", "1 ms", "--", "true"], 2, "a turn lasts from 5 ms to 10 s"),
        (&["prun", "--slice", "11 s", "--", "true"], 2, "a turn lasts from 5 ms to 10 s"),
        (&["prun", "--slice", "20", "--", "true"], 2, "write it as \"20 ms\""),
        (&["prun", "--how", "gang", "--", "true"], 2, "adaptive, strict, moderate, none"),
        (&["prun", "--mechanism", "magic", "--", "true"], 2, "freeze, freezer, signals, hint"),
        (&["prun", "--weight", "0", "--", "true"], 2, "from 1 to 1000"),
        (&["prun", "--with", "7", "--", "true"], 2, "there is no job 7; `rowlock jobs` lists all jobs"),
        (&["prun", "--with", "x", "--", "true"], 2, "not the number of a job"),
        (&["prun", "--queue", "--now", "--", "true"], 2, "cannot be used with"),
        (&["prun", "--queue", "--with", "1", "--", "true"], 2, "cannot be used with"),
        (&["prun", "--memory", "much", "--", "true"], 2, "write a number and a unit"),
        (&["prun", "--memory", "4000 TiB", "--", "true"], 2, "--memory: a job can have at most"),
        (&["prun", "--detach", "--stdin", "none", "--", "true"], 2, "cannot be used with"),
        (&["prun", "--detach", "--with", "7", "--", "true"], 2, "there is no job 7"),
        (&["prun", "--detach", "--", "rowlock-has-no-such-program"], 127, "rowlock-has-no-such-program"),
        (&["attach", "7"], 2, "there is no job 7; `rowlock jobs` lists all jobs"),
        (&["attach", "x"], 2, "not the number of a job"),
        (&["prun", "--wait", "never", "--", "true"], 2, "rowlock policies"),
        (&["prun", "--cpus", "100000", "--", "true"], 2, "CPU 100000 may not be used here"),
        (&["prun", "--chdir", "nowhere", "--", "true"], 2, "cannot start ranks in nowhere"),
        (&["prun", "--env", "=1", "--", "true"], 2, "NAME=VALUE"),
        (&["prun", "--", "true", ":"], 2, "no program beside ` : `"),
        (&["prun", "--", "true", ":", "-n", "x", "true"], 2, "after `: -n`"),
        (&["prun"], 2, "CMD"),
        (&["prun", "--", "rowlock-has-no-such-program"], 127, "rowlock-has-no-such-program"),
        (&["prun", "--", "true", ":", "rowlock-has-no-such-program"], 127, "rowlock-has-no-such-program"),
        (&["prun", "--", "/dev/null"], 126, "/dev/null"),
        (&["kill", "7"], 2, "there is no job 7; `rowlock jobs` lists all jobs"),
        (&["kill", "x"], 2, "not the number of a job"),
        (&["kill", "7", "--signal", "STOP"], 2, "rowlock hold"),
        (&["kill", "7", "--signal", "20"], 2, "rowlock hold"),
        (&["kill", "7", "--signal", "OAR"], 2, "write HUP, INT"),
        (&["hold", "7"], 2, "there is no job 7"),
        (&["resume", "4294967296"], 2, "not the number of a job"),
        (&["set", "7", "--weight", "2"], 2, "there is no job 7"),
        (&["set", "7"], 2, "--weight"),
    ] {
        testing::run(&mut table.rowlock(arguments)).expect_exit(code).expect_stderr(said);
        table.expect_gone();
    }
    let mut command = table.rowlock(&["prun", "--", "true"]);
    testing::run(command.env("ROWLOCK_TABLE", "/nowhere")).expect_exit(1).expect_stderr("ROWLOCK_TABLE names another");
    testing::run(&mut table.rowlock(&["jobs"])).expect_success().expect_stdout("no jobs");
}

#[test]
fn a_job_whose_caller_may_use_one_cpu_does_not_limit_others() {
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], "sleep 1000");
    let bindings = ["--report-bindings", "--", "true"];
    let [beside, alone] = [&table, &Table::new()].map(|table| table.run(&bindings).expect_success().stderr);
    assert_eq!(beside, alone);
    drop(first);
}

#[test]
fn a_dry_run_says_what_would_be_started_and_starts_nothing() {
    let table = Table::new();
    let output = table.run(&["--dry-run", "-n", "2", "--", "touch", "made"]).expect_success();
    let output = output.expect_stdout("would start 2 ranks of `touch made` on a mesh of ");
    output.expect_stdout("rank");
    assert!(!table.place().join("made").exists());
    let bound = table.run(&["--report-bindings", "-n", "1", "--", "true"]).expect_success();
    bound.expect_stderr("rank");
}

#[test]
fn more_ranks_than_cpus_are_a_reason_for_a_warning_if_they_wait_as_they_were_written() {
    let warning = "2 ranks share 1 CPU: with `--wait none`,";
    let run = |wait: &[&str], ranks: &[&str]| {
        let arguments = [&["prun", "--cpus", cpu()], wait, ranks, &["--", "true"]].concat();
        testing::run(&mut Table::new().rowlock(&arguments)).expect_success()
    };
    run(&["--wait", "none"], &["-n", "2"]).expect_stderr(warning);
    run(&["--wait", "none"], &["-n", "2", "--dry-run"]).expect_stdout(warning);
    assert_eq!(run(&["--wait", "none"], &["-n", "1"]).stderr, "");
    assert_eq!(run(&[], &["-n", "2"]).stderr, "");
}

#[test]
fn jobs_that_spin_take_turns_and_one_that_is_held_cedes_them() {
    mechanisms().iter().copied().for_each(expect_turns);
}

fn expect_turns(mechanism: &str) {
    let table = Table::new();
    // On any number of CPUs, these are on the same ones.
    let options = ["-n", "2", "--cpus", cpu(), "--mechanism", mechanism];
    let first = table.start(&options, SPIN);
    let second = table.start(&options, SPIN);
    until(|| table.jobs().iter().all(|job| job["mechanism"] == mechanism));
    until(|| table.jobs().iter().all(|job| job["class"] == "spins" && job["how"] == "adaptive"));
    for _ in 0..3 {
        until(|| are_stopped(first.id()) && are_running(second.id()));
        until(|| are_stopped(second.id()) && are_running(first.id()));
    }
    until(|| table.jobs().iter().all(|job| job["share"].as_f64().is_some_and(|share| share > 0.0)));
    let set = |arguments: &[&str]| drop(testing::run(&mut table.rowlock(arguments)).expect_success());
    set(&["hold", "1"]);
    until(|| table.jobs()[0]["state"] == "held" && are_stopped(first.id()) && are_running(second.id()));
    set(&["set", "2", "--weight", "3"]);
    assert_eq!(table.jobs()[1]["weight"], 3);
    set(&["resume", "1"]);
    let again = testing::run(&mut table.rowlock(&["resume", "1"])).expect_success();
    again.expect_stderr("job 1 was neither held nor stopped by its terminal");
    until(|| are_running(first.id()) && are_stopped(second.id()));
    // Without turns, both run at any time.
    set(&["set", "1", "--how", "none"]);
    set(&["set", "2", "--how", "none"]);
    until(|| are_running(first.id()) && are_running(second.id()));
    assert!(table.jobs().iter().all(|job| job["state"] == "runs"));
    set(&["kill", "1"]);
    first.wait().expect_signal(15);
    set(&["kill", "2", "--signal", "KILL"]);
    second.wait().expect_signal(9);
    table.expect_gone();
}

#[test]
fn a_job_that_idles_in_its_turns_is_accompanied_until_it_wants_its_cpus() {
    let table = Table::new();
    let options = ["-n", "2", "--cpus", cpu()];
    let (idle, input) = (table.place().join("idle"), table.place().join("input"));
    testing::run(testing::command("mkfifo").arg(&input)).expect_success();
    // Both ranks get a line, whichever is faster.
    let script = format!("exec 3<> input; until [ -e idle ]; do :; done; read line <&3; {SPIN}");
    let idles = table.start(&options, &script);
    let spins = table.start(&options, SPIN);
    until(|| table.jobs().iter().all(|job| job["class"] == "spins"));
    std::fs::write(idle, "").unwrap();
    let runs_in_turns = |job: &Value| job["state"] == "runs" && job["slices"].as_array().unwrap().len() == 1;
    until(|| table.jobs().iter().all(runs_in_turns));
    std::fs::write(input, "go\ngo\n").unwrap();
    for _ in 0..3 {
        until(|| are_stopped(spins.id()) && are_running(idles.id()));
        until(|| are_stopped(idles.id()) && are_running(spins.id()));
    }
    for prun in [idles, spins] {
        prun.send(15);
        prun.wait().expect_signal(15);
    }
    table.expect_gone();
}

#[test]
fn jobs_that_cooperate_run_and_stop_together() {
    let table = Table::new();
    let options = ["-n", "2", "--cpus", cpu(), "--how", "strict"];
    let [first, other] = [0, 1].map(|_| table.start(&options, SPIN));
    let with = table.start(&[&options[..], &["--with", "1"]].concat(), SPIN);
    let jobs = table.jobs();
    assert_eq!([0, 1, 2].map(|job| jobs[job]["task"].as_u64().unwrap()), [1, 2, 1]);
    assert_eq!((&jobs[2]["slices"], &jobs[2]["cells"]), (&jobs[0]["slices"], &jobs[0]["cells"]));
    for _ in 0..3 {
        until(|| are_stopped(first.id()) && are_stopped(with.id()) && are_running(other.id()));
        until(|| are_stopped(other.id()) && are_running(first.id()) && are_running(with.id()));
    }
    for prun in [first, with, other] {
        prun.send(15);
        prun.wait().expect_signal(15);
    }
    table.expect_gone();
}

#[test]
fn a_job_of_one_thread_takes_no_turns() {
    let table = Table::new();
    let spins = table.start(&["-n", "2", "--cpus", cpu()], SPIN);
    let computes = table.start(&["-n", "1", "--cpus", cpu()], SPIN);
    until(|| table.jobs()[1]["class"] == "computes" && table.jobs()[0]["class"] == "spins");
    assert_eq!(table.jobs()[1]["slices"], Value::Array(Vec::new()));
    // Alone in the slices, the other one is not stopped either.
    until(|| are_running(spins.id()) && are_running(computes.id()));
    for prun in [spins, computes] {
        prun.send(15);
        prun.wait().expect_signal(15);
    }
    table.expect_gone();
}

#[test]
fn a_job_within_a_job_is_a_part_of_it() {
    let table = Table::new();
    let inner = format!("{} prun --wait none -n 2 -- sh -c 'echo $ROWLOCK_JOB'", env!("CARGO_BIN_EXE_rowlock"));
    let output = table.run(&["--", "sh", "-c", &inner]).expect_success();
    assert_eq!(output.stdout, "1\n1\n");
    for option in ["--with 1", "--queue", "--memory 1KiB", "--detach"] {
        let with = inner.replace("prun", &format!("prun {option}"));
        table.run(&["--", "sh", "-c", &with]).expect_exit(2).expect_stderr("is a part of that one");
    }
    // A variable that names no job of the table says nothing.
    for named in ["", "x", "7"] {
        let mut command = table.rowlock(&["prun", "--", "sh", "-c", "echo $ROWLOCK_JOB"]);
        assert_eq!(testing::run(command.env("ROWLOCK_JOB", named)).expect_success().stdout, "1\n");
    }
}

#[test]
fn the_first_job_decides_how_long_turns_are() {
    let table = Table::new();
    let first = table.start(&["--slice", "50 ms"], "sleep 1000");
    table.run(&["--slice", "30 ms", "--", "true"]).expect_success().expect_stderr("turns last 50 ms instead of 30 ms");
    drop(first);
}

#[test]
fn a_signal_to_the_agent_alone_reaches_all_ranks() {
    let table = Table::new();
    let script = "trap 'echo asked; exit 3' TERM; touch ready-$ROWLOCK_RANK; while :; do sleep 0.01; done";
    let prun = table.start(&["-n", "2"], script);
    until(|| (0..2).all(|rank| table.place().join(format!("ready-{rank}")).exists()));
    prun.send(15);
    let output = prun.wait().expect_exit(3);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("asked\nasked\n", ""));
    table.expect_gone();
}

#[test]
fn a_job_whose_agent_is_stopped_takes_its_turns_by_the_other_agent() {
    let table = Table::new();
    let jobs = [0, 1].map(|_| table.start(&["-n", "2", "--cpus", cpu(), "--how", "strict"], SPIN));
    for job in &jobs {
        // By then, its agent has listed its ranks.
        until(|| are_stopped(job.id()));
        job.send(19);
        until(|| state(job.id()) == Some('T'));
        for _ in 0..3 {
            until(|| are_running(job.id()));
            until(|| are_stopped(job.id()));
        }
        job.send(18);
    }
    for job in jobs {
        job.send(15);
        job.wait().expect_signal(15);
    }
    table.expect_gone();
}

#[test]
fn a_job_whose_agent_is_killed_ends_and_the_others_go_on() {
    let table = Table::new();
    let [mut first, second] = [0, 1].map(|_| table.start(&["-n", "2", "--cpus", cpu(), "--how", "strict"], SPIN));
    until(|| are_stopped(first.id()) && are_running(second.id()));
    let left = ranks(first.id());
    first.process().kill().unwrap();
    first.wait_until_ended();
    until(|| left.iter().all(|&rank| state(rank).is_none_or(|state| state == 'Z')));
    // The other one notices that it is alone.
    until(|| table.jobs().len() == 1 && table.jobs()[0]["state"] == "runs" && are_running(second.id()));
    second.send(15);
    second.wait().expect_signal(15);
    table.expect_gone();
}
