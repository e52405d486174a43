//! MPI programs under `rowlock prun`, without a launcher of their library.
//!
//! `.ci/setup-mpi` installs the requirements on Debian.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use counters::{Environment, ProcessReport, Reason, Region, WaitKind};
use tempfile::TempDir;
use testing::{Child, Output, processes};

use crate::kills::{Draws, kill_if_alive, name};
use crate::prun::{SPIN, Table, ranks, until};

/// A library as Debian installs it.
#[derive(Debug)]
struct Library {
    compiler: &'static str,
    fortran: &'static str,
    launcher: &'static [&'static str],
    /// How its waits are counted.
    waits: WaitKind,
}

const MPICH: Library = Library {
    compiler: "mpicc.mpich",
    fortran: "mpif90.mpich",
    launcher: &["mpirun.mpich", "-n"],
    waits: WaitKind::Mpi,
};

const OPEN_MPI: Library = Library {
    compiler: "mpicc.openmpi",
    fortran: "mpif90.openmpi",
    launcher: &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"],
    waits: WaitKind::Yield,
};

const LIBRARIES: [&Library; 2] = [&MPICH, &OPEN_MPI];

/// Programs of the preloaded library's tests: all kinds of calls, and two threads of each rank.
const CALLS: &str = "../../../../preload/tests/programs/mpi/calls.c";
const THREADS: &str = "../../../../preload/tests/programs/mpi/threads.c";

/// A compiled program.
struct Program {
    folder: TempDir,
}

impl Program {
    /// Compiles a source file.
    fn new(compiler: &str, source: &str) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mpi");
        let mut command = testing::command(compiler);
        // The compiler of Fortran writes its modules into the current folder.
        command.current_dir(&folder).args(["-O1", "-pthread", "-o", "program"]).arg(tests.join(source));
        testing::run(&mut command).expect_success();
        Program { folder }
    }

    fn of_tests(library: &Library) -> Program {
        Program::new(library.compiler, "program.c")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn name(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }
}

fn prun(table: &Table, options: &[&str], command: &[&str]) -> Command {
    table.rowlock(&[&["prun"], options, &["--"], command].concat())
}

/// Runs ranks of a program to their end.
fn run(ranks: u32, program: &Program, arguments: &[&str]) -> Output {
    let (table, name) = (Table::new(), program.name());
    let output = testing::run(&mut prun(&table, &["-n", &ranks.to_string()], &[&[&*name], arguments].concat()));
    table.expect_gone();
    output
}

#[test]
fn ranks_without_memory_for_messages_do_not_find_that_of_others() {
    let table = Table::new();
    let script = "[ $ROWLOCK_RANK != 256 ] || echo \"<$ROWLOCK_MESSAGES>\"";
    let mut command = prun(&table, &["-n", "257", "--bind", "none"], &["sh", "-c", script]);
    let output = testing::run(command.env("ROWLOCK_MESSAGES", "/of/others")).expect_success();
    assert_eq!(output.stdout, "<>\n");
    let rowlock = table.rowlock(&[]).get_program().to_str().unwrap().to_owned();
    let script = format!("[ $ROWLOCK_RANK != 0 ] || exec {rowlock} sort --ranks 2 --record 20 in out");
    let failed = testing::run(&mut prun(&table, &["-n", "257", "--bind", "none"], &["sh", "-c", &script]));
    failed.expect_exit(2).expect_stderr("only jobs of 1 to 256 ranks can exchange messages: this one has 257");
}

#[test]
fn ranks_find_the_memory_for_messages() {
    let table = Table::new();
    // As many bytes as for two ranks, in all of them.
    let script = "stat --dereference --format=%s $ROWLOCK_MESSAGES";
    let output = testing::run(&mut prun(&table, &["-n", "2"], &["sh", "-c", script])).expect_success();
    let expected = message::memory::create(2).unwrap().file().metadata().unwrap().len();
    assert_eq!(output.stdout, format!("{expected}\n{expected}\n"));
}

