//! `rowlock sort`: files and pipes, reports, messages, exit codes, and failures.

mod faults;
mod gnu;
mod guide;
mod kills;
mod limits;
mod memory;
pub(crate) mod place;
mod ranks;
mod signals;

use std::fs;

use serde_json::Value;

use self::place::{Place, records};

#[test]
fn lines_are_sorted_from_files_and_pipes_to_files_and_pipes() {
    let place = Place::new();
    fs::write(place.path("in"), "b\nc\n\na").unwrap();
    place.rowlock(&["in", "out"]).expect_exit(0);
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "\na\nb\nc\n");
    assert_eq!(place.rowlock(&["in", "-"]).expect_exit(0).stdout, "\na\nb\nc\n");
    let piped = place.shell("set -o pipefail; rowlock sort in - --quiet | cat");
    assert_eq!(piped.expect_exit(0).stdout, "\na\nb\nc\n");
    assert_eq!(place.fed(b"b\na\n", &["-", "-"]).expect_exit(0).stdout, "a\nb\n");
    place.fed(b"b\na\n", &["-", "out"]).expect_exit(0);
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "a\nb\n");
    // A file as standard input is read from its present offset.
    let done = place.shell("{ read skipped; rowlock sort - - --quiet; } < in");
    assert_eq!(done.expect_exit(0).stdout, "\na\nc\n");
    assert_eq!(place.shell("rowlock sort - - --quiet < in").expect_exit(0).stdout, "\na\nb\nc\n");
    assert_eq!(place.left(), ["in", "out"]);
}

#[test]
fn a_file_can_be_sorted_into_itself() {
    let place = Place::new();
    let bytes = records(30_000, 1);
    fs::write(place.path("file"), &bytes).unwrap();
    place.rowlock(&["file", "file", "--record", "20", "--key", "0:4", "--memory", "512KiB", "--verify"]).expect_exit(0);
    let mut expected: Vec<[u8; 20]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    assert!(fs::read(place.path("file")).unwrap() == expected.concat());
    assert_eq!(place.left(), ["file"]);
}

#[test]
fn keys_directions_and_uniqueness_are_respected() {
    let place = Place::new();
    let sorted = |arguments: &[&str]| {
        let done = place.fed(b"a 10\nb 9\nc -1.5\nd 9\n", &[&["-", "-", "--quiet"], arguments].concat()).expect_exit(0);
        done.stdout
    };
    assert_eq!(sorted(&["--key", "2:decimal"]), "c -1.5\nb 9\nd 9\na 10\n");
    assert_eq!(sorted(&["--key", "2:decimal:descending"]), "a 10\nb 9\nd 9\nc -1.5\n");
    assert_eq!(sorted(&["--key", "2:decimal", "--reverse"]), "a 10\nb 9\nd 9\nc -1.5\n");
    assert_eq!(sorted(&["--key", "2:decimal:descending", "--reverse"]), "c -1.5\nb 9\nd 9\na 10\n");
    assert_eq!(sorted(&["--key", "2:decimal", "--unique"]), "c -1.5\nb 9\na 10\n");
    assert_eq!(sorted(&["--key", "2:decimal", "--key", "0:1:descending"]), "c -1.5\nd 9\nb 9\na 10\n");
    assert_eq!(sorted(&["--reverse"]), "d 9\nc -1.5\nb 9\na 10\n");
}

#[test]
fn the_summary_is_text_or_json() {
    let place = Place::new();
    fs::write(place.path("in"), records(10_000, 2)).unwrap();
    let arguments = ["in", "out", "--record", "20", "--memory", "256KiB", "--verify"];
    let done = place.rowlock(&arguments).expect_exit(0);
    assert!(done.stdout.is_empty());
    assert!(
        done.stderr.starts_with("sorted 10000 records: 200 kB in ") && done.stderr.contains("verified"),
        "{}",
        done.stderr
    );
    let quiet = place.rowlock(&[&arguments[..], &["--quiet"]].concat()).expect_exit(0);
    assert!(quiet.stdout.is_empty() && quiet.stderr.is_empty(), "{}", quiet.stderr);
    let done = place.rowlock(&[&arguments[..], &["--format", "json"]].concat()).expect_exit(0);
    let report: Value = crate::json(&done);
    assert_eq!((&report["schema_version"], &report["algorithm"]), (&1.into(), &"merge".into()));
    assert_eq!(
        (&report["records"], &report["bytes"], &report["memory_bytes"]),
        (&10_000.into(), &200_000.into(), &262_144.into())
    );
    assert!(report["runs"].as_u64().unwrap() > 1 && report["passes"] == 1 && report["verified"] == true, "{report}");
    assert!(report["phases"][0]["elapsed_ns"].is_u64() && done.stderr.is_empty(), "{report}");
}

