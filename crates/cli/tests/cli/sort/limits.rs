//! Limits of the process: of memory, files, processes and the size of files. A sort adapts to them,
//! or fails with a sentence. It is never ended by a signal.

use std::fs;

use testing::Output;

use super::place::{Place, records};

const HOW: &str = "--record 20 --key 0:4 --quiet";

/// A folder with records, their sorted form in `expected`, and a target.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("in"), records(10_000, 5)).unwrap();
    place.shell(&format!("rowlock sort in expected {HOW}")).expect_exit(0);
    place
}

/// Sorts within a limit, in the words of `ulimit`. It must succeed, or fail with a sentence and
/// leave the target unchanged.
#[track_caller]
fn sort_within(place: &Place, limit: &str, options: &str) -> Output {
    fs::write(place.path("out"), "as it was").unwrap();
    // The message goes through a pipe: the limit of the size of files applies to a file.
    let line = format!("ulimit -c 0; (ulimit {limit}; exec rowlock sort in out {HOW} {options}) 2>&1 | cat");
    let done = place.shell(&format!("{line}; exit ${{PIPESTATUS[0]}}"));
    let (sorted, unchanged) = (fs::read(place.path("expected")).unwrap(), b"as it was".to_vec());
    let (code, out) = (done.status.code(), fs::read(place.path("out")).unwrap());
    let is_right = match code {
        Some(0) => out == sorted && done.stdout.is_empty(),
        Some(1 | 2) => out == unchanged && done.stdout.starts_with("error: ") && !done.stdout.contains("panicked"),
        _ => false,
    };
    assert_eq!(place.left(), ["expected", "in", "out"], "{limit} {options}");
    done.expect(is_right, &format!("a sorted file or an error, within {limit} {options}"))
}

/// Whether the program can start within this limit, which the dynamic linker cannot report.
fn can_start(place: &Place, limit: &str) -> bool {
    place.shell(&format!("ulimit -c 0; ulimit {limit}; rowlock --version")).status.success()
}

#[test]
fn a_small_file_is_sorted_within_any_limit_of_memory_that_is_not_tiny() {
    let place = place();
    for limit in ["-v 8000000", "-v 3000000", "-v 1000000", "-v 200000", "-d 1000000", "-d 100000"] {
        sort_within(&place, limit, "").expect_exit(0);
    }
}

#[test]
fn every_limit_of_memory_gives_a_sorted_file_or_an_error() {
    let place = place();
    let (mut succeeded, mut failed) = (0, 0);
    let spaces = [400_000, 150_000, 120_000, 100_000, 90_000, 80_000, 70_000, 60_000, 50_000, 40_000, 36_000];
    let data = [200_000, 60_000, 40_000, 30_000, 20_000, 10_000, 5_000];
    let limits = spaces.map(|size| format!("-v {size}")).into_iter().chain(data.map(|size| format!("-d {size}")));
    for limit in limits.filter(|limit| can_start(&place, limit)) {
        for options in ["", "--memory 64KiB", "--memory 1MiB", "--memory 4GiB"] {
            match sort_within(&place, &limit, options).status.code() {
                Some(0) => succeeded += 1,
                _ => failed += 1,
            }
        }
    }
    assert!(succeeded > 20 && failed > 0, "{succeeded} succeeded, {failed} failed");
}

#[test]
fn every_limit_of_open_files_gives_a_sorted_file_or_an_error() {
    let place = place();
    for files in 4..14 {
        sort_within(&place, &format!("-n {files}"), "--memory 128KiB");
    }
    sort_within(&place, "-n 16", "--memory 128KiB").expect_exit(0);
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_an_error_and_no_signal() {
    let place = place();
    for kibibytes in [0, 4, 64, 150] {
        for memory in ["128KiB", "64MiB"] {
            let done = sort_within(&place, &format!("-f {kibibytes}"), &format!("--memory {memory}")).expect_exit(1);
            done.expect_stdout("File too large").expect_stdout("ulimit -f");
        }
    }
    sort_within(&place, "-f 300", "--memory 256KiB").expect_exit(0);
}
