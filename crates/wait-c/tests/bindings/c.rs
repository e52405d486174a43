//! Programs in C and C++.

use testing::c_library::Linked::{self, Shared, Static};

use crate::LIBRARY;

/// Runs a test program, which prints "done" on success.
#[track_caller]
fn check(source: &str, standard: &str) {
    LIBRARY.expect_printed(source, standard, Linked::Shared, "done\n");
}

#[test]
fn the_example_in_c_runs_with_either_library() {
    for linked in [Shared, Static] {
        LIBRARY.expect_printed("examples/barrier.c", "-std=c11", linked, "total 1998000, 8000 waits\n");
    }
}

#[test]
fn the_example_in_cpp_runs() {
    LIBRARY.expect_printed("examples/barrier.cpp", "-std=c++17", Shared, "1000 phases\n");
}

#[test]
fn bad_arguments_are_errors() {
    check("tests/c/arguments.c", "-std=c99");
}

#[test]
fn barriers_work_in_c() {
    check("tests/c/barriers.c", "-std=c11");
}

#[test]
fn locks_work_in_c() {
    check("tests/c/locks.c", "-std=c11");
}

#[test]
fn signals_work_in_c() {
    check("tests/c/signals.c", "-std=c11");
}

#[test]
fn the_barrier_in_cpp_is_used_like_that_of_the_standard_library() {
    check("tests/c/barrier.cpp", "-std=c++20");
}

#[test]
fn the_guide_quotes_the_examples() {
    LIBRARY.expect_quoted("../../docs/c.md", &["examples/barrier.c", "examples/barrier.cpp"]);
}

#[test]
fn only_documented_functions_are_exported() {
    LIBRARY.expect_only_documented_exports();
}

#[test]
#[ignore = "builds everything with optimization; `./check --full` runs it"]
fn the_installed_library_is_found_by_pkg_config() {
    LIBRARY.expect_installed("examples/barrier.c", "total 1998000, 8000 waits\n");
}
