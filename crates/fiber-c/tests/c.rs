//! Tests of the library in C: programs are compiled against the header, linked with the library,
//! and run.
//!
//! Without a compiler nothing is tested, and a note says so; with `ROWLOCK_REQUIRE_CC` in the
//! environment that is a failure. `CC` names a compiler other than `cc`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use testing::{command, run, tool};

const SIGABRT: i32 = 6;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command to its end, and returns its output.
#[track_caller]
fn passes(command: &mut Command) -> String {
    run(command).expect_success().stdout
}

/// The folder of both libraries, which are built if necessary.
fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libmy_pthread");
        let files = [("so", "so"), ("so", "so.0"), ("a", "a")]
            .map(|(from, to)| [from, to].map(|end| format!("libmy_pthread.{end}")));
        let files = files.each_ref().map(|[from, to]| (from.as_str(), to.as_str()));
        testing::library::install("rowlock-fiber-c", &folder, &files);
        folder
    })
}

/// Compiles a program without warnings, and calls a function with the command that runs it. Does
/// nothing without a compiler.
fn with_program(source: &str, shared: bool, then: impl FnOnce(&mut Command)) {
    let Some(compiler) = tool("CC", "cc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let libraries = libraries();
    let mut compile = command(compiler);
    compile.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-frounding-math", "-pthread", "-std=c11", "-o"]);
    compile.arg(&program).arg(root().join(source)).arg("-I").arg(root().join("include"));
    match shared {
        true => compile.arg("-L").arg(libraries).args(["-lmy_pthread", "-lm"]),
        false => compile.arg(libraries.join("libmy_pthread.a")).args(["-lgcc_s", "-lm", "-ldl", "-lc"]),
    };
    passes(&mut compile);
    // The C library overwrites freed memory, so that using it shows.
    then(command(program).env("LD_LIBRARY_PATH", libraries).env("MALLOC_PERTURB_", "165"));
}

#[test]
fn the_program_of_the_study_runs_with_either_library() {
    for shared in [true, false] {
        with_program("examples/study.c", shared, |program| {
            assert_eq!(passes(program.args(["2000", "50", "150"])), "sum 1999000\n");
        });
    }
}

#[test]
fn threads_locks_and_conditions_do_what_they_promise() {
    with_program("tests/c/threads.c", true, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn a_process_whose_main_thread_has_exited_lasts_until_the_others_have_ended() {
    with_program("tests/c/exit.c", true, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn a_deadlock_ends_the_process_and_names_the_threads() {
    with_program("tests/c/deadlock.c", true, |program| {
        run(program).expect_signal(SIGABRT).expect_stderr("fiber 1").expect_stderr("fiber 2");
    });
}

#[test]
fn a_stack_overflow_is_reported() {
    with_program("tests/c/overflow.c", true, |program| {
        run(program).expect_signal(SIGABRT).expect_stderr("`diver` has overflowed its stack of 64 KiB");
    });
}
