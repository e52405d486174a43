//! Tests of the library in C: programs are compiled against the header, linked with the library,
//! and run.
//!
//! Without a compiler nothing is tested, and a note says so; with `ROWLOCK_REQUIRE_CC` in the
//! environment that is a failure. `CC` names a compiler other than `cc`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[path = "common/library.rs"]
mod library;

use std::collections::BTreeSet;
use std::process::Command;

use library::LIBRARY;
use testing::{c_library, command, run, tool};

const SIGABRT: i32 = 6;

/// Runs a command to its end, and returns its output.
#[track_caller]
fn passes(command: &mut Command) -> String {
    run(command).expect_success().stdout
}

/// How a program is linked.
enum Linked {
    Shared,
    Static,
    /// A program for POSIX threads, by the header that gives it this library.
    Ported,
    /// A program for POSIX threads, with the C library.
    Native,
}

/// Compiles a program without warnings, and calls a function with the command that runs it. Does
/// nothing without a compiler.
fn with_program(source: &str, linked: Linked, then: impl FnOnce(&mut Command)) {
    let (flags, linked): (&[&str], _) = match linked {
        Linked::Shared => (&["-std=c11"], c_library::Linked::Shared),
        Linked::Static => (&["-std=c11"], c_library::Linked::Static),
        Linked::Ported => (&["-include", "my_pthread_port.h"], c_library::Linked::Shared),
        Linked::Native => (&[], c_library::Linked::Without),
    };
    if let Some(program) = LIBRARY.compile(source, &[&["-frounding-math"], flags].concat(), linked) {
        then(&mut program.command());
    }
}

/// Runs a program for POSIX threads, with the C library and with this one. Both must print this.
fn prints_with_either_library(source: &str, output: &str) {
    for linked in [Linked::Native, Linked::Ported] {
        with_program(source, linked, |program| assert_eq!(passes(program), output));
    }
}

#[test]
fn the_headers_contain_exactly_the_exported_functions() {
    let Some(nm) = tool("NM", "nm") else { return };
    let header = |name| std::fs::read_to_string(LIBRARY.include().join(name)).unwrap();
    let symbols =
        passes(command(nm).args(["--dynamic", "--defined-only"]).arg(LIBRARY.folder().join("libmy_pthread.so")));
    let exported: BTreeSet<&str> = symbols.split_whitespace().filter(|name| name.starts_with("my_")).collect();
    let (declarations, port) = (header("my_pthread.h"), header("my_pthread_port.h"));
    let calls = |line: &str| Some(line[..line.find('(')?].rsplit([' ', '*']).next()?.to_owned());
    let functions = || declarations.lines().filter(|line| !line.starts_with([' ', '/', '#', '}', '_']));
    let names = |lines: &[&str]| lines.iter().filter_map(|line| calls(line)).collect::<BTreeSet<_>>();
    let (inline, declared): (Vec<_>, Vec<_>) = functions().partition(|line| line.starts_with("static inline"));
    assert!(names(&declared).iter().map(String::as_str).eq(exported));

    let ported = names(&[declared, inline].concat()).into_iter().filter(|name| name != "my_pthread_configure");
    for name in ported {
        assert!(port.contains(&format!("#define {} {name}\n", &name[3..])), "{name}");
    }
}

#[test]
fn the_program_of_the_study_runs_with_either_library() {
    for linked in [Linked::Shared, Linked::Static] {
        with_program("examples/study.c", linked, |program| {
            assert_eq!(passes(program.args(["2000", "50", "150"])), "sum 1999000\n");
        });
    }
}

#[test]
fn threads_locks_and_conditions_do_what_they_promise() {
    with_program("tests/c/threads.c", Linked::Shared, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn locks_report_every_error() {
    with_program("tests/c/locks.c", Linked::Shared, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn semaphores_barriers_keys_and_the_rest_do_what_they_promise() {
    with_program("tests/c/objects.c", Linked::Shared, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn a_thread_that_calls_nothing_does_not_keep_others_from_running() {
    for linked in [Linked::Shared, Linked::Static] {
        with_program("tests/c/spins.c", linked, |program| assert_eq!(passes(program), "2 right, done\n"));
    }
}

#[test]
fn a_program_with_condition_variables_and_timeouts_is_ported_by_a_header() {
    prints_with_either_library("tests/c/posix/buffer.c", "nothing yet: timed out\nsum 6003000\n");
}

#[test]
fn a_program_with_semaphores_is_ported_by_a_header() {
    let output = "1000 meals, 0 neighbours ate together, 4 places\n0 left, then EAGAIN, ETIMEDOUT\nslept: 0 0\n";
    prints_with_either_library("tests/c/posix/philosophers.c", output);
}

#[test]
fn a_program_with_a_barrier_and_keys_is_ported_by_a_header() {
    let output = "total 7999800000, in parts 7999800000\nprepared 1 time, 20 serial threads\n";
    prints_with_either_library("tests/c/posix/sum.c", output);
}

#[test]
fn a_program_with_reader_writer_locks_and_a_spinning_thread_is_ported_by_a_header() {
    let output = "8 right, 0 unequal, 1000 1000\ntry: Device or resource busy, Device or resource busy\ntwice: 1\n";
    prints_with_either_library("tests/c/posix/readers.c", output);
}

#[test]
fn threads_that_are_interrupted_anywhere_lose_nothing() {
    prints_with_either_library("tests/c/posix/mix.c", "2000 counted, 400 written, 500 freed, 0 wrong\n");
}

#[test]
fn a_process_whose_main_thread_has_exited_lasts_until_the_others_have_ended() {
    with_program("tests/c/exit.c", Linked::Shared, |program| assert_eq!(passes(program), "done\n"));
}

#[test]
fn a_deadlock_ends_the_process_and_names_the_threads() {
    with_program("tests/c/deadlock.c", Linked::Shared, |program| {
        run(program).expect_signal(SIGABRT).expect_stderr("fiber 1").expect_stderr("fiber 2");
    });
}

#[test]
fn a_stack_overflow_is_reported() {
    with_program("tests/c/overflow.c", Linked::Shared, |program| {
        run(program).expect_signal(SIGABRT).expect_stderr("`diver` has overflowed its stack of ");
    });
}