/// Runs a command with a line of standard input.
fn run_with_input(command: &mut Command) -> Output {
    let mut child = Child::start_piped(command);
    child.write_line("hello");
    child.wait()
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn calls_do_the_same_by_prun_by_the_launcher_by_exec_and_by_both() {
    for library in LIBRARIES {
        for (source, numbers) in [(CALLS, &[1, 2, 4, 8][..]), (THREADS, &[2])] {
            let program = Program::new(library.compiler, source);
            let name = program.name();
            for ranks in numbers.iter().map(|ranks: &u32| ranks.to_string()) {
                let launched = [library.launcher, &[&*ranks, &*name]].concat();
                let mut plain = testing::command(launched[0]);
                let plain = testing::run(plain.args(&launched[1..])).expect_success().stdout;
                assert!(!plain.is_empty());
                let table = Table::new();
                for mut other in [
                    prun(&table, &["-n", &ranks], &[&name]),
                    prun(&table, &["-n", &ranks, "--wait", "none"], &[&name]),
                    prun(&table, &["-n", &ranks, "--how", "strict", "--mechanism", "hint"], &[&name]),
                    prun(&table, &[], &launched),
                    table.rowlock(&[&["exec", "--"], &*launched].concat()),
                ] {
                    let output = testing::run(&mut other).expect_success().stdout;
                    let differ = output.lines().zip(plain.lines()).find(|(one, other)| one != other);
                    assert_eq!(differ, None, "{other:?}");
                    assert!(output == plain, "{other:?}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn programs_in_fortran_and_python_run_as_those_in_c() {
    for library in LIBRARIES {
        let program = Program::new(library.fortran, "ring.f90");
        for (ranks, sum) in [(1, 0), (2, 1), (4, 6)] {
            let output = run(ranks, &program, &[]).expect_success();
            assert_eq!(output.stdout, format!("{ranks} ranks, sum {sum}\n"), "{library:?}");
        }
    }
    // Debian has mpi4py for its own Python, with Open MPI.
    let (table, script) = (Table::new(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mpi/ring.py"));
    let script = script.to_str().unwrap();
    for python in
        [&["/usr/bin/python3", script][..], &["--mpi", "pmix", "--", "sh", "-c", "exec /usr/bin/python3 $0", script]]
    {
        let arguments = [&["prun", "-n", "3"], python].concat();
        let output = testing::run(&mut table.rowlock(&arguments)).expect_success();
        assert_eq!(output.stdout, "3 ranks, sum 3\n");
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn the_exit_code_is_that_of_an_abort_or_of_the_rank_that_fails() {
    for library in LIBRARIES {
        let program = Program::of_tests(library);
        for (arguments, code, message) in [
            (["abort", "42"], 42, "rank 1 has called MPI_Abort (42), so the job has failed"),
            (["abort", "0"], 0, "rank 1 has called MPI_Abort (0), so the job has failed"),
            (["leave", "5"], 5, "rank 1 has failed (exit status: 5), so the job was ended"),
            (["leave", "0"], 1, "rank 1 has ended without MPI_Finalize, so the job has failed"),
            (["exit", "7"], 7, "rank 1 has failed (exit status: 7), so the job was ended"),
            (["exit", "0"], 0, ""),
        ] {
            let output = run(2, &program, &arguments);
            assert_eq!(output.status.code(), Some(code), "{library:?} {arguments:?}: {}", output.stderr);
            assert!(output.stderr.contains(message), "{library:?} {arguments:?}: {}", output.stderr);
        }
        run(2, &program, &["kill"]).expect_signal(6);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn standard_input_goes_to_rank_0() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let output = run_with_input(&mut prun(&table, &["-n", "3"], &[&program.name(), "input"])).expect_success();
        assert_eq!(output.stdout, "18 bytes at 3 ranks: hello\n", "{library:?}");
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn a_job_does_not_outlive_its_terminal() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let mut job = Child::start_piped(&mut prun(&table, &["-n", "2"], &[&program.name(), "meet"]));
        assert_eq!(job.read_line(), "begun");
        job.send(1);
        job.wait().expect_signal(1);
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn calls_that_are_refused_return_an_error_of_the_library() {
    for library in LIBRARIES {
        let output = run(2, &Program::of_tests(library), &["more"]).expect_success();
        assert_eq!(output.stdout, "spawned 0 published 0 found 0\n", "{library:?}");
        let times = output.stderr.matches("rowlock: MPI_Publish_name").count();
        assert_eq!(times, 1, "{library:?}: {}", output.stderr);
        assert!(output.stderr.contains("was refused: a job neither publishes names nor connects with others"));
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_behind_a_wrapper_or_a_script_find_each_other() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let (name, script) = (program.name(), program.folder.path().join("script"));
        std::fs::write(&script, format!("#!/bin/sh\n{name} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        for wrapper in [
            &["env", "A=1", &name, "input"][..],
            &["nice", &name, "input"],
            &["sh", "-c", &format!("{name} input; true")],
            &[script.to_str().unwrap(), "input"],
        ] {
            let output = run_with_input(&mut prun(&table, &["-n", "2"], wrapper)).expect_success();
            assert_eq!(output.stdout, "12 bytes at 2 ranks: hello\n", "{library:?} {wrapper:?}");
        }
        table.expect_gone();
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn a_program_that_uses_no_mpi_has_no_server_of_pmix_unless_it_is_an_interpreter() {
    let table = Table::new();
    let has_server = |command: &[&str]| {
        let output = testing::run(&mut prun(&table, &["-n", "2"], command)).expect_success();
        output.stdout.contains("PMIX_RANK=")
    };
    assert!(!has_server(&["env"]));
    assert!(has_server(&["sh", "-c", "env"]));
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn a_rank_that_ends_before_others_use_mpi_or_meanwhile_fails_the_job() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let name = program.name();
        for script in ["exit 0", "until [ -e begun ]; do sleep 0.1; done"] {
            let waits = format!("(sleep 0.5; : > begun) & exec {name}");
            let words = ["-n", "1", "--", "sh", "-c", script, ":", "-n", "1", "--", "sh", "-c", &waits];
            let mut command = table.rowlock(&[&["prun"], &words[..]].concat());
            let output = testing::run(command.current_dir(program.folder.path())).expect_exit(1);
            let cause = match library.waits {
                WaitKind::Mpi => {
                    "rank 1 waits in a barrier for rank 0, which uses MPI no more, or has ended without it"
                }
                _ => "rank 1 waits in MPI_Init for rank 0, which has ended without it",
            };
            output.expect_stderr(&format!("{cause}, so the job has failed"));
        }
        // Ranks that all use no MPI end as they like, and so do those that end by other launchers.
        testing::run(&mut prun(&table, &["-n", "2"], &["sh", "-c", "exit 0"])).expect_success();
        let launched = format!("[ $ROWLOCK_RANK = 1 ] || {} 1 {name}", library.launcher.join(" "));
        testing::run(&mut prun(&table, &["-n", "2"], &["sh", "-c", &launched])).expect_success();
        table.expect_gone();
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_of_two_libraries_are_refused_unless_each_is_alone() {
    let (table, [one, other]) = (Table::new(), LIBRARIES.map(Program::of_tests));
    let (one, other) = (one.name(), other.name());
    let run = |options: &[&str]| {
        let words = [&["prun"], options, &["-n", "1", "--", &*one, ":", "-n", "1", &other]].concat();
        testing::run(&mut table.rowlock(&words))
    };
    run(&[]).expect_exit(2).expect_stderr("is linked to Open MPI, and");
    run(&["--mpi", "none"]).expect_success();
}

#[test]
#[ignore = "needs Open MPI"]
fn without_libpmix_several_ranks_of_open_mpi_are_refused_or_warned_of() {
    let (table, program) = (Table::new(), Program::of_tests(&OPEN_MPI));
    let name = program.name();
    let run = |options: &[&str], command: &[&str]| {
        testing::run(
            prun(&table, &[&["-n", "2"], options].concat(), command).env("ROWLOCK_PMIX", "/nowhere/libpmix.so"),
        )
    };
    let cause = "there is no libpmix, by which programs of Open MPI start: install `libpmix2`";
    let refused = run(&[], &[&name]).expect_exit(1).expect_stderr(&format!("error: {cause}"));
    refused.expect_stderr("; with `--mpi none`, each rank of Open MPI is alone");
    run(&["--mpi", "pmix"], &[&name]).expect_exit(1).expect_stderr(&format!("error: {cause}"));
    run(&[], &["nice", &name]).expect_success().expect_stderr(cause);
    assert_eq!(run(&[], &["nice", "true"]).expect_success().stderr, "");
    assert_eq!(run(&["--mpi", "none"], &[&name]).expect_success().stderr, "");
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_without_their_server_are_alone_and_do_not_belong_to_an_outer_launcher() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let mut alone = prun(&table, &["-n", "2", "--mpi", "none"], &[&program.name(), "input"]);
        let output = run_with_input(&mut alone);
        assert_eq!(output.status.code(), Some(2), "both are rank 0, one without input: {}", output.stderr);
        // Two launchers, each of which starts two ranks.
        let rowlock = prun(&table, &["-n", "2"], &[&program.name(), "input"]);
        let mut outer = testing::command(library.launcher[0]);
        outer.args(&library.launcher[1..]).arg("1").arg(rowlock.get_program()).args(rowlock.get_args());
        outer.env("ROWLOCK_TABLE", table.place());
        let output = run_with_input(&mut outer).expect_success();
        assert_eq!(output.stdout, "12 bytes at 2 ranks: hello\n", "{library:?}");
    }
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_of_prun_wait_by_a_rule_also_in_collective_calls_if_they_share_a_cpu() {
    for library in LIBRARIES {
        let run = |source: &str| {
            let (table, program) = (Table::new(), Program::new(library.compiler, source));
            let path = program.folder.path().join("region");
            let region = Region::create(&path).unwrap();
            let mut command = prun(&table, &["-n", "2", "--cpus", crate::prun::cpu()], &[&program.name()]);
            testing::run(command.env(Environment::REGION, &path)).expect_success();
            region.processes()
        };
        let has_waits = |process: &&ProcessReport| process.waits.iter().any(|waits| waits.kind == library.waits);
        assert_eq!(run(CALLS).iter().filter(has_waits).count(), 2, "{library:?}");
        // They have agreed, so no collective call is left to the library for lack of that.
        let processes = run("program.c");
        let passed = processes.iter().flat_map(|process| &process.waits).flat_map(|waits| &waits.passed_through);
        assert_eq!(passed.filter(|(reason, _)| *reason == Reason::Ranks).count(), 0, "{library:?}");
    }
}

/// The shared memory of this machine that belongs to MPI libraries.
fn segments() -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_one =
        |name: &String| ["mpich_", "ucx_", "vader_", "rowlock-ranks"].iter().any(|begin| name.starts_with(begin));
    names.filter(is_one).collect()
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn a_job_whose_rank_is_killed_ends_and_leaves_nothing() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let before = segments();
        for victim in 0..3 {
            let mut job = Child::start_piped(&mut prun(&table, &["-n", "3"], &[&program.name(), "meet"]));
            assert_eq!(job.read_line(), "begun");
            // There is also a PMIx server, which other trials kill.
            let is_rank = |process: &u32| is_of(*process, &program);
            kill_if_alive(ranks(job.id()).into_iter().filter(is_rank).nth(victim).unwrap());
            let output = job.wait().expect_signal(9);
            let message = format!("rank {victim} has failed (signal: 9 (SIGKILL)), so the job was ended");
            assert!(output.stderr.contains(&message), "{library:?}: {}", output.stderr);
        }
        table.expect_gone();
        // Those of other jobs of this machine may have gone meanwhile.
        let left: Vec<String> = segments().into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(left, [""; 0]);
    }
}

/// Two jobs with a rank on each CPU that poll in their turns only: the hint is all that they get.
#[test]
#[ignore = "needs Open MPI and MPICH"]
fn ranks_sleep_out_of_their_turn() {
    for library in LIBRARIES {
        let (table, program) = (Table::new(), Program::of_tests(library));
        let options = ["-n", "2", "--how", "strict", "--mechanism", "hint"];
        let mut job = Child::start_piped(&mut prun(&table, &options, &[&program.name(), "meet"]));
        assert_eq!(job.read_line(), "begun");
        let _other = table.start(&["-n", "2", "--how", "strict"], SPIN);
        // A rank that did not sleep would be found out, and stopped after 100 ms of others' turns.
        std::thread::sleep(Duration::from_millis(1_000));
        let jobs = table.jobs();
        assert_eq!(jobs[0]["mechanism"], "hint", "{library:?}: {jobs:?}");
    }
}

/// Kills a process of a job, or asks its `prun` to end, some time after its start.
fn kill_one(draws: &mut Draws, table: &Table, program: &Program) {
    let ranks = 1 + draws.below(4);
    let job = Child::start(&mut prun(table, &["-n", &ranks.to_string()], &[&program.name(), "meet"]));
    std::thread::sleep(draws.moment());
    let agent = job.id();
    let choose = |of: Vec<u32>, draws: &mut Draws| (!of.is_empty()).then(|| of[draws.below(of.len())]);
    let victim = match draws.below(6) {
        0 => return end(job, 15),
        1 => return end(job, 2),
        2 => Some(agent),
        // A job goes on without those that would succeed it.
        3 => choose(processes::children(agent).into_iter().filter(|&child| name(child) == "keeper\n").collect(), draws),
        _ => choose(self::ranks(agent), draws),
    };
    victim.into_iter().for_each(kill_if_alive);
    // There may have been nothing to kill yet, or only the PMIx server, which one rank does without.
    if victim.is_none() || ranks == 1 {
        return end(job, 15);
    }
    job.wait();
}

fn end(job: Child, signal: i32) {
    job.send(signal);
    job.wait();
}

/// How many processes execute a program.
fn processes_of(program: &Program) -> usize {
    let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(|&process| is_of(process, program)).count()
}

fn is_of(process: u32, program: &Program) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| exe == program.path())
}

#[test]
#[ignore = "needs Open MPI and MPICH"]
fn nothing_stays_of_many_killed_jobs_of_mpi() {
    let table = Table::new();
    let programs = LIBRARIES.map(Program::of_tests);
    testing::for_each_seed(5, |seed| {
        let (mut draws, before) = (Draws(seed), segments());
        for program in programs.iter().cycle().take(10) {
            kill_one(&mut draws, &table, program);
        }
        for program in &programs {
            until(|| processes_of(program) == 0);
        }
        table.expect_gone();
        // The next job removes the memory that a killed server, or the first rank, could not.
        let left = || segments().into_iter().filter(|name| !before.contains(name));
        for name in left() {
            let old = SystemTime::now() - Duration::from_secs(60);
            File::options().write(true).open(Path::new("/dev/shm").join(name)).unwrap().set_modified(old).unwrap();
        }
        testing::run(&mut prun(&table, &["-n", "2"], &[&programs[0].name()])).expect_success();
        assert_eq!(left().collect::<Vec<_>>(), Vec::<String>::new());
    });
}
