//! Open MPI as installed by Debian.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testing::family::Family;
use testing::{Child, Output};

use crate::job;

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("ranks_find_each_other_share_memory_and_know_their_application", ranks_find_each_other),
    ("an_abort_is_reported_with_its_code", an_abort),
    ("what_is_refused_is_an_error_for_the_program_and_reported_once", what_is_refused),
    ("a_launcher_that_a_rank_calls_starts_its_own_ranks", nested_launchers),
    ("a_rank_that_is_killed_or_leaves_ends_the_job", a_rank_that_is_missing),
    ("a_killed_server_ends_the_job", a_killed_server),
    ("nothing_is_left_of_a_job_that_is_killed_at_any_moment", a_killed_job),
    ("nothing_is_left_of_a_job_of_which_every_process_is_killed_when_the_next_one_has_run", a_killed_family),
];

/// A compiled program, and the folders for the files of its jobs.
struct Program {
    folder: TempDir,
    /// The folder for the table, which is also that for the files of PMIx.
    place: TempDir,
    temporary: TempDir,
    others: BTreeSet<PathBuf>,
    family: Family,
}

impl Program {
    fn new(name: &str) -> Program {
        let [folder, place, temporary] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/programs/job.c");
        let mut compiler = testing::command("mpicc.openmpi");
        testing::run(compiler.args(["-O1", "-o"]).arg(folder.path().join("job")).arg(source)).expect_success();
        Program { folder, place, temporary, others: files_of_mpi(), family: Family::new(name) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("job")
    }

    /// A job in which each rank executes a program.
    fn prepare(&self, applications: &[u32], program: impl AsRef<Path>) -> Command {
        let mut command = job::command(applications, program);
        command.env("ROWLOCK_TABLE", self.place.path()).env("TMPDIR", self.temporary.path());
        command.env_remove("XDG_RUNTIME_DIR");
        self.family.adopt(&mut command);
        command
    }

    fn command(&self, applications: &[u32], action: &str) -> Command {
        let mut command = self.prepare(applications, self.path());
        command.arg(action);
        command
    }

    fn start(&self, applications: &[u32], action: &str) -> Child {
        Child::start_piped(&mut self.command(applications, action))
    }

    fn run(&self, applications: &[u32], action: &str) -> Output {
        let output = testing::run(&mut self.command(applications, action));
        self.expect_nothing_left();
        output
    }

    /// The process of the server.
    fn server(&self) -> Option<u32> {
        let is_server = |member: &u32| {
            let command = fs::read(format!("/proc/{member}/cmdline")).unwrap_or_default();
            let name = fs::read_to_string(format!("/proc/{member}/comm")).unwrap_or_default();
            command.split(|&byte| byte == 0).any(|argument| argument == b"__pmix") && name.trim_end() != "keeper"
        };
        self.family.members().into_iter().find(is_server)
    }

    /// Waits until there is neither a process nor a file of its jobs.
    #[track_caller]
    fn expect_nothing_left(&self) {
        wait_until("the end of all processes", || self.family.members().is_empty());
        for folder in [self.place.path(), self.temporary.path()] {
            wait_until("an empty folder", || folder.read_dir().unwrap().next().is_none());
        }
        wait_until("no other files", || files_of_mpi().is_subset(&self.others));
    }
}

/// Files that Open MPI or libpmix has where all programs have theirs.
fn files_of_mpi() -> BTreeSet<PathBuf> {
    let prefixes = ["ompi.", "open_mpi", "openmpi", "vader_", "sm_segment", "osc_", "pmix", "prte"];
    let entries = ["/tmp", "/dev/shm"].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap().flatten());
    let is_of_mpi = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    entries.map(|entry| entry.path()).filter(is_of_mpi).collect()
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (started, limit) = (Instant::now(), testing::child::limit());
    while !is_so() {
        assert!(started.elapsed() < limit, "{what}: not yet after {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill(process: u32) {
    // It may have ended.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::KILL);
}

fn sorted_lines(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("rank ")).collect();
    lines.sort_unstable();
    lines
}

fn ranks_find_each_other() {
    let program = Program::new("sum");
    for applications in [&[0][..], &[0, 0], &[0, 0, 1, 1], &[0, 1, 0, 2, 2, 0, 0, 1]] {
        let output = program.run(applications, "sum").expect_success();
        let ranks = applications.len();
        let sum: usize = (0..ranks).map(|rank| rank * rank).sum();
        let line =
            |(rank, application)| format!("rank {rank} of {ranks}, {ranks} here: sum {sum}, application {application}");
        let expected: Vec<String> = applications.iter().enumerate().map(line).collect();
        assert_eq!(sorted_lines(&output), expected);
    }
}

fn an_abort() {
    let program = Program::new("abort");
    for ranks in [1, 2, 4] {
        let output = program.run(&vec![0; ranks], "abort").expect_exit(42);
        output.expect_stdout(&format!("Abort {{ rank: {}, code: 42", ranks - 1));
    }
}

fn what_is_refused() {
    let program = Program::new("refused");
    let output = program.run(&[0, 0], "refused").expect_success();
    for call in ["spawn", "lookup", "publish"] {
        assert_eq!(output.stdout.matches(&format!("{call}: error")).count(), 2, "{}", output.stdout);
    }
    for call in ["Spawn", "Lookup", "Publish"] {
        assert_eq!(output.stdout.matches(&format!("call: {call} }}")).count(), 1, "{}", output.stdout);
    }
}

fn nested_launchers() {
    let program = Program::new("nested");
    let nested = |action: &str| {
        let mut nested = program.prepare(&[0], "mpirun.openmpi");
        nested.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]).arg(program.path()).arg(action);
        nested
    };
    let output = testing::run(&mut nested("sum")).expect_success();
    let expected = [0, 1].map(|rank| format!("rank {rank} of 2, 2 here: sum 1, application 0"));
    assert_eq!(sorted_lines(&output), expected);
    program.expect_nothing_left();
    let mut job = Child::start_piped(&mut nested("wait"));
    wait_for_barrier(&mut job, 2);
    kill(job.id());
    job.wait().expect_signal(Signal::KILL.as_raw());
    program.expect_nothing_left();
}

