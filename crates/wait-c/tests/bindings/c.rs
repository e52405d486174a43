//! The library in C and C++: programs that are compiled with the header, linked with the library,
//! and run.
//!
//! Without a compiler the tests pass with a note, unless `ROWLOCK_REQUIRE_CC` is set. `CC` and
//! `CXX` name compilers other than `cc` and `c++`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use testing::{command, tool};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command successfully, and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    testing::run(command).expect_success().stdout
}

/// The folder of both libraries, built if necessary.
fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("librowlock_wait");
        let files = [("so", "so"), ("so", "so.0"), ("a", "a")]
            .map(|(from, to)| [from, to].map(|end| format!("librowlock_wait.{end}")));
        let files = files.each_ref().map(|[from, to]| (from.as_str(), to.as_str()));
        testing::library::install("rowlock-wait-c", &folder, &files);
        folder
    })
}

#[derive(Clone, Copy)]
enum Linked {
    Shared,
    Static,
}

/// Compiles a program without warnings, and runs it. Returns `None` without a compiler.
fn run_program(source: &str, standard: &str, linked: Linked) -> Option<String> {
    let is_cpp = source.ends_with("pp");
    let compiler = if is_cpp { tool("CXX", "c++") } else { tool("CC", "cc") }?;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let libraries = libraries();
    let mut compile = command(compiler);
    compile
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread", standard, "-o"])
        .arg(&program)
        .arg(root().join(source))
        .arg("-I")
        .arg(root().join("include"));
    match linked {
        Linked::Shared => compile.arg("-L").arg(libraries).arg("-lrowlock_wait"),
        Linked::Static => compile.arg(libraries.join("librowlock_wait.a")).args(["-lgcc_s", "-lm", "-ldl", "-lc"]),
    };
    run(&mut compile);
    // The C library overwrites freed memory, so that its use is detected.
    Some(run(command(program).env("LD_LIBRARY_PATH", libraries).env("MALLOC_PERTURB_", "165")))
}

/// Runs a test program, which prints "done" on success.
fn check(source: &str, standard: &str) {
    if let Some(printed) = run_program(source, standard, Linked::Shared) {
        assert_eq!(printed, "done\n", "{source}");
    }
}

#[test]
fn the_example_in_c_runs_with_either_library() {
    for linked in [Linked::Shared, Linked::Static] {
        if let Some(printed) = run_program("examples/barrier.c", "-std=c11", linked) {
            assert_eq!(printed, "total 1998000, 8000 waits\n");
        }
    }
}

#[test]
fn the_example_in_cpp_runs() {
    if let Some(printed) = run_program("examples/barrier.cpp", "-std=c++17", Linked::Shared) {
        assert_eq!(printed, "1000 phases\n");
    }
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
    let guide = std::fs::read_to_string(root().join("../../docs/c.md")).unwrap();
    for language in ["c", "cpp"] {
        let example = std::fs::read_to_string(root().join("examples/barrier").with_extension(language)).unwrap();
        let fence = format!("```{language}\n");
        let quotes: Vec<&str> = guide.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(quotes.len() >= 2);
        for quote in quotes {
            assert!(example.contains(quote), "not in the example:\n{quote}");
        }
    }
}

#[test]
fn only_documented_functions_are_exported() {
    let Some(nm) = tool("NM", "nm") else { return };
    let library = libraries().join("librowlock_wait.so");
    let symbols = run(command(nm).args(["--dynamic", "--defined-only", "--format=posix"]).arg(library));
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let (ours, others): (Vec<_>, Vec<_>) = exported.into_iter().partition(|name| name.starts_with("rowlock_"));
    assert_eq!(others, [""; 0]);

    let header = std::fs::read_to_string(root().join("include/rowlock_wait.h")).unwrap();
    let declared = |name: &&str| header.contains(&format!("{name}("));
    let undocumented: Vec<&str> = ours.iter().copied().filter(|name| !declared(name)).collect();
    assert_eq!(undocumented, [""; 0], "exported, but not in the header");
    let calls = header
        .lines()
        .filter(|line| !line.starts_with("//") && line.contains(" rowlock_") | line.contains("*rowlock_"));
    let calls = calls.filter(|line| line.contains('(') && !line.starts_with([' ', '/']));
    assert_eq!(calls.count(), ours.len(), "declared, but not exported");
}

#[test]
#[ignore = "builds everything with optimization; `./check --full` runs it"]
fn the_installed_library_is_found_by_pkg_config() {
    let [Some(compiler), Some(_)] = [tool("CC", "cc"), tool("PKG_CONFIG", "pkg-config")] else { return };
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    run(command(root().join("install.sh")).arg(&prefix));
    let program = folder.path().join("program");
    let flags = run(command("pkg-config")
        .args(["--cflags", "--libs", "rowlock-wait"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    run(command(compiler)
        .args(["-Wall", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(root().join("examples/barrier.c"))
        .args(flags.split_whitespace()));
    let printed = run(command(program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert_eq!(printed, "total 1998000, 8000 waits\n");
}