#[test]
fn little_memory_suffices() {
    let place = Place::new();
    fs::write(place.path("in"), records(10_000, 2)).unwrap();
    place.rowlock(&["in", "out", "--record", "20", "--memory", "100K", "--verify"]).expect_exit(0);
}

#[test]
fn a_file_of_few_large_records_is_sorted_if_there_is_memory() {
    let place = Place::new();
    let content = [b'b', b'a'].map(|byte| vec![byte; 500_000]);
    fs::write(place.path("in"), content.concat()).unwrap();
    place.rowlock(&["in", "out", "--record", "500000", "--memory", "64MiB"]).expect_exit(0);
    assert!(fs::read(place.path("out")).unwrap().is_sorted());
    fs::remove_file(place.path("out")).unwrap();
    let refused = place.rowlock(&["in", "out", "--record", "500000", "--memory", "1MiB"]).expect_exit(2);
    refused.expect_stderr("1048576 bytes of memory are too few: 9065536 are needed here; give more with --memory");
}

#[test]
fn bad_arguments_are_refused_and_named() {
    let place = Place::new();
    fs::write(place.path("in"), "b\na\n").unwrap();
    for (arguments, message) in [
        (&["in"][..], "<OUT>"),
        (&["in", "out", "--record", "0"], "at least one byte"),
        (&["in", "out", "--record", "x"], "number of bytes"),
        (&["in", "out", "--record", "5", "--lines"], "--lines"),
        (&["in", "out", "--key", "0:4:decimall"], "decimal"),
        (&["in", "out", "--key", "x"], "`x`"),
        (&["in", "out", "--record", "10", "--key", "8:4"], "8:4"),
        (&["in", "out", "--memory", "512m"], "512MiB"),
        (&["in", "out", "--memory", "63KiB"], "64512 bytes of memory are too few: 65536 are needed"),
        (&["in", "out", "--record", "9223372036854775807"], "in ends within a record: its last 4 bytes"),
        (&["/dev/null", "out", "--record", "9223372036854775807"], "larger than any memory"),
        (&["in", "out", "--tmp", "nowhere"], "nowhere"),
        (&["in", "out", "--tmp", "in"], "in is not a folder"),
        (&["in", "out", "--algorithm", "quicksort"], "columnsort"),
        (&["in", "out", "--algorithm", "columnsort"], "--record"),
        (&["in", "out", "--variant", "io-bound"], "columnsort"),
        (&["in", "-", "--format", "json"], "OUT"),
        (&["in", "-", "--verify"], "verified"),
        (&["missing", "out"], "missing"),
        (&[".", "out"], "."),
        (&["in", "missing/out"], "missing"),
        (&["in", "."], "."),
        (&["in", "out", "--uniqe"], "--unique"),
        (&["in", "out", "-n"], "`--key 0:decimal`"),
    ] {
        let done = place.rowlock(arguments).expect_exit(2);
        assert!(done.stderr.contains(message), "{arguments:?}: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{arguments:?}");
        assert_eq!(place.left(), ["in"], "{arguments:?}");
    }
}

#[test]
fn the_structure_of_the_pipelines_can_be_set_and_errors_are_reported() {
    let place = Place::new();
    fs::write(place.path("in"), records(20_000, 3)).unwrap();
    let run = |structure: &str| {
        let mut command = place.command(&["in", "out", "--record", "20", "--key", "0:4", "--memory", "256KiB"]);
        place.done(command.env("ROWLOCK_PIPELINE", structure).env("ROWLOCK_PIPELINE_REPORT", place.path("report")))
    };
    run("priority=nice-down-io").expect_exit(0);
    let reports = pipeline::RunReport::read(&fs::read_to_string(place.path("report")).unwrap()).unwrap();
    assert!(reports.len() > 1 && reports.iter().all(|report| report.structure.contains("nice-down-io")), "{reports:?}");
    fs::remove_file(place.path("report")).unwrap();
    fs::remove_file(place.path("out")).unwrap();
    let done = run("fork=reed*2");
    assert!(done.stderr.contains("reed") && done.stderr.contains("read"), "{}", done.stderr);
    done.expect_exit(1);
    assert_eq!(place.left(), ["in"]);
}