/// Reads until each rank is in a barrier, to which the first one does not come. Returns their
/// processes, by their numbers.
fn wait_for_barrier(job: &mut Child, ranks: usize) -> Vec<u32> {
    let mut processes = vec![0; ranks];
    for _ in 0..ranks {
        let line = job.read_line();
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        processes[numbers[0] as usize] = numbers[1];
    }
    processes
}

fn a_rank_that_is_missing() {
    let program = Program::new("missing");
    for killed in 0..2 {
        let mut job = program.start(&[0, 0, 0], "wait");
        kill(wait_for_barrier(&mut job, 3)[killed]);
        job.wait().expect_exit(137);
        program.expect_nothing_left();
    }
    let output = program.run(&[0, 0], "leave");
    let is_ended = !output.status.success();
    output.expect(is_ended, "a job that does not wait for its first rank").expect_stdout("Lost { rank: 0 }");
}

fn a_killed_server() {
    let program = Program::new("server");
    let mut job = program.start(&[0, 0], "wait");
    wait_for_barrier(&mut job, 2);
    kill(program.server().unwrap());
    let output = job.wait();
    let is_ended = !output.status.success();
    output.expect(is_ended, "a job that ends with its server").expect_stdout("the server has ended");
    program.expect_nothing_left();
}

/// The job, the successor that removes the folder, and for the server and each of two ranks, the
/// keeper and the process.
const PROCESSES: usize = 8;

fn a_killed_job() {
    let program = Program::new("killed");
    for members in 1..=PROCESSES {
        let job = program.start(&[0, 0], "wait");
        wait_until("the expected number of processes", || program.family.members().len() >= members);
        kill(job.id());
        job.wait().expect_signal(Signal::KILL.as_raw());
        program.expect_nothing_left();
    }
    let mut job = program.start(&[0, 0], "wait");
    wait_for_barrier(&mut job, 2);
    kill(job.id());
    job.wait().expect_signal(Signal::KILL.as_raw());
    program.expect_nothing_left();
}

fn a_killed_family() {
    let program = Program::new("family");
    let mut job = program.start(&[0, 0], "wait");
    wait_for_barrier(&mut job, 2);
    let members = program.family.members();
    assert!(members.len() >= PROCESSES, "{members:?}");
    // All at once, as far as that is possible: the successor and the keepers come first.
    let is_helper = |member: &u32| {
        let name = fs::read_to_string(format!("/proc/{member}/comm")).unwrap_or_default();
        ["successor", "keeper"].contains(&name.trim_end())
    };
    let (helpers, rest): (Vec<u32>, Vec<u32>) = members.into_iter().partition(is_helper);
    helpers.into_iter().chain(rest).for_each(kill);
    job.wait();
    wait_until("the end of all processes", || program.family.members().is_empty());
    assert!(program.place.path().read_dir().unwrap().next().is_some(), "nothing was left to remove");
    program.run(&[0, 0], "sum").expect_success();
}
