//! Programs in C and C++.

use testing::c_library::{CProgram, Linked};
use testing::{Child, tool};

use crate::LIBRARY;

/// The folder of a job's file, and a path in it.
fn job() -> (tempfile::TempDir, std::path::PathBuf) {
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

/// Starts processes that join by a name. Each does what `part` says.
fn start(program: &CProgram, path: &std::path::Path, ranks: u32, part: impl Fn(u32) -> &'static str) -> Vec<Child> {
    let start = |rank: u32| {
        let mut command = program.command();
        command.arg(path).args([rank.to_string(), ranks.to_string(), part(rank).to_owned()]);
        Child::start_piped(&mut command)
    };
    (0..ranks).map(start).collect()
}

#[test]
fn processes_that_join_by_a_name_make_all_calls() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    for ranks in 1..=4 {
        let (folder, path) = job();
        for mut rank in start(&program, &path, ranks, |_| "all") {
            assert_eq!(rank.read_line(), "done");
            rank.wait().expect_success();
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the job has removed its file");
    }
}

#[test]
fn the_others_have_an_error_when_a_rank_is_killed() {
    let Some(program) = LIBRARY.compile("tests/c/ranks.c", &["-std=c11"], Linked::Shared) else { return };
    let (_folder, path) = job();
    let mut ranks = start(&program, &path, 3, |rank| if rank == 2 { "sleep" } else { "wait" });
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.read_line(), "ready"));
    let mut killed = ranks.pop().unwrap();
    let pid = killed.id();
    killed.process().kill().unwrap();
    killed.process().wait().unwrap();
    for mut rank in ranks {
        let expected = format!("1 a rank has died: rank 2 has died (process {pid}), and the wait may have been for it");
        assert_eq!(rank.read_line(), expected);
        rank.wait().expect_success();
    }
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
