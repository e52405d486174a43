//! MPI programs do with the library what they do without it: those of MPICH and those of Open MPI.
//!
//! `.ci/setup-mpi` installs what it takes on Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use counters::{Environment, ProcessReport, Region, WaitKind};
use testing::Child;

/// A message library as Debian installs it: its compiler and its launcher.
struct Flavour {
    compiler: &'static str,
    launcher: &'static [&'static str],
    subject: WaitKind,
}

const MPICH: Flavour = Flavour { compiler: "mpicc.mpich", launcher: &["mpirun.mpich"], subject: WaitKind::Mpi };
const OPEN_MPI: Flavour = Flavour {
    compiler: "mpicc.openmpi",
    launcher: &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    subject: WaitKind::Yield,
};

/// A program, compiled.
struct Program<'a> {
    flavour: &'a Flavour,
    folder: tempfile::TempDir,
}

/// On which CPUs, and with what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// On all CPUs, without the library.
    Plain,
    /// On all CPUs, with the library.
    Helped,
    /// On one CPU, which all ranks have to share, with the library.
    Crowded,
}

impl<'a> Program<'a> {
    fn new(flavour: &'a Flavour, name: &str) -> Program<'a> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi").join(name);
        let mut compiler = testing::command(flavour.compiler);
        compiler.args(["-O1", "-pthread", "-o"]).arg(folder.path().join("program")).arg(source);
        testing::run(&mut compiler).succeeds();
        Program { flavour, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// So many ranks.
    fn command(&self, ranks: u32, run: Run) -> Command {
        let [cpu, ranks] = [sys::cpus::allowed().unwrap()[0].to_string(), ranks.to_string()];
        let taskset = ["taskset", "--cpu-list", &cpu];
        let crowd = if run == Run::Crowded { &taskset[..] } else { &[] };
        let words = [crowd, self.flavour.launcher, &["-n", &ranks]].concat();
        let mut command = testing::command(words[0]);
        command.args(&words[1..]);
        if run != Run::Plain {
            command.env("LD_PRELOAD", crate::library::preload());
        }
        command
    }

    /// What they print.
    fn output(&self, ranks: u32, run: Run) -> String {
        output(self.command(ranks, run).arg(self.path()))
    }

    /// What they print, and what is written of them.
    fn accounts(&self, ranks: u32, run: Run) -> (String, Vec<ProcessReport>) {
        let path = self.folder.path().join("book");
        let book = Region::create(&path).unwrap();
        let environment = Environment { region: Some(path.clone()), ..Environment::default() };
        let output = output(self.command(ranks, run).envs(environment.variables()).arg(self.path()));
        std::fs::remove_file(path).unwrap();
        (output, book.processes())
    }
}

#[track_caller]
fn output(command: &mut Command) -> String {
    testing::run(command).succeeds().stdout
}

fn waits(entries: &[ProcessReport], subject: WaitKind) -> u64 {
    entries
        .iter()
        .flat_map(|entry| &entry.waits)
        .filter(|waits| waits.kind == subject)
        .map(|w| w.statistics.waits)
        .sum()
}

/// A program's output is the same however it is run.
fn is_the_same(flavour: &Flavour, name: &str, ranks: &[u32]) {
    let program = Program::new(flavour, name);
    for &ranks in ranks {
        let plain = program.output(ranks, Run::Plain);
        assert!(!plain.is_empty());
        for run in [Run::Helped, Run::Crowded] {
            let helped = program.output(ranks, run);
            if let Some((one, other)) = plain.lines().zip(helped.lines()).find(|(one, other)| one != other) {
                panic!("{name}, {ranks} ranks: {one:?} without, {other:?} with");
            }
            assert_eq!(plain, helped);
        }
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn all_kinds_of_calls_do_in_mpich_what_they_do_without_the_library() {
    is_the_same(&MPICH, "calls.c", &[1, 2, 4]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn all_kinds_of_calls_do_in_open_mpi_what_they_do_without_the_library() {
    is_the_same(&OPEN_MPI, "calls.c", &[1, 2, 4]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn two_threads_of_a_rank_can_wait_at_a_time() {
    is_the_same(&MPICH, "threads.c", &[2]);
    is_the_same(&OPEN_MPI, "threads.c", &[2]);
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_that_share_a_cpu_wait_by_a_rule() {
    for flavour in [&MPICH, &OPEN_MPI] {
        let (_, entries) = Program::new(flavour, "calls.c").accounts(2, Run::Crowded);
        assert!(waits(&entries, flavour.subject) > 0, "{}", flavour.compiler);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn a_rank_without_the_library_meets_with_those_that_have_it() {
    for flavour in [&MPICH, &OPEN_MPI] {
        let program = Program::new(flavour, "calls.c");
        let expected = program.output(2, Run::Plain);
        let mut mixed = program.command(1, Run::Crowded);
        mixed.arg(program.path()).args([":", "-n", "1", "env", "--unset=LD_PRELOAD"]).arg(program.path());
        assert_eq!(output(&mut mixed), expected, "{}", flavour.compiler);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_that_are_bound_differently_do_the_same() {
    let cpu = sys::cpus::allowed().unwrap()[0].to_string();
    for flavour in [&MPICH, &OPEN_MPI] {
        let program = Program::new(flavour, "calls.c");
        let expected = program.output(2, Run::Plain);
        // The second rank, and what has started it, can use one CPU: it takes itself for crowded, and the first one does not.
        let mut bound = program.command(1, Run::Helped);
        bound.arg(program.path()).args([
            ":",
            "-n",
            "1",
            "sh",
            "-c",
            "taskset --pid --cpu-list \"$1\" $$ > /dev/null; \"$0\"; exit $?",
        ]);
        bound.arg(program.path()).arg(&cpu);
        (0..6).for_each(|_| assert_eq!(output(&mut bound), expected, "{}", flavour.compiler));
    }
}

/// A program that keeps a CPU busy until it is dropped.
fn hog() -> Child {
    Child::start(testing::command("sh").args(["-c", "while :; do :; done"]))
}

/// `ROWLOCK_RUNS` says how many.
#[test]
#[ignore = "needs Open MPI and MPICH"]
fn runs_end_while_other_programs_come_and_go() {
    let runs: u32 = std::env::var("ROWLOCK_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6);
    let programs = [&MPICH, &OPEN_MPI].map(|flavour| Program::new(flavour, "threads.c"));
    let expected: Vec<[String; 2]> =
        programs.iter().map(|program| [2, 4].map(|ranks| program.output(ranks, Run::Plain))).collect();
    let mut hogs = Vec::new();
    for run in 0..runs {
        match run % 4 {
            0 => hogs.clear(),
            1 | 2 => hogs.push(hog()),
            _ => {}
        }
        for (program, expected) in programs.iter().zip(&expected) {
            let few = (run % 2) as usize;
            assert_eq!(
                program.output([2, 4][few], Run::Helped),
                expected[few],
                "run {run}, {}",
                program.flavour.compiler
            );
        }
    }
}
