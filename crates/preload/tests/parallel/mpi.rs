//! MPI programs behave the same with the library as without, with MPICH and Open MPI.
//!
//! `.ci/setup-mpi` installs the requirements on Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use counters::{Environment, ProcessReport, Region, WaitKind};
use testing::Child;

/// A message library as installed by Debian: its compiler and its launcher.
struct MpiLibrary {
    compiler: &'static str,
    launcher: &'static [&'static str],
    kind: WaitKind,
}

const MPICH: MpiLibrary = MpiLibrary { compiler: "mpicc.mpich", launcher: &["mpirun.mpich"], kind: WaitKind::Mpi };
const OPEN_MPI: MpiLibrary = MpiLibrary {
    compiler: "mpicc.openmpi",
    launcher: &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    kind: WaitKind::Yield,
};

/// A compiled program.
struct Program<'a> {
    library: &'a MpiLibrary,
    folder: tempfile::TempDir,
}

/// The CPUs, and whether the library is preloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// On all CPUs, without the library.
    Plain,
    /// On all CPUs, with the library.
    Preloaded,
    /// On one CPU, which all ranks share, with the library.
    Oversubscribed,
}

impl<'a> Program<'a> {
    fn new(library: &'a MpiLibrary, name: &str) -> Program<'a> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi").join(name);
        let mut compiler = testing::command(library.compiler);
        compiler.args(["-O1", "-pthread", "-o"]).arg(folder.path().join("program")).arg(source);
        testing::run(&mut compiler).expect_success();
        Program { library, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// Launches this number of ranks.
    fn command(&self, ranks: u32, run: Run) -> Command {
        let [cpu, ranks] = [sys::cpus::allowed().unwrap()[0].to_string(), ranks.to_string()];
        let taskset = ["taskset", "--cpu-list", &cpu];
        let pinned = if run == Run::Oversubscribed { &taskset[..] } else { &[] };
        let words = [pinned, self.library.launcher, &["-n", &ranks]].concat();
        let mut command = testing::command(words[0]);
        command.args(&words[1..]);
        if run != Run::Plain {
            command.env("LD_PRELOAD", crate::library::preload());
        }
        command
    }

    /// The output of the ranks.
    fn output(&self, ranks: u32, run: Run) -> String {
        output(self.command(ranks, run).arg(self.path()))
    }

    /// The output of the ranks, and their reports.
    fn run_with_report(&self, ranks: u32, run: Run) -> (String, Vec<ProcessReport>) {
        let path = self.folder.path().join("region");
        let region = Region::create(&path).unwrap();
        let environment = Environment { region: Some(path.clone()), ..Environment::default() };
        let output = output(self.command(ranks, run).envs(environment.variables()).arg(self.path()));
        std::fs::remove_file(path).unwrap();
        (output, region.processes())
    }
}

#[track_caller]
fn output(command: &mut Command) -> String {
    testing::run(command).expect_success().stdout
}

fn waits(entries: &[ProcessReport], kind: WaitKind) -> u64 {
    entries.iter().flat_map(|entry| &entry.waits).filter(|waits| waits.kind == kind).map(|w| w.statistics.waits).sum()
}

/// Checks that a program's output is always the same.
fn assert_same_output(library: &MpiLibrary, name: &str, ranks: &[u32]) {
    let program = Program::new(library, name);
    for &ranks in ranks {
        let plain = program.output(ranks, Run::Plain);
        assert!(!plain.is_empty());
        for run in [Run::Preloaded, Run::Oversubscribed] {
            let preloaded = program.output(ranks, run);
            if let Some((one, other)) = plain.lines().zip(preloaded.lines()).find(|(one, other)| one != other) {
                panic!("{name}, {ranks} ranks: {one:?} without, {other:?} with");
            }
            assert_eq!(plain, preloaded);
        }
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn all_kinds_of_calls_behave_the_same_in_mpich() {
    assert_same_output(&MPICH, "calls.c", &[1, 2, 4]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn all_kinds_of_calls_behave_the_same_in_open_mpi() {
    assert_same_output(&OPEN_MPI, "calls.c", &[1, 2, 4]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn two_threads_of_a_rank_can_wait_at_the_same_time() {
    assert_same_output(&MPICH, "threads.c", &[2]);
    assert_same_output(&OPEN_MPI, "threads.c", &[2]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_that_share_a_cpu_wait_by_a_rule() {
    for library in [&MPICH, &OPEN_MPI] {
        let (_, entries) = Program::new(library, "calls.c").run_with_report(2, Run::Oversubscribed);
        assert!(waits(&entries, library.kind) > 0, "{}", library.compiler);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn a_rank_without_the_library_meets_those_with_it() {
    for library in [&MPICH, &OPEN_MPI] {
        let program = Program::new(library, "calls.c");
        let expected = program.output(2, Run::Plain);
        let mut mixed = program.command(1, Run::Oversubscribed);
        mixed.arg(program.path()).args([":", "-n", "1", "env", "--unset=LD_PRELOAD"]).arg(program.path());
        assert_eq!(output(&mut mixed), expected, "{}", library.compiler);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_with_different_affinities_behave_the_same() {
    let cpu = sys::cpus::allowed().unwrap()[0].to_string();
    for library in [&MPICH, &OPEN_MPI] {
        let program = Program::new(library, "calls.c");
        let expected = program.output(2, Run::Plain);
        // The second rank and its launcher can use one CPU. That rank considers itself
        // oversubscribed, and the first one does not.
        let mut bound = program.command(1, Run::Preloaded);
        bound.arg(program.path()).args([
            ":",
            "-n",
            "1",
            "sh",
            "-c",
            "taskset --pid --cpu-list \"$1\" $$ > /dev/null; \"$0\"; exit $?",
        ]);
        bound.arg(program.path()).arg(&cpu);
        (0..6).for_each(|_| assert_eq!(output(&mut bound), expected, "{}", library.compiler));
    }
}

/// A program that keeps a CPU busy until dropped.
fn start_busy_loop() -> Child {
    Child::start(testing::command("sh").args(["-c", "while :; do :; done"]))
}

/// `ROWLOCK_RUNS` is the number of runs.
#[test]
#[ignore = "needs Open MPI and MPICH"]
fn runs_end_while_other_programs_start_and_stop() {
    let runs: u32 = std::env::var("ROWLOCK_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6);
    let programs = [&MPICH, &OPEN_MPI].map(|library| Program::new(library, "threads.c"));
    let expected: Vec<[String; 2]> =
        programs.iter().map(|program| [2, 4].map(|ranks| program.output(ranks, Run::Plain))).collect();
    let mut busy_loops = Vec::new();
    for run in 0..runs {
        match run % 4 {
            0 => busy_loops.clear(),
            1 | 2 => busy_loops.push(start_busy_loop()),
            _ => {}
        }
        for (program, expected) in programs.iter().zip(&expected) {
            let which = (run % 2) as usize;
            assert_eq!(
                program.output([2, 4][which], Run::Preloaded),
                expected[which],
                "run {run}, {}",
                program.library.compiler
            );
        }
    }
}
