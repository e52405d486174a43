//! Programs in C and C++.

use std::path::{Path, PathBuf};

use message::{Tag, environment};
use testing::c_library::{CProgram, Linked};
use testing::{Child, tool};

use crate::LIBRARY;

/// The folder of a job's file, and a path in it.
fn job() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("job");
    (folder, path)
}

#[test]
fn the_example_in_c_runs_with_either_library() {
    for linked in [Linked::Shared, Linked::Static] {
        LIBRARY.expect_printed("examples/integral.c", "-std=gnu11", linked, "pi is 3.141593, by 4 ranks\n");
    }
}

#[test]
fn the_example_in_cpp_runs() {
    let printed = "the token was counted 4000 times\n";
    LIBRARY.expect_printed("examples/ring.cpp", "-std=c++17", Linked::Shared, printed);
}

#[test]
fn bad_arguments_are_errors() {
    LIBRARY.expect_printed("tests/c/arguments.c", "-std=c99", Linked::Shared, "done\n");
}

#[test]
fn ranks_that_are_threads_exchange_messages_by_any_rule() {
    LIBRARY.expect_printed("tests/c/threads.c", "-std=c11", Linked::Shared, "done\n");
}

#[test]
fn the_header_is_one_of_cpp() {
    let Some(compiler) = tool("CXX", "c++") else { return };
    let header = LIBRARY.include().join("rowlock_message.h");
    let mut compile = testing::command(compiler);
    compile.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-std=c++11", "-fsyntax-only", "-x", "c++"]);
    testing::run(compile.arg("-include").arg(header).arg("/dev/null")).expect_success();
}

/// Starts a process that joins by a name, and does what `part` says.
fn start(program: &CProgram, path: &Path, rank: u32, ranks: u32, part: &str) -> Child {
    let mut command = program.command();
    Child::start_piped(command.arg(path).args([&rank.to_string(), &ranks.to_string(), part]))
}

#[test]
fn processes_that_join_by_a_name_make_all_calls() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    for ranks in 1..=4 {
        let (folder, path) = job();
        let started: Vec<_> = (0..ranks).map(|rank| start(&program, &path, rank, ranks, "all")).collect();
        for mut rank in started {
            assert_eq!(rank.read_line(), "done");
            rank.wait().expect_success();
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the job has removed its file");
    }
}

#[test]
fn ranks_find_their_job_in_the_environment() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    let file = message::memory::create(2).unwrap();
    let start = |rank: u32| {
        let mut command = program.command();
        command.args(["", &rank.to_string(), "2", "all"]);
        Child::start_piped(command.envs(environment::of_rank(rank, 2, Some(file.path()))))
    };
    for mut rank in [0, 1].map(start) {
        assert_eq!(rank.read_line(), "done");
        rank.wait().expect_success();
    }
}

#[test]
fn ranks_in_c_and_in_rust_are_one_job() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    let (_folder, path) = job();
    let world = message::join_named(&path, 1, 2, message::Waiting::default()).unwrap();
    let rank = start(&program, &path, 0, 2, "echo");
    let mut words = [0_u64; 3];
    world.send(0, u32::MAX, &[7_u64, 8, 9]).unwrap();
    let status = world.receive(0, Tag::Any, &mut words).unwrap();
    assert_eq!((words, status.tag, status.count), ([7, 8, 9], u32::MAX, 3));
    world.barrier().unwrap();
    drop(world);
    rank.wait().expect_success();
}

#[test]
fn the_others_have_an_error_when_a_rank_is_killed() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    let (_folder, path) = job();
    let mut ranks = [(0, "wait"), (1, "wait"), (2, "sleep")].map(|(rank, part)| start(&program, &path, rank, 3, part));
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.read_line(), "ready"));
    let [zero, one, mut killed] = ranks;
    let pid = killed.id();
    killed.process().kill().unwrap();
    killed.process().wait().unwrap();
    for mut rank in [zero, one] {
        let expected = format!("1 a rank has died: rank 2 has died (process {pid}), and the wait may have been for it");
        assert_eq!(rank.read_line(), expected);
        rank.wait().expect_success();
    }
}

#[test]
fn the_guide_quotes_the_example() {
    LIBRARY.expect_quoted("README.md", &["examples/integral.c"]);
}

#[test]
fn only_documented_functions_are_exported() {
    LIBRARY.expect_only_documented_exports();
}

#[test]
#[ignore = "builds everything with optimization; `./check --full` runs it"]
fn the_installed_library_is_found_by_pkg_config() {
    LIBRARY.expect_installed("examples/integral.c", "pi is 3.141593, by 4 ranks\n");
}
